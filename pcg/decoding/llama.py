"""A Llama that decodes with a pre-allocated KV cache: fused projections, sliced head, rollback by a length.

It takes the weights of a transformers `LlamaForCausalLM` and computes the same function (tested), for any head grouping,
rope scaling and tied or untied head. transformers remains the one that loads, trains and saves.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaForCausalLM

from pcg.vocabulary import Vocabulary


@dataclass(frozen=True)
class _Layer:
    norm: Tensor
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class Cache:
    """Keys and values of one sequence batch, `[layers, B, kv_heads, capacity, head_dim]`; only `length` of them count."""

    def __init__(self, layers: int, batch: int, heads: int, capacity: int, dim: int, like: Tensor) -> None:
        shape = (layers, batch, heads, capacity, dim)
        self.keys = torch.zeros(shape, dtype=like.dtype, device=like.device)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    @property
    def capacity(self) -> int:
        return self.keys.shape[3]

    def roll_back(self, length: int) -> None:
        """Forget everything behind the first `length` positions."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot roll back to {length}: {self.length} positions are cached")
        self.length = length


class DecodingLlama:
    """The decoding view of a model: ids and positions in, logits over the speech vocabulary out."""

    def __init__(self, model: LlamaForCausalLM, vocabulary: Vocabulary) -> None:
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
        self.layers = [self._fuse(layer) for layer in model.model.layers]

    @staticmethod
    def _fuse(layer: nn.Module) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return _Layer(
            norm=layer.input_layernorm.weight.detach(),
            qkv=torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]).detach(),
            out=attention.o_proj.weight.detach(),
            mlp_norm=layer.post_attention_layernorm.weight.detach(),
            gate_up=torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).detach(),
            down=mlp.down_proj.weight.detach(),
        )

    def cache(self, batch: int, capacity: int) -> Cache:
        return Cache(len(self.layers), batch, self.kv_heads, capacity, self.dim, self.embedding)

    @torch.inference_mode()
    def forward(
        self, ids: Tensor, positions: Tensor, cache: Cache, last: int | None = None, padding: Tensor | None = None
    ) -> Tensor:
        """Append `ids [B, T]` at `positions [T]` or `[B, T]` to `cache`; return logits `[B, T, V]`, or of the `last` T only.

        padding `[B]`: how many of a row's first cached entries are padding, which nothing attends to.
        """
        batch, count = ids.shape
        start, end = cache.length, cache.length + count
        if end > cache.capacity:
            raise ValueError(f"{end} positions do not fit into a cache of {cache.capacity}")
        angles = positions.to(self.inverse_frequency)[..., None] * self.inverse_frequency
        angles = angles if positions.ndim == 1 else angles[:, None]
        cos = (torch.cat([angles, angles], -1).cos() * self.rope_scale).to(self.embedding.dtype)
        sin = (torch.cat([-angles, angles], -1).sin() * self.rope_scale).to(self.embedding.dtype)
        mask = None
        if count > 1 or padding is not None:
            mask = torch.ones(count, end, dtype=torch.bool, device=ids.device).tril(start)
        if padding is not None:
            real = torch.arange(end, device=ids.device) >= padding[:, None]
            itself = torch.eye(count, end, dtype=torch.bool, device=ids.device).roll(start, 1)
            mask = (mask & real[:, None, None]) | itself
        x = F.embedding(ids, self.embedding)
        for index, layer in enumerate(self.layers):
            keys, values = cache.keys[index], cache.values[index]
            qkv = F.linear(F.rms_norm(x, x.shape[-1:], layer.norm, self.epsilon), layer.qkv)
            qkv = qkv.view(batch, count, -1, self.dim).transpose(1, 2)
            rotated = qkv[:, : self.heads + self.kv_heads]
            rotated = rotated * cos + rotated.roll(self.dim // 2, -1) * sin
            keys[:, :, start:end] = rotated[:, self.heads :]
            values[:, :, start:end] = qkv[:, self.heads + self.kv_heads :]
            mixed = F.scaled_dot_product_attention(
                rotated[:, : self.heads], keys[:, :, :end], values[:, :, :end], mask, enable_gqa=self.heads != self.kv_heads
            )
            x = x + F.linear(mixed.transpose(1, 2).reshape(batch, count, -1), layer.out)
            gate, up = F.linear(F.rms_norm(x, x.shape[-1:], layer.mlp_norm, self.epsilon), layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        cache.length = end
        if last is not None:
            x = x[:, -last:]
        return F.linear(F.rms_norm(x, x.shape[-1:], self.norm, self.epsilon), self.head)
