"""A draft that reads its target's hidden states: EAGLE-3 (Li et al., arXiv 2503.01840, section 3.1) in one Llama layer.

The token at slot j stands behind what the target thought at slot j - 1:

    x_j = A1 [unit(h_k at j - 1) for each tapped layer k] + E unit(embedding of token j)

and a token that was only drafted, which the target has not read yet, behind the draft's own state there:

    x_j = A2 unit(g at j - 1) + E unit(embedding of token j),    g = layer(x)

The token that follows has the probabilities of head(norm(g)), where the head is the target's, or one of low rank. unit is RMS
normalisation without a gain. Slot 0 has nothing before it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pcg.errors import AssetError, InputError, first_line
from pcg.models.kernel.packing import Packed, fits, lanes_here, pack, words_here
from pcg.models.llama import Cache, Drawn, FusedWeights, Turns, compiled_turns, run_layer, visible
from pcg.models.weights import Checkpoint, Vocabulary, read_tensors

MODEL_TYPE = "pcg_feature_draft"
UNIT_EPSILON = 1e-6


def unit(x: Tensor) -> Tensor:
    """x / RMS(x) over the last axis."""
    return F.rms_norm(x, x.shape[-1:], None, UNIT_EPSILON)


@dataclass(frozen=True)
class FeatureShape:
    """What `config.json` of a feature draft says. Its layer is shaped, and positions turn in it, as in its target.

    tapped_layers: of the target's `num_target_layers`, counted from 1, rising. rank: of the head; 0 for the target's own.
    """

    tapped_layers: tuple[int, ...]
    num_target_layers: int
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rank: int = 0

    @classmethod
    def of(cls, target: Checkpoint, tapped: Sequence[int], rank: int = 0) -> "FeatureShape":
        """Return the shape that fits `target`."""
        inner = target.tensors["model.layers.0.mlp.gate_proj.weight"].shape[0]
        return cls(tuple(tapped), rank=rank, intermediate_size=inner, rms_norm_eps=target.epsilon, **sizes_of(target))

    def __post_init__(self) -> None:
        numbers = {name: value for name, value in vars(self).items() if name not in ("tapped_layers", "rms_norm_eps")}
        if any(type(value) is not int or value < (name != "rank") for name, value in numbers.items()):
            raise ValueError(f"sizes are {numbers}")
        rising = sorted({0, *self.tapped_layers}) == [0, *self.tapped_layers]
        if not self.tapped_layers or not rising or self.tapped_layers[-1] > self.num_target_layers:
            raise ValueError(f"tapped layers are {self.tapped_layers}")

    def tensors(self, speech: int) -> dict[str, tuple[int, ...]]:
        """Return the weights of such a draft, by name, for `speech` tokens: their shapes."""
        width, inner, rows = self.hidden_size, self.intermediate_size, self.num_attention_heads * self.head_dim
        shapes = {
            "features.weight": (width, len(self.tapped_layers) * width),
            "state.weight": (width, width),
            "token.weight": (width, width),
            "layer.norm": (width,),
            "layer.qkv.weight": (rows + 2 * self.num_key_value_heads * self.head_dim, width),
            "layer.out.weight": (width, rows),
            "layer.mlp_norm": (width,),
            "layer.gate_up.weight": (2 * inner, width),
            "layer.down.weight": (width, inner),
            "norm": (width,),
        }
        return shapes | ({"head_down": (self.rank, width), "head_up": (speech, self.rank)} if self.rank else {})


def usual_taps(depth: int) -> tuple[int, ...]:
    """Return the layers of a target of `depth` that are tapped: those after each quarter of it."""
    return tuple(sorted({max(1, round(depth * quarter / 4)) for quarter in (1, 2, 3, 4)}))


def sizes_of(target: Checkpoint) -> dict[str, int]:
    """Return the sizes of `target` that its feature drafts share."""
    ids, width = target.embedding.shape
    return {
        "num_target_layers": target.layers,
        "vocab_size": ids,
        "hidden_size": width,
        "num_attention_heads": target.heads,
        "num_key_value_heads": target.kv_heads,
        "head_dim": target.dim,
    }


class FeatureDraft:
    """The decoding view of a feature draft: what it adds up as inputs, its layer, and its head."""

    def __init__(
        self,
        shape: FeatureShape,
        tensors: Mapping[str, Tensor],
        target: Checkpoint,
        vocabulary: Vocabulary,
        compiled: bool = True,
        lanes: int | None = None,
        rounded: bool = False,
    ) -> None:
        """tensors: by `FeatureShape.tensors`; they come to the target's device and type. Others: see `DecodingLlama`."""
        own = {name: tensor.to(target.embedding) for name, tensor in tensors.items()}
        self.shape, self.vocabulary, self.tapped = shape, vocabulary, shape.tapped_layers
        self.heads, self.kv_heads, self.dim, self.epsilon = target.heads, target.kv_heads, target.dim, shape.rms_norm_eps
        self.features, self.state = own["features.weight"], own["state.weight"]
        self.tokens = F.linear(unit(target.embedding), own["token.weight"])
        self.weights = FusedWeights(
            norm=own["layer.norm"][None],
            qkv=own["layer.qkv.weight"][None],
            qkv_bias=self.tokens.new_empty(1, 0),
            out=own["layer.out.weight"][None],
            mlp_norm=own["layer.mlp_norm"][None],
            gate_up=own["layer.gate_up.weight"][None],
            down=own["layer.down.weight"][None],
        )
        self.norm, self.head_down = own["norm"], own.get("head_down")
        sliced = target.head[vocabulary.model_ids().to(self.device)] if self.head_down is None else None
        self.head = own["head_up"] if sliced is None else sliced
        self._lanes = lanes_here() if lanes is None else lanes
        self.compiled = compiled and fits(self.weights, self.dim, self._lanes)
        inputs = [*self.weights.inputs, *(m.shape[-1] for m in (self.features, self.state))]
        self._words = words_here(self._lanes, inputs) if rounded and self.compiled else None

    @property
    def device(self) -> torch.device:
        return self.tokens.device

    @property
    def bytes_per_step(self) -> int:
        """Bytes of weights that a step behind the first reads at least."""
        if self.compiled:
            return self._packed.bytes - self.features.numel() * self._packed.bytes_each
        read = [self.state, self.norm, self.head, *([] if self.head_down is None else [self.head_down])]
        return self.weights.bytes + sum(tensor.nbytes for tensor in read)

    @cached_property
    def _packed(self) -> Packed:
        head = [self.head] if self.head_down is None else [self.head_down, self.head]
        ends, how = (self.norm, head, self.tokens), (self.heads, self.epsilon, self._lanes, self._words)
        return pack(self.weights, [self.features, self.state], *ends, *how)

    def draft(self, turns: Turns, taps: np.ndarray, cache: Cache) -> Drawn:
        """Draft as `DecodingLlama.draft` does, in one compiled call. The ids `[N]` are read behind the target's hidden states
        `taps [N, layers, D]` before each, the tokens that are drawn behind the draft's own."""
        return compiled_turns(self._packed, turns, taps, cache)

    def cache(self, batch: int, capacity: int) -> Cache:
        return Cache(1, batch, self.kv_heads, capacity, self.dim, self.tokens)

    @torch.inference_mode()
    def behind_target(self, ids: Tensor, taps: Tensor) -> Tensor:
        """Inputs `[R, T, D]` of the tokens `ids [R, T]`, behind the target's hidden states `taps [R, T, layers, D]`."""
        return F.linear(unit(taps).flatten(-2), self.features) + F.embedding(ids, self.tokens)

    @torch.inference_mode()
    def behind_itself(self, ids: Tensor, states: Tensor) -> Tensor:
        """Inputs `[R, T, D]` of the drafted tokens `ids [R, T]`, behind its own `states [R, T, D]` before each."""
        return F.linear(unit(states), self.state) + F.embedding(ids, self.tokens)

    @torch.inference_mode()
    def run(self, x: Tensor, rotary: tuple[Tensor, Tensor], cache: Cache, rows: Sequence[int]) -> Tensor:
        """Append inputs `x [R, T, D]` with the tables `rotary` to the `rows` of `cache`; return the states `[R, T, D]`."""
        count = x.shape[1]
        starts = torch.tensor([cache.lengths[row] for row in rows], device=self.device)
        slots = starts[:, None] + torch.arange(count, device=self.device)
        width = max(cache.lengths[row] for row in rows) + count
        if width > cache.capacity:
            raise ValueError(f"{width} positions do not fit into a cache of {cache.capacity}")
        picked = torch.tensor(rows, device=self.device)
        states = run_layer(self, 0, x, rotary, cache, slots, visible(slots, width), picked)
        for row in rows:
            cache.lengths[row] += count
        return states

    @torch.inference_mode()
    def logits(self, states: Tensor) -> Tensor:
        """Return what follows `states [..., D]`: logits `[..., V]`."""
        normed = F.rms_norm(states, states.shape[-1:], self.norm, self.epsilon)
        return F.linear(normed if self.head_down is None else F.linear(normed, self.head_down), self.head)


