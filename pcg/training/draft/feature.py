"""A feature draft that learns: `pcg.models.feature_draft` as a module, started from its target's weights.

As in the loop, the first step reads the target's hidden states, and each further one the draft's own states of the step before,
at every position at once (EAGLE-3: Li et al., arXiv 2503.01840, section 3.2).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.models.checkpoint import Checkpoint
from pcg.models.feature_draft import FeatureDraft, FeatureShape, read_feature_draft, unit
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import read_tensors
from pcg.training.data.sequences import IGNORED, Batch


class _Layer(nn.Module):
    def __init__(self, shape: FeatureShape) -> None:
        super().__init__()
        width, rows = shape.hidden_size, shape.num_attention_heads * shape.head_dim
        self.norm, self.mlp_norm = (nn.Parameter(torch.ones(width)) for _ in range(2))
        self.qkv = nn.Linear(width, rows + 2 * shape.num_key_value_heads * shape.head_dim, bias=False)
        self.out = nn.Linear(rows, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * shape.intermediate_size, bias=False)
        self.down = nn.Linear(shape.intermediate_size, width, bias=False)


@dataclass(frozen=True)
class TapPlaces:
    """The positions of a batch whose next token is learned: of row b, `slots [B, N]`, as far as `real [B, N]`."""

    slots: Tensor
    real: Tensor

    @classmethod
    def of(cls, batch: Batch) -> "TapPlaces":
        """The places of `batch`: in each row the learned positions stand side by side and reach to the row's last id."""
        learned = batch.labels != IGNORED
        counts = learned.sum(1, keepdim=True)
        steps = torch.arange(int(counts.max()), device=learned.device)
        slots = learned.int().argmax(1, keepdim=True) + steps
        return cls(slots.clamp(max=learned.shape[1] - 1), steps < counts)

    def pick(self, table: Tensor) -> Tensor:
        """`table [B, S, ...]` at these places, `[B, N, ...]`."""
        return table[torch.arange(len(table), device=table.device)[:, None], self.slots]


