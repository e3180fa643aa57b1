"""A feature draft that learns: `pcg.models.feature_draft` as a module, begun with its target's last layer and unrolled, at
every position at once (EAGLE-3: Li et al., arXiv 2503.01840, section 3.2).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional as F
from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.models.feature_draft import FeatureDraft, FeatureShape, read_feature_draft, unit
from pcg.models.weights import Checkpoint, Vocabulary, read_tensors
from pcg.training.tokens import IGNORED, Batch

CHUNK = 1 << 20
"""Probabilities of a step at once: those of all positions would not fit into memory, and fewer stay in the CPU's cache."""


class _Divergence(torch.autograd.Function):
    """`divergence`, which makes its gradient while it goes through the chunks, as no chunk's probabilities are kept."""

    @staticmethod
    def forward(context: FunctionCtx, *given: Tensor | float) -> tuple[Tensor, Tensor]:
        hidden, head, wanted, wanted_head, weights, kl, tv, temperature = given
        chunk = max(1, CHUNK // len(head))
        slope_hidden, slope_head = torch.empty_like(hidden), torch.zeros_like(head, dtype=torch.float32)
        losses, overlaps = [], []
        for first in range(0, weights.shape[1], chunk):
            part = slice(first, first + chunk)
            log_p = ((hidden[:, part] @ head.T).float() / temperature).log_softmax(-1)
            log_q = ((wanted[part] @ wanted_head.T).float() / temperature).log_softmax(-1)
            p, q = log_p.exp(), log_q.exp()
            overlap = torch.minimum(p, q).sum(-1)
            losses.append((weights[:, part] * (kl * (q * (log_q - log_p)).sum(-1) + tv * (1 - overlap))).sum())
            overlaps.append(overlap)
            # d KL / d logit = p - q, d TV / d logit = p (sum below - [p < q]) with below = p where p < q.
            below = torch.where(p < q, p, 0.0)
            slope = p * (kl + tv * below.sum(-1, keepdim=True)) - kl * q - tv * below
            slope = (slope * (weights[:, part, None] / temperature)).to(hidden.dtype)
            slope_hidden[:, part] = slope @ head
            slope_head += slope.flatten(0, 1).T @ hidden[:, part].flatten(0, 1)
        overlap = torch.cat(overlaps, 1)
        context.save_for_backward(slope_hidden, slope_head.to(head.dtype))
        context.mark_non_differentiable(overlap)
        return torch.stack(losses).sum(), overlap

    @staticmethod
    def backward(context: FunctionCtx, outer: Tensor, _overlap: Tensor) -> tuple[Tensor | None, ...]:
        slope_hidden, slope_head = context.saved_tensors
        return outer * slope_hidden, outer * slope_head, *[None] * 6


def divergence(
    hidden: Tensor, head: Tensor, wanted: Tensor, wanted_head: Tensor, weights: Tensor, kl: float, tv: float, temperature: float
) -> tuple[Tensor, Tensor]:
    """Sum `weights [K, n]` times kl KL(q_i || p_ki) + tv TV(q_i, p_ki) over steps k and positions i.

    p = softmax(hidden head^T / temperature) from `hidden [K, n, R]` and `head [V, R]`; q likewise from `wanted [n, D]` and
    `wanted_head [V, D]`, which do not learn. Also the overlaps sum min(p, q) = 1 - TV, `[K, n]`, without a gradient. TV as a
    draft's loss: Samarin et al., arXiv 2602.23881.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        return _Divergence.apply(hidden, head, wanted, wanted_head, weights, kl, tv, temperature)


class _Layer(nn.Module):
    def __init__(self, shape: FeatureShape) -> None:
        super().__init__()
        width, self.queries = shape.hidden_size, shape.num_attention_heads * shape.head_dim
        self.norm, self.mlp_norm = (nn.Parameter(torch.ones(width)) for _ in range(2))
        self.qkv = nn.Linear(width, self.queries + 2 * shape.num_key_value_heads * shape.head_dim, bias=False)
        self.out = nn.Linear(self.queries, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * shape.intermediate_size, bias=False)
        self.down = nn.Linear(shape.intermediate_size, width, bias=False)


@dataclass(frozen=True)
class TapPlaces:
    """The positions of a batch whose next token is learned: of row b, `slots [B, N]`, as far as `real [B, N]`."""

    slots: Tensor
    real: Tensor

    @classmethod
    def of(cls, batch: Batch) -> "TapPlaces":
        """Find the places of `batch`: in each row the learned positions are contiguous and reach to the row's last id."""
        learned = batch.labels != IGNORED
        counts = learned.sum(1, keepdim=True)
        steps = torch.arange(int(counts.max()), device=learned.device)
        slots = learned.int().argmax(1, keepdim=True) + steps
        return cls(slots.clamp(max=learned.shape[1] - 1), steps < counts)

    def pick(self, table: Tensor) -> Tensor:
        """Return `table [B, S, ...]` at these places, `[B, N, ...]`."""
        return table[torch.arange(len(table), device=table.device)[:, None], self.slots]


class FeatureModel(nn.Module):
    """A feature draft that learns, its weights named as in `FeatureShape.tensors`; the target's are frozen."""

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
        """Return the input of the head, `[..., D]` or `[..., rank]`."""
        normed = F.rms_norm(states, states.shape[-1:], self.norm, self.shape.rms_norm_eps)
        return F.linear(normed, self.head_down) if self.shape.rank else normed

    def unroll(self, batch: Batch, taps: Tensor, places: TapPlaces, steps: int) -> Iterator[Tensor]:
        """Yield the states `[B, N, D]` of each step at `places`, behind the target's `taps [B, S, layers, D]`.

        Step k at position s is the k-th drafted token of a round that began at s - k + 1: it attends to the keys of what was
        read behind the target up to there, and behind itself since.
        """
        tokens = self.token(F.embedding(batch.ids, self.embedding))
        angles = batch.positions.float()[..., None] * self.inverse_frequency
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([-angles, angles], -1).sin()
        rotary = (cos * self.rope_scale, sin * self.rope_scale)
        # The sum that layers add to stays in float32, whatever they are computed in.
        x = self.features(unit(later(taps, 1)).flatten(-2)).float() + tokens
        keys, values = self._keys(x, rotary)
        x, tokens, rotary = places.pick(x), places.pick(tokens), tuple(map(places.pick, rotary))
        own: list[tuple[Tensor, Tensor]] = []
        states = x
        for step in range(steps):
            if step:
                x = self.state(unit(later(states, 1))).float() + tokens
                own = [(later(k, 2), later(v, 2)) for k, v in own] + [self._keys(x, rotary)]
            queries = _turn(self._project(x, slice(self.layer.queries)), rotary)
            mixed = _attend(queries, keys, values, places.slots - step, own)
            x = x + self.layer.out(mixed.transpose(1, 2).flatten(-2))
            normed = F.rms_norm(x, x.shape[-1:], self.layer.mlp_norm, self.shape.rms_norm_eps)
            gate, up = self.layer.gate_up(normed).chunk(2, -1)
            states = x + self.layer.down(F.silu(gate) * up)
            yield states

    def decoding(self, target: Checkpoint) -> FeatureDraft:
        """Return a FeatureDraft with these weights, to draft for `target`."""
        tensors = {name: tensor.detach() for name, tensor in self.state_dict().items()}
        return FeatureDraft(self.shape, tensors, target, self.vocabulary)

    def _project(self, x: Tensor, part: slice) -> Tensor:
        """Rows `part` of queries, keys and values of `x [B, N, D]`, `[B, heads, N, dim]`."""
        normed = F.rms_norm(x, x.shape[-1:], self.layer.norm, self.shape.rms_norm_eps)
        return F.linear(normed, self.layer.qkv.weight[part]).unflatten(-1, (-1, self.shape.head_dim)).transpose(1, 2)

    def _keys(self, x: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return keys and values, repeated so that each query head has its own."""
        heads = self.shape.num_key_value_heads
        keys, values = self._project(x, slice(self.layer.queries, None)).split(heads, 1)
        repeats = self.shape.num_attention_heads // heads
        return _turn(keys, rotary).repeat_interleave(repeats, 1), values.repeat_interleave(repeats, 1)


@torch.no_grad()
def low_rank(head: Tensor, gain: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return `down [rank, D]` and `up [V, rank]`, together nearest to `head [V, D]` for inputs of unit RMS times `gain [D]`."""
    if not 1 <= rank <= min(head.shape):
        raise InputError("rank", rank, f"a number from 1 to {min(head.shape)}")
    scaled = (head * gain).double()
    values, vectors = torch.linalg.eigh(scaled.T @ scaled)
    chosen, root = vectors[:, -rank:], values[-rank:].clamp(min=1e-12) ** 0.25
    return (root[:, None] * chosen.T / gain).float(), (scaled @ chosen / root).float()


@torch.no_grad()
def _copy_last_layer(layer: _Layer, target: Checkpoint) -> None:
    """Copy the target's last layer but its output matrices, which begin at zero."""
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


def later(x: Tensor, axis: int) -> Tensor:
    """Shift `x` by one place along `axis`, and fill with zeros."""
    kept = x.narrow(axis, 0, x.shape[axis] - 1)
    return torch.cat([torch.zeros_like(x.narrow(axis, 0, 1)), kept], axis)


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
    """Read the feature draft in `folder`, to train it further beside its `target`; raises as `read_feature_draft` does."""
    read = read_feature_draft(folder, Checkpoint.of(target), vocabulary)
    model = FeatureModel(target, vocabulary, read.tapped, read.shape.rank)
    model.load_state_dict({name: tensor.float() for name, tensor in read_tensors(folder / "model.safetensors").items()})
    return model


UNROLLED = (1.0, 0.7, 0.5)
"""What each step of the unrolled draft weighs."""


def unrolled_divergence(
    model: FeatureModel, batch: Batch, taps: Tensor, last: Tensor, head: Tensor, kl: float, tv: float, temperature: float = 1.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the weighted divergence of the unrolled draft from the target, summed over the learned tokens, and the overlap of
    each step, times the number of tokens.

    Args:
        taps: hidden states of the target behind the tapped layers, `[B, S, layers, D]`.
        last: hidden states that the target's `head [V, D]` multiplies, `[B, S, D]`; no gradient goes through either.
    """
    places = TapPlaces.of(batch)
    hidden = torch.stack([model.hidden(state[places.real]) for state in model.unroll(batch, taps, places, len(UNROLLED))])
    # A draft's k-th token has k - 1 drafted ones before it.
    depth = torch.arange(places.slots.shape[1], device=hidden.device).expand_as(places.slots)[places.real]
    counts = torch.stack([depth >= step for step in range(len(UNROLLED))]).float()
    weights = counts * torch.tensor(UNROLLED, device=hidden.device)[:, None]
    wanted = places.pick(last)[places.real].detach()
    products = (tensor.bfloat16() for tensor in (hidden, model.head, wanted, head.detach()))
    loss, overlap = divergence(*products, weights, kl, tv, temperature)
    means = (overlap * counts).sum(1) / counts.sum(1).clamp(min=1)
    return loss, {f"overlap_{step}": mean * len(wanted) for step, mean in enumerate(means, 1)}
