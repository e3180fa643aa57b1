"""Llamas that are trained from nothing, their logits of speech, and their forward pass for training on a CPU.

That pass computes the hidden states that transformers computes under bfloat16 autocast (tested), with fused projections,
attention by plain matrix products (PyTorch's fused kernel takes twice as long on a CPU, mostly in its backward pass), and norms
and gates that pass memory once: on two cores a step takes about two thirds of the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.codec.embedded import FSQ
from pcg.models.vocabulary import Vocabulary
from pcg.text.prompt import PhonemeReader
from pcg.training.tokens import IGNORED, Batch


@dataclass(frozen=True)
class Shape:
    """Size of a Llama."""

    layers: int = 12
    width: int = 256
    heads: int = 4
    feed_forward: int = 768


def new_llama(shape: Shape, ids: int, begin: int | None, end: int) -> LlamaForCausalLM:
    """Return a LlamaForCausalLM over so many ids, with tied embeddings and weights that torch draws."""
    config = LlamaConfig(
        vocab_size=ids,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=begin,
        eos_token_id=end,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config)


def new_target(reader: PhonemeReader, vocabulary: Vocabulary, shape: Shape, seed: int) -> LlamaForCausalLM:
    """Return a random target over specials, phoneme symbols and speech codes."""
    torch.manual_seed(seed)
    return new_llama(shape, reader.first_code + vocabulary.codes, None, vocabulary.end)


@torch.no_grad()
def start_from_digits(model: LlamaForCausalLM, fsq: FSQ, vocabulary: Vocabulary, seed: int) -> None:
    """Give codes that are close in FSQ digits close embeddings: random Fourier features of the digits (Rahimi and Recht, 2007).

    A head start only; training moves them freely.
    """
    generator = torch.Generator().manual_seed(seed)
    values = fsq.values(torch.arange(vocabulary.codes))
    width = model.config.hidden_size
    frequencies = 2.0 * torch.randn(values.shape[1], width, generator=generator)
    phases = 2 * torch.pi * torch.rand(width, generator=generator)
    features = (values @ frequencies + phases).cos() * 2**0.5 * model.config.initializer_range
    first = vocabulary.first_code
    model.get_input_embeddings().weight[first : first + vocabulary.codes] = features


def speech_logits(model: LlamaForCausalLM, batch: Batch, vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
    """Return logits `[S, V]` at the S positions that have a label, and those labels `[S]`.

    The all-ones mask keeps transformers from reading our overlapping positions as several packed sequences.
    """
    mask = torch.ones_like(batch.ids)
    hidden = model.model(batch.ids, attention_mask=mask, position_ids=batch.positions, use_cache=False).last_hidden_state
    learned = batch.labels != IGNORED
    head = model.get_output_embeddings().weight[vocabulary.model_ids().to(batch.ids.device)]
    return F.linear(hidden[learned], head.to(hidden.dtype)), batch.labels[learned]


PRECISION = torch.bfloat16


class _AttentionFunction(torch.autograd.Function):
    """softmax(scale q k^T + causal mask) v for `q, k, v [N, T, dim]`."""

    @staticmethod
    def forward(ctx: FunctionCtx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ahead = torch.full((q.shape[1], q.shape[1]), -torch.inf, dtype=q.dtype).triu(1)
        ctx.scale = q.shape[-1] ** -0.5
        probs = torch.baddbmm(ahead, q, k.transpose(1, 2), alpha=ctx.scale).softmax(-1)
        ctx.save_for_backward(q, k, v, probs)
        return probs @ v

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, probs = ctx.saved_tensors
        gradient = gradient.contiguous()
        scores = torch._softmax_backward_data(gradient @ v.transpose(1, 2), probs, -1, q.dtype).mul_(ctx.scale)
        return scores @ k, scores.transpose(1, 2) @ q, probs.transpose(1, 2) @ gradient


class _Norm(torch.autograd.Function):
    """Root-mean-square norm of `x [S, D]` (float32) with a gain `[D]`, rounded to PRECISION."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        inverse = (torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]) + epsilon).rsqrt_()
        ctx.save_for_backward(x, gain, inverse)
        return (x * inverse).mul_(gain).to(PRECISION)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, gain, inverse = ctx.saved_tensors
        unit = x * inverse
        gradient = gradient.float()
        of_gain = (gradient * unit).sum(0)
        gradient = gradient * gain
        along = torch.linalg.vecdot(gradient, unit)[:, None] / x.shape[-1]
        return torch.addcmul(gradient, unit, along, value=-1).mul_(inverse), of_gain, None


class _Gate(torch.autograd.Function):
    """silu(gate) up for `gate_up [S, 2 F]`."""

    @staticmethod
    def forward(ctx: FunctionCtx, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        gate, up = gate_up.chunk(2, -1)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
        gate, up = ctx.saved_tensors[0].chunk(2, -1)
        both = torch.empty_like(ctx.saved_tensors[0])
        of_gate, of_up = both.chunk(2, -1)
        torch.mul(gradient, F.silu(gate), out=of_up)
        of_gate.copy_(torch.ops.aten.silu_backward(gradient * up, gate))
        return both


def hidden_states(model: LlamaForCausalLM, ids: Tensor, positions: Tensor) -> Tensor:
    """Return the hidden states `[B, T, D]` behind the final norm, of `ids [B, T]` (padded on the right) at `positions`."""
    return tapped_states(model, ids, positions, ())[1]


def tapped_states(
    model: LlamaForCausalLM, ids: Tensor, positions: Tensor, tapped: Sequence[int]
) -> tuple[dict[int, Tensor], Tensor]:
    """Return the hidden states `[B, T, D]` behind the layers `tapped` (counted from 1), and those of `hidden_states`."""
    batch, count = ids.shape
    config, inner = model.config, model.model
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    dim = inner.layers[0].self_attn.head_dim
    x = inner.embed_tokens(ids).view(batch * count, -1)
    cos, sin = (t.to(PRECISION)[:, :, None] for t in inner.rotary_emb(x, positions))
    taps: dict[int, Tensor] = {}
    for number, layer in enumerate(inner.layers, 1):
        a, m = layer.self_attn, layer.mlp
        qkv = _product(_Norm.apply(x, layer.input_layernorm.weight, config.rms_norm_eps), a.q_proj, a.k_proj, a.v_proj)
        q, k, v = qkv.view(batch, count, -1, dim).split((heads, kv_heads, kv_heads), 2)
        q, k = (t * cos + torch.cat([-t[..., dim // 2 :], t[..., : dim // 2]], -1) * sin for t in (q, k))
        k, v = (t.repeat_interleave(heads // kv_heads, 2) if heads > kv_heads else t for t in (k, v))
        q, k, v = (t.transpose(1, 2).reshape(batch * heads, count, dim) for t in (q, k, v))
        mixed = _AttentionFunction.apply(q, k, v).view(batch, heads, count, dim).transpose(1, 2)
        x = x + _product(mixed.reshape(batch * count, -1), a.o_proj)
        normed = _Norm.apply(x, layer.post_attention_layernorm.weight, config.rms_norm_eps)
        x = x + _product(_Gate.apply(_product(normed, m.gate_proj, m.up_proj)), m.down_proj)
        if number in tapped:
            taps[number] = x.view(batch, count, -1)
    return taps, _Norm.apply(x, inner.norm.weight, config.rms_norm_eps).view(batch, count, -1)


def _product(x: Tensor, *layers: torch.nn.Linear) -> Tensor:
    weights = [layer.weight.to(PRECISION) for layer in layers]
    return F.linear(x, torch.cat(weights) if len(weights) > 1 else weights[0])
