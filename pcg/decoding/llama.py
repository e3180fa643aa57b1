"""A Llama that decodes with pre-allocated KV caches: fused projections, sliced head, rollback by a length.

It takes the weights of a transformers `LlamaForCausalLM` and computes the same function (tested), for any head grouping,
rope scaling and tied or untied head; a `Qwen2ForCausalLM` is the same with biases on its queries, keys and values.
transformers remains the one that loads, trains and saves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaForCausalLM, Qwen2ForCausalLM

from pcg.decoding.kernel import TOKENS_AT_ONCE, read_head, read_tokens
from pcg.vocabulary import Vocabulary


@dataclass(frozen=True)
class Weights:
    """The weights of all layers, each `[layers, out, in]`; norms `[layers, in]`; biases `[layers, out]`, or `[layers, 0]` where
    a model has none."""

    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor

    @classmethod
    def fuse(cls, layers: Sequence[nn.Module]) -> "Weights":
        def stack(parts: Sequence[Sequence[Tensor]]) -> Tensor:
            return torch.stack([torch.cat(tuple(p.detach() for p in part)) for part in parts])

        attention, mlp = [layer.self_attn for layer in layers], [layer.mlp for layer in layers]
        projections = [[a.q_proj, a.k_proj, a.v_proj] for a in attention]
        others = [*(a.o_proj for a in attention), *(p for m in mlp for p in (m.gate_proj, m.up_proj, m.down_proj))]
        if any(p.bias is not None for p in others):
            raise ValueError("a bias can only stand behind queries, keys and values")
        return cls(
            norm=stack([[layer.input_layernorm.weight] for layer in layers]),
            qkv=stack([[p.weight for p in each] for each in projections]),
            qkv_bias=stack([[p.weight.new_empty(0) if p.bias is None else p.bias for p in each] for each in projections]),
            out=stack([[a.o_proj.weight] for a in attention]),
            mlp_norm=stack([[layer.post_attention_layernorm.weight] for layer in layers]),
            gate_up=stack([[m.gate_proj.weight, m.up_proj.weight] for m in mlp]),
            down=stack([[m.down_proj.weight] for m in mlp]),
        )

    @property
    def layers(self) -> int:
        return len(self.norm)

    @property
    def bytes(self) -> int:
        return sum(getattr(self, f.name).nbytes for f in fields(self))


class Cache:
    """Keys and values of B sequences, `[layers, B, kv_heads, capacity, head_dim]`; of row b only `lengths[b]` count."""

    def __init__(self, layers: int, batch: int, heads: int, capacity: int, dim: int, like: Tensor) -> None:
        shape = (layers, batch, heads, capacity, dim)
        self.keys = torch.zeros(shape, dtype=like.dtype, device=like.device)
        self.values = torch.zeros_like(self.keys)
        self.lengths = [0] * batch

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys and values as the compiled kernel reads them, the same memory."""
        return self.keys.numpy(), self.values.numpy()

    @property
    def batch(self) -> int:
        return self.keys.shape[1]

    @property
    def capacity(self) -> int:
        return self.keys.shape[3]

    def roll_back(self, row: int, length: int) -> None:
        """Forget everything in `row` behind its first `length` positions."""
        if not 0 <= length <= self.lengths[row]:
            raise ValueError(f"cannot roll back to {length}: {self.lengths[row]} positions are cached")
        self.lengths[row] = length

    def copy(self, source: int, row: int, start: int, end: int) -> None:
        """Let `row` hold what `source` holds; they agree before `start`, and `source` ends at `end`."""
        for part in (self.keys, self.values):
            part[:, row, :, start:end] = part[:, source, :, start:end]
        self.lengths[row] = end


