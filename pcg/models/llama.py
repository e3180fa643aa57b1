"""A Llama that decodes with pre-allocated KV caches: fused projections, sliced head, rollback by a length.

It takes the weights of a transformers `LlamaForCausalLM` and computes the same function (tested), for any head grouping,
rope scaling and tied or untied head; a `Qwen2ForCausalLM` is the same with biases on its queries, keys and values.
transformers remains the one that trains and saves.
"""

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pcg.models.kernel.attention import SLOTS, rounded_shapes
from pcg.models.kernel.packing import Packed, fits, in_large_pages, is_bfloat16, lanes_here, pack, words_here
from pcg.models.kernel.passes import TOKENS_AT_ONCE, draft_turns, read_tokens
from pcg.models.weights import Checkpoint, FusedWeights, Vocabulary, bytes_of, eight_bits, has_eight_bits

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, Qwen2ForCausalLM

    from pcg.models.feature_draft import FeatureDraft


class Cache:
    """Keys and values of B sequences of up to `capacity` tokens, `[layers, B, kv_heads, ...]`, floats or `words` as
    `pcg.models.kernel.attention` says; of row b only `lengths[b]` count.

    `taps [B, capacity, len(tapped), D]` holds the hidden state of every cached token behind the layers `tapped` (counted from
    1, rising), which a feature draft reads (EAGLE-3, arXiv 2503.01840, section 3.1).
    """

    def __init__(
        self,
        layers: int,
        batch: int,
        heads: int,
        capacity: int,
        dim: int,
        like: Tensor,
        tapped: Sequence[int] = (),
        words: type | None = None,
    ) -> None:
        shapes = ((capacity, dim),) * 2 if words is None else rounded_shapes(capacity)
        self._together = (1, 1) if words is None else (SLOTS, 2)
        self.keys, self.values = (_zeros((layers, batch, heads, *shape), like, words) for shape in shapes)
        self.tapped, self.capacity = tuple(tapped), capacity
        self.taps = _zeros((batch, capacity, len(self.tapped), like.shape[-1]), like)
        self.lengths = [0] * batch

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Keys, values, taps and the tapped layers as the compiled kernel takes them, the same memory."""
        return self.keys.numpy(), self.values.numpy(), self.taps.numpy(), np.array(self.tapped, np.int64)

    @property
    def batch(self) -> int:
        return self.keys.shape[1]

    def roll_back(self, row: int, length: int) -> None:
        """Forget everything in `row` behind its first `length` positions."""
        if not 0 <= length <= self.lengths[row]:
            raise ValueError(f"cannot roll back to {length}: {self.lengths[row]} positions are cached")
        self.lengths[row] = length

    def copy(self, source: int, row: int, start: int, end: int) -> None:
        """Let `row` hold what `source` holds; they agree before `start`, and `source` ends at `end`."""
        for part, together in ((self.keys, self._together[0]), (self.values, self._together[1])):
            places = slice(start // together, -(-end // together))
            part[:, row, :, places] = part[:, source, :, places]
        self.taps[row, start:end] = self.taps[source, start:end]
        self.lengths[row] = end


def _zeros(shape: tuple[int, ...], like: Tensor, words: type | None = None) -> Tensor:
    """Allocate zeros of the type `words`, or that of `like`; on a CPU in large pages, which attention reads faster."""
    if like.device.type == "cpu" and like.dtype == torch.float32:
        return torch.from_numpy(in_large_pages(shape, words or np.float32))
    return torch.zeros(shape, dtype=like.dtype, device=like.device)


class DecodingLlama:
    """The decoding view of a model: ids and positions in, logits over the speech vocabulary out.

    compiled: whether a CPU in float32 reads a few tokens by the compiled kernel, and not by PyTorch; where a shape does not
    suit the kernel (`packing.fits`), PyTorch reads them after all. lanes: floats in a vector of the CPU. rounded: whether the
    kernel rounds what it multiplies to bfloat16, as a GPU does, where the CPU has such products and the weights are exact in
    bfloat16; sums, attention and logits stay in float32. int8: whether matrices and head are rounded to 8 bits.
    """

    def __init__(
        self,
        model: "Checkpoint | LlamaForCausalLM | Qwen2ForCausalLM",
        vocabulary: Vocabulary,
        compiled: bool = True,
        lanes: int | None = None,
        rounded: bool = False,
        int8: bool = False,
    ) -> None:
        read = model if isinstance(model, Checkpoint) else Checkpoint.of(model)
        self.vocabulary = vocabulary
        self.heads, self.kv_heads, self.dim, self.epsilon = read.heads, read.kv_heads, read.dim, read.epsilon
        self.embedding, self.norm = read.embedding, read.norm
        self.head = read.head[vocabulary.model_ids().to(read.head.device)]
        self.inverse_frequency, self.rope_scale = read.inverse_frequency, read.rope_scale
        self.weights, self.int8 = FusedWeights.fuse(read), int8
        if int8:
            self.weights, self.head = self.weights.in_eight_bits(), eight_bits(self.head)
        self._lanes = lanes_here() if lanes is None else lanes
        self.compiled = compiled and not int8 and fits(self.weights, self.dim, self._lanes)
        exact = rounded and self.compiled and is_bfloat16([*self.weights.matrices, self.head])
        self._words = words_here(self._lanes, self.weights.inputs) if exact else None
        self.rounded = self._words is not None

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def precision(self) -> str:
        """Of its matrix products: "float32", "bfloat16", or "int8" where the weights have 8 bits."""
        if self.int8:
            return "int8"
        return "bfloat16" if self.rounded or self.embedding.dtype == torch.bfloat16 else "float32"

    @property
    def bytes_per_step(self) -> int:
        """Bytes of weights that one step of any number of tokens reads at least: all but the embedding."""
        return self._packed.bytes if self.compiled else self.weights.bytes + bytes_of(self.head) + self.norm.nbytes

    @cached_property
    def _packed(self) -> Packed:
        """What the kernel reads; made when it is first asked for, since training and CUDA never do."""
        ends = (self.norm, [self.head], self.embedding)
        return pack(self.weights, [], *ends, self.heads, self.epsilon, self._lanes, self._words)

    def cache(self, batch: int, capacity: int, tapped: Sequence[int] = ()) -> Cache:
        return Cache(self.weights.layers, batch, self.kv_heads, capacity, self.dim, self.embedding, tapped, self._words)

    def rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[..., dim]` of `positions [...]`, the first half of the sines negated."""
        angles = positions.to(self.inverse_frequency)[..., None] * self.inverse_frequency
        cos = torch.cat([angles, angles], -1).cos() * self.rope_scale
        sin = torch.cat([-angles, angles], -1).sin() * self.rope_scale
        return cos.to(self.embedding.dtype), sin.to(self.embedding.dtype)

    def forward(
        self,
        ids: Tensor,
        rotary: tuple[Tensor, Tensor],
        cache: Cache,
        last: int | None = None,
        rows: Sequence[int] | None = None,
    ) -> Tensor:
        """Append `ids [R, T]`, whose positions have the tables `rotary` (each `[R, T, dim]`), to the `rows` of `cache`
        (all of them by default).

        Returns logits `[R, T, V]`, or those of the `last` tokens of each row, `[R, last, V]`.
        """
        count, rows = ids.shape[1], range(cache.batch) if rows is None else rows
        starts = [cache.lengths[row] for row in rows]
        if max(starts) + count > cache.capacity:
            raise ValueError(f"{max(starts) + count} positions do not fit into a cache of {cache.capacity}")
        if self.rounded or (self.compiled and ids.numel() <= TOKENS_AT_ONCE):
            return self._read_in_parts(ids, rotary, cache, last or count, rows)
        at = torch.tensor(starts, device=ids.device)
        picked = None if list(rows) == list(range(cache.batch)) else torch.tensor(rows, device=ids.device)
        logits = self.run(ids, rotary, cache, at, max(starts) + count, last or count, picked)
        for row, start in zip(rows, starts, strict=True):
            cache.lengths[row] = start + count
        return logits

    def _read_in_parts(
        self, ids: Tensor, rotary: tuple[Tensor, Tensor], cache: Cache, last: int, rows: Sequence[int]
    ) -> Tensor:
        """`forward` by the kernel, as many tokens at once as it takes."""
        count, parts = ids.shape[1], []
        for first in range(0, count, max(1, TOKENS_AT_ONCE // len(rows))):
            part = slice(first, min(count, first + max(1, TOKENS_AT_ONCE // len(rows))))
            cos, sin = (np.ascontiguousarray(table[:, part].numpy().reshape(-1, self.dim)) for table in rotary)
            new = part.stop - first
            wanted = min(new, max(1, part.stop - (count - last)))
            logits = self.read(ids[:, part].numpy().ravel(), (cos, sin), cache, rows, [new] * len(rows), [wanted] * len(rows))
            parts.append(torch.from_numpy(logits).view(len(rows), wanted, -1))
        return (parts[0] if len(parts) == 1 else torch.cat(parts, 1))[:, -last:]

    def read(
        self,
        ids: np.ndarray,
        rotary: tuple[np.ndarray, np.ndarray],
        cache: Cache,
        rows: Sequence[int],
        counts: Sequence[int],
        lasts: Sequence[int],
        temperatures: Sequence[float] | None = None,
    ) -> np.ndarray:
        """`forward` of a `compiled` model for a few ids, on arrays alone, and each row reads as many as it needs: `ids [N]` are
        `counts[r]` for each of `rows`, one row behind the other, with their tables (each `[N, dim]`). The logits of the
        `lasts[r]` last ones of each row, `[sum of lasts, V]`; their softmax where `temperatures[r]` is above 0."""
        starts = [cache.lengths[row] for row in rows]
        ends = [start + count for start, count in zip(starts, counts, strict=True)]
        if max(ends) > cache.capacity:
            raise ValueError(f"{max(ends)} positions do not fit into a cache of {cache.capacity}")
        places = (np.array(each) for each in (rows, starts, counts, lasts))
        heat = np.zeros(len(rows)) if temperatures is None else np.array(temperatures, np.float64)
        found = read_tokens(self._packed, ids, *rotary, *places, heat, *cache.arrays)
        for row, end in zip(rows, ends, strict=True):
            cache.lengths[row] = end
        return found

    @torch.inference_mode()
    def run(
        self,
        ids: Tensor,
        rotary: tuple[Tensor, Tensor],
        cache: Cache,
        starts: Tensor,
        width: int,
        last: int,
        rows: Tensor | None = None,
    ) -> Tensor:
        """`forward` on tensors alone, without a look at the cache's lengths: what a CUDA graph can replay.

        starts `[R]`: the slot of each row's first token. width: how many slots of the caches are read.
        """
        slots = starts[:, None] + torch.arange(ids.shape[1], device=ids.device)
        where = torch.arange(len(ids), device=ids.device) if rows is None else rows
        mask = visible(slots, width)
        x = F.embedding(ids, self.embedding)
        for layer in range(self.weights.layers):
            x = run_layer(self, layer, x, rotary, cache, slots, mask, rows)
            if layer + 1 in cache.tapped:
                cache.taps[where[:, None], slots, cache.tapped.index(layer + 1)] = x
        return product(F.rms_norm(x[:, -last:], x.shape[-1:], self.norm, self.epsilon), self.head)

    def draft(self, turns: "Turns", cache: Cache) -> "Drawn":
        """Draft a whole turn in one compiled call, for a `compiled` model and up to `TOKENS_AT_ONCE` ids: see `Turns`."""
        taps = np.empty((len(turns.ids), 0, self.embedding.shape[1]), np.float32)
        return compiled_turns(self._packed, turns, taps, cache)


def visible(slots: Tensor, width: int) -> Tensor:
    """Return the mask [R, 1, T, width] of the slots up to each of `slots [R, T]`."""
    return (torch.arange(width, device=slots.device) <= slots[..., None])[:, None]


def run_layer(
    model: "DecodingLlama | FeatureDraft",
    layer: int,
    x: Tensor,
    rotary: tuple[Tensor, Tensor],
    cache: Cache,
    slots: Tensor,
    mask: Tensor,
    rows: Tensor | None = None,
) -> Tensor:
    """Run one decoder layer: attention over a cache, then the gated MLP.

    Args:
        x: hidden states [R, T, D].
        rotary: cosines and sines of their positions, each [R, T, dim].
        cache: gets their keys and values.
        slots: where in the cache they stand [R, T].
        mask: which slots each of them sees (`visible`).
        rows: rows of the cache [R]; None: all of them.

    Returns:
        The hidden states behind the layer [R, T, D].
    """
    (batch, count), width, w = slots.shape, mask.shape[-1], model.weights
    cos, sin = (table[:, None] for table in rotary)
    where = (torch.arange(batch, device=x.device) if rows is None else rows)[:, None]
    bias = w.qkv_bias[layer] if w.qkv_bias.shape[1] else None
    qkv = product(F.rms_norm(x, x.shape[-1:], w.norm[layer], model.epsilon), w.qkv[layer], bias)
    qkv = qkv.view(batch, count, -1, model.dim).transpose(1, 2)
    rotated = qkv[:, : model.heads + model.kv_heads]
    rotated = rotated * cos + rotated.roll(model.dim // 2, -1) * sin
    keys, values = cache.keys[layer], cache.values[layer]
    keys[where, :, slots] = rotated[:, model.heads :].transpose(1, 2)
    values[where, :, slots] = qkv[:, model.heads + model.kv_heads :].transpose(1, 2)
    keys, values = (t[:, :, :width] if rows is None else t[rows, :, :width] for t in (keys, values))
    grouped = model.heads != model.kv_heads
    mixed = F.scaled_dot_product_attention(rotated[:, : model.heads], keys, values, mask, enable_gqa=grouped)
    x = x + product(mixed.transpose(1, 2).reshape(batch, count, -1), w.out[layer])
    gate, up = product(F.rms_norm(x, x.shape[-1:], w.mlp_norm[layer], model.epsilon), w.gate_up[layer]).chunk(2, -1)
    return x + product(F.silu(gate) * up, w.down[layer])


MOST_COMPILED = 16
"""Tokens of a row: each number of them is compiled for itself."""


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x weight^T + bias.

    For a few tokens on a GPU, weights of 8 bits take a compiled kernel that reads them as they are; PyTorch's own would write
    them out in 16 bits first.
    """
    compiled = x.is_cuda and x.shape[1] <= MOST_COMPILED and has_eight_bits(weight)
    return (_compiled_linear() if compiled else F.linear)(x, weight, bias)


@cache
def _compiled_linear() -> Callable[..., Tensor]:
    torch._dynamo.config.recompile_limit = 256  # shapes of rows, tokens and matrices
    return torch.compile(F.linear, dynamic=False, mode="max-autotune-no-cudagraphs")


class Turns(NamedTuple):
    """What a draft does in one round, in R rows of its cache: append `ids [N]`, `counts[r]` of them to row `rows[r]`, whose
    slots have the tables `rotary` (each `[B, capacity, dim]`); then draw a token by each of `coins[r]` (at least one) from the
    softmax at `temperatures[r]`, and append it, but for the last. ids_of `[V]`: the id of each token."""

    ids: np.ndarray
    rows: Sequence[int]
    counts: Sequence[int]
    rotary: tuple[np.ndarray, np.ndarray]
    coins: Sequence[np.ndarray]
    temperatures: Sequence[float]
    ids_of: np.ndarray


class Drawn(NamedTuple):
    """Tokens `[R, L]` and their probabilities p `[R, L, V]`, of which each row has as many as it has coins."""

    tokens: np.ndarray
    probs: np.ndarray


def compiled_turns(model: Packed, turns: Turns, taps: np.ndarray, cache: Cache) -> Drawn:
    """Play the `turns` of any packed draft. A feature draft has the target's `taps [N, n, D]`, another has n = 0."""
    starts, wanted = [cache.lengths[row] for row in turns.rows], [len(coins) for coins in turns.coins]
    ends = [start + count + more - 1 for start, count, more in zip(starts, turns.counts, wanted, strict=True)]
    if max(ends) > cache.capacity:
        raise ValueError(f"{max(ends)} positions do not fit into a cache of {cache.capacity}")
    if len(wanted) == 1:
        coins = turns.coins[0][None]
    else:
        coins = np.zeros((len(wanted), max(wanted)))
        for mine, given in zip(coins, turns.coins, strict=True):
            mine[: len(given)] = given
    rows, counts, starts_, wanted_ = (np.array(each) for each in (turns.rows, turns.counts, starts, wanted))
    drawing = coins, wanted_, np.array(turns.temperatures, np.float64)
    places = rows, starts_, drawing, *cache.arrays[:2]
    drawn = draft_turns(model, turns.ids_of, turns.ids, counts, *turns.rotary, taps, *places)
    for row, end in zip(turns.rows, ends, strict=True):
        cache.lengths[row] = end
    return Drawn(*drawn)