def is_feature_draft(folder: Path) -> bool:
    """Return whether the draft in `folder` says that it is one; whether it is whole is for `read_feature_draft` to tell."""
    try:
        return json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] == MODEL_TYPE
    except (OSError, ValueError, KeyError, TypeError):
        return False


def read_feature_draft(folder: Path, target: Checkpoint, vocabulary: Vocabulary, rounded: bool = False) -> FeatureDraft:
    """Load the feature draft in `folder` for `target`, on its device and in its type. rounded: see `FeatureDraft`.

    Raises AssetError where it is damaged, InputError where it was made for another target.
    """
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        del values["model_type"]
        shape = FeatureShape(**values | {"tapped_layers": tuple(values["tapped_layers"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"The config {folder / 'config.json'} is missing or damaged ({first_line(error)}).") from error
    for name, size in sizes_of(target).items():
        if (found := getattr(shape, name)) != size:
            raise InputError("draft", f"made for a target with {name} {found}", f"made for this one, with {size}")
    tensors = read_tensors(folder / "model.safetensors")
    shapes = shape.tensors(vocabulary.size)
    if lacking := [name for name, size in shapes.items() if name not in tensors or tensors[name].shape != size]:
        raise AssetError(f"The draft in {folder} lacks weights: {lacking[:3]}.")
    return FeatureDraft(shape, {name: tensors[name] for name in shapes}, target, vocabulary, rounded=rounded)


def config_of(shape: FeatureShape) -> dict[str, object]:
    """Return what `config.json` holds."""
    return {"model_type": MODEL_TYPE} | asdict(shape)