class DecodingLlama:
    """The decoding view of a model: ids and positions in, logits over the speech vocabulary out.

    compiled: whether a CPU in float32 reads a few tokens by the compiled kernel, and not by PyTorch.
    """

    def __init__(self, model: LlamaForCausalLM | Qwen2ForCausalLM, vocabulary: Vocabulary, compiled: bool = True) -> None:
        config = model.config
        self.vocabulary = vocabulary
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.dim = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.epsilon = config.rms_norm_eps
        self.embedding = model.get_input_embeddings().weight.detach()
        self.head = model.get_output_embeddings().weight.detach()[vocabulary.model_ids().to(self.embedding.device)]
        self.norm = model.model.norm.weight.detach()
        self.inverse_frequency = model.model.rotary_emb.inv_freq.float()
        self.rope_scale = float(model.model.rotary_emb.attention_scaling)
        self.weights = Weights.fuse(list(model.model.layers))
        self._arrays: list[np.ndarray] = []
        if compiled and self.device.type == "cpu" and self.embedding.dtype == torch.float32:
            self._arrays = [getattr(self.weights, f.name).numpy() for f in fields(self.weights)]
            self._ends = [tensor.numpy() for tensor in (self.embedding, self.norm, self.head)]

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def bytes_per_step(self) -> int:
        """Bytes of weights that one step of any number of tokens reads at least: all but the embedding."""
        return self.weights.bytes + self.head.nbytes + self.norm.nbytes

    def cache(self, batch: int, capacity: int) -> Cache:
        return Cache(self.weights.layers, batch, self.kv_heads, capacity, self.dim, self.embedding)

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
        if self._arrays and ids.numel() <= TOKENS_AT_ONCE:
            logits = self._forward_compiled(ids, rotary, cache, rows, starts, last or count)
        else:
            at = torch.tensor(starts, device=ids.device)
            picked = None if len(rows) == cache.batch else torch.tensor(rows, device=ids.device)
            logits = self.run(ids, rotary, cache, at, max(starts) + count, last or count, picked)
        for row, start in zip(rows, starts, strict=True):
            cache.lengths[row] = start + count
        return logits

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
        batch, count = ids.shape
        cos, sin = (table[:, None] for table in rotary)
        slots = starts[:, None] + torch.arange(count, device=ids.device)
        mask = (torch.arange(width, device=ids.device) <= slots[..., None])[:, None]
        where = torch.arange(batch, device=ids.device) if rows is None else rows
        x, w = F.embedding(ids, self.embedding), self.weights
        for layer in range(w.layers):
            keys, values = cache.keys[layer], cache.values[layer]
            bias = w.qkv_bias[layer] if w.qkv_bias.shape[1] else None
            qkv = F.linear(F.rms_norm(x, x.shape[-1:], w.norm[layer], self.epsilon), w.qkv[layer], bias)
            qkv = qkv.view(batch, count, -1, self.dim).transpose(1, 2)
            rotated = qkv[:, : self.heads + self.kv_heads]
            rotated = rotated * cos + rotated.roll(self.dim // 2, -1) * sin
            keys[where[:, None], :, slots] = rotated[:, self.heads :].transpose(1, 2)
            values[where[:, None], :, slots] = qkv[:, self.heads + self.kv_heads :].transpose(1, 2)
            keys, values = (t[:, :, :width] if rows is None else t[rows, :, :width] for t in (keys, values))
            grouped = self.heads != self.kv_heads
            mixed = F.scaled_dot_product_attention(rotated[:, : self.heads], keys, values, mask, enable_gqa=grouped)
            x = x + F.linear(mixed.transpose(1, 2).reshape(batch, count, -1), w.out[layer])
            gate, up = F.linear(F.rms_norm(x, x.shape[-1:], w.mlp_norm[layer], self.epsilon), w.gate_up[layer]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w.down[layer])
        return F.linear(F.rms_norm(x[:, -last:], x.shape[-1:], self.norm, self.epsilon), self.head)

    def _forward_compiled(
        self,
        ids: Tensor,
        rotary: tuple[Tensor, Tensor],
        cache: Cache,
        rows: Sequence[int],
        starts: Sequence[int],
        last: int,
    ) -> Tensor:
        batch, count = ids.shape
        (embedding, norm, head), epsilon = self._ends, np.float32(self.epsilon)
        x = embedding[ids.numpy().ravel()]
        cos, sin = (table.numpy().reshape(batch * count, self.dim) for table in rotary)
        slots = np.concatenate([np.arange(start, start + count) for start in starts])
        where = np.repeat(rows, count)
        read_tokens(x, cos, sin, where, slots, *cache.arrays, *self._arrays, self.heads, epsilon)
        newest = x if last == count else np.ascontiguousarray(x.reshape(batch, count, -1)[:, -last:]).reshape(batch * last, -1)
        logits = np.empty((len(newest), len(head)), np.float32)
        read_head(newest, norm, head, epsilon, logits)
        return torch.from_numpy(logits).view(batch, last, -1)