class FeatureModel(nn.Module):
    """A feature draft that learns; its weights are named as in `FeatureShape.tensors`. The target's embedding and head are
    frozen."""

    def __init__(self, target: LlamaForCausalLM, vocabulary: Vocabulary, tapped: Sequence[int], rank: int = 0) -> None:
        super().__init__()
        checkpoint = Checkpoint.of(target)
        self.shape, self.vocabulary = FeatureShape.of(checkpoint, tapped, rank), vocabulary
        width = self.shape.hidden_size
        self.features = nn.Linear(len(tapped) * width, width, bias=False)
        self.state, self.token = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.layer = _Layer(self.shape)
        self.norm = nn.Parameter(checkpoint.norm.detach().float().clone())
        for name, tensor in (
            ("embedding", unit(checkpoint.embedding.detach().float())),
            ("speech_head", checkpoint.head.detach()[vocabulary.model_ids().to(target.device)].float()),
            ("inverse_frequency", checkpoint.inverse_frequency.clone()),
        ):
            self.register_buffer(name, tensor, persistent=False)
        self.rope_scale = checkpoint.rope_scale
        if rank:
            self.head_down, self.head_up = map(nn.Parameter, low_rank(self.speech_head, self.norm.detach(), rank))
        _copy_last_layer(self.layer, checkpoint)

    @property
    def head(self) -> Tensor:
        return self.head_up if self.shape.rank else self.speech_head

    def hidden(self, states: Tensor) -> Tensor:
        """What the head multiplies, `[..., D]` or `[..., rank]`."""
        normed = F.rms_norm(states, states.shape[-1:], self.norm, self.shape.rms_norm_eps)
        return F.linear(normed, self.head_down) if self.shape.rank else normed

    def unroll(self, batch: Batch, taps: Tensor, places: TapPlaces, steps: int) -> Iterator[Tensor]:
        """The states `[B, N, D]` of each step at `places`, behind the target's `taps [B, S, layers, D]`.

        Step k at position s is the k-th drafted token of a round that began at s - k + 1: it attends to the keys of what was
        read behind the target up to there, and behind itself since.
        """
        before = torch.cat([torch.zeros_like(taps[:, :1]), taps[:, :-1]], 1)
        tokens = self.token(F.embedding(batch.ids, self.embedding))
        rotary = self._rotary(batch.positions)
        # The sum that layers add to stays in float32, whatever they are computed in.
        x = self.features(unit(before).flatten(-2)).float() + tokens
        keys, values = self._keys(x, rotary)
        x, tokens, rotary = places.pick(x), places.pick(tokens), tuple(map(places.pick, rotary))
        own: list[tuple[Tensor, Tensor]] = []
        states = x
        for step in range(steps):
            if step:
                x = self.state(unit(later(states, 1, 1))).float() + tokens
                own = [(later(k, 1, 2), later(v, 1, 2)) for k, v in own] + [self._keys(x, rotary)]
            mixed = _attend(self._queries(x, rotary), keys, values, places.slots - step, own)
            states = self._rest(x, mixed)
            yield states

    def decoding(self, target: Checkpoint) -> FeatureDraft:
        """What drafts with these weights beside `target`."""
        tensors = {name: tensor.detach() for name, tensor in self.state_dict().items()}
        return FeatureDraft(self.shape, tensors, target, self.vocabulary)

    def _rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        angles = positions.float()[..., None] * self.inverse_frequency
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([-angles, angles], -1).sin()
        return cos * self.rope_scale, sin * self.rope_scale

    def _project(self, x: Tensor, part: slice) -> Tensor:
        """Rows `part` of queries, keys and values of `x [B, N, D]`, `[B, heads, N, dim]`."""
        normed = F.rms_norm(x, x.shape[-1:], self.layer.norm, self.shape.rms_norm_eps)
        return F.linear(normed, self.layer.qkv.weight[part]).unflatten(-1, (-1, self.shape.head_dim)).transpose(1, 2)

    def _queries(self, x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        rows = self.shape.num_attention_heads * self.shape.head_dim
        return _turn(self._project(x, slice(0, rows)), rotary)

    def _keys(self, x: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Keys and values, repeated so that each query head has its own."""
        rows, heads = self.shape.num_attention_heads * self.shape.head_dim, self.shape.num_key_value_heads
        keys, values = self._project(x, slice(rows, None)).split(heads, 1)
        repeats = self.shape.num_attention_heads // heads
        return _turn(keys, rotary).repeat_interleave(repeats, 1), values.repeat_interleave(repeats, 1)

    def _rest(self, x: Tensor, mixed: Tensor) -> Tensor:
        """The layer behind its attention, whose output is `mixed [B, heads, N, dim]`."""
        x = x + self.layer.out(mixed.transpose(1, 2).flatten(-2))
        normed = F.rms_norm(x, x.shape[-1:], self.layer.mlp_norm, self.shape.rms_norm_eps)
        gate, up = self.layer.gate_up(normed).chunk(2, -1)
        return x + self.layer.down(F.silu(gate) * up)


@torch.no_grad()
def low_rank(head: Tensor, gain: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """`down [rank, D]` and `up [V, rank]`: up down is nearest to `head [V, D]` for inputs of unit RMS times `gain [D]`."""
    if not 1 <= rank <= min(head.shape):
        raise InputError("rank", rank, f"a number from 1 to {min(head.shape)}")
    scaled = (head * gain).double()
    values, vectors = torch.linalg.eigh(scaled.T @ scaled)
    chosen, root = vectors[:, -rank:], values[-rank:].clamp(min=1e-12) ** 0.25
    return (root[:, None] * chosen.T / gain).float(), (scaled @ chosen / root).float()


@torch.no_grad()
def _copy_last_layer(layer: _Layer, target: Checkpoint) -> None:
    """All of the target's last layer but what it adds in the end, so that learning begins at the least squares."""
    prefix = f"model.layers.{target.layers - 1}."

    def stacked(*parts: str) -> Tensor:
        return torch.cat([target.tensors[f"{prefix}{part}.weight"] for part in parts])

    layer.norm.copy_(stacked("input_layernorm"))
    layer.qkv.weight.copy_(stacked(*(f"self_attn.{part}_proj" for part in "qkv")))
    layer.mlp_norm.copy_(stacked("post_attention_layernorm"))
    layer.gate_up.weight.copy_(stacked("mlp.gate_proj", "mlp.up_proj"))
    layer.out.weight.zero_()
    layer.down.weight.zero_()


def _turn(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = (table[:, None].to(x.dtype) for table in rotary)
    return x * cos + x.roll(x.shape[-1] // 2, -1) * sin


def later(x: Tensor, by: int, axis: int) -> Tensor:
    """`x` moved along `axis`: what stood at s stands at s + by; zeros come in."""
    kept = x.narrow(axis, 0, x.shape[axis] - by)
    return torch.cat([torch.zeros_like(x.narrow(axis, 0, by)), kept], axis)


def _attend(q: Tensor, keys: Tensor, values: Tensor, newest: Tensor, own: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Attention of `q [B, H, N, d]` to the slots up to `newest [B, N]` of `keys, values [B, H, S, d]`, and to `own` keys and
    values, each `[B, H, N, d]`, at the queries' own places."""
    scores = q @ keys.transpose(-1, -2)
    hidden = (torch.arange(keys.shape[2], device=q.device) > newest[..., None])[:, None]
    scores = scores.masked_fill(hidden, -torch.inf)
    beside = [(q * k).sum(-1, keepdim=True).to(scores.dtype) for k, _ in own]
    shares = (torch.cat([scores, *beside], -1).float() * q.shape[-1] ** -0.5).softmax(-1).to(values.dtype)
    mixed = shares[..., : keys.shape[2]] @ values
    for place, (_, v) in enumerate(own, keys.shape[2]):
        mixed = mixed + shares[..., place, None] * v
    return mixed


def read_feature_model(folder: Path, target: LlamaForCausalLM, vocabulary: Vocabulary) -> FeatureModel:
    """The feature draft in `folder`, to be trained further beside its `target`; raises as `read_feature_draft` does."""
    read = read_feature_draft(folder, Checkpoint.of(target), vocabulary)
    model = FeatureModel(target, vocabulary, read.tapped, read.shape.rank)
    model.load_state_dict({name: tensor.float() for name, tensor in read_tensors(folder / "model.safetensors").items()})
    return model
