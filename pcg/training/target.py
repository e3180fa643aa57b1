"""Llamas that are trained from nothing, and the hidden states that their heads and a draft read."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.codec.embedded import FSQ
from pcg.models.weights import Vocabulary
from pcg.recipe import Count
from pcg.training.tokens import IGNORED, Batch


@dataclass(frozen=True)
class Shape:
    """Size of a Llama."""

    layers: Count = 12
    width: Count = 256
    heads: Count = 4
    feed_forward: Count = 768


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


def new_target(vocabulary: Vocabulary, shape: Shape, seed: int) -> LlamaForCausalLM:
    """Return a random target over specials, phoneme symbols and speech codes."""
    torch.manual_seed(seed)
    return new_llama(shape, vocabulary.first_code + vocabulary.codes, None, vocabulary.end)


@torch.no_grad()
def start_from_digits(model: LlamaForCausalLM, fsq: FSQ, vocabulary: Vocabulary, seed: int) -> None:
    """Give codes that are close in FSQ digits close embeddings: random Fourier features of the digits (Rahimi and Recht, 2007).

    A head start only; training moves them freely.
    """
    generator, width = torch.Generator().manual_seed(seed), model.config.hidden_size
    values = fsq.values(torch.arange(vocabulary.codes))
    frequencies = 2.0 * torch.randn(values.shape[1], width, generator=generator)
    phases = 2 * torch.pi * torch.rand(width, generator=generator)
    features = (values @ frequencies + phases).cos() * 2**0.5 * model.config.initializer_range
    model.get_input_embeddings().weight[vocabulary.first_code : vocabulary.first_code + vocabulary.codes] = features


def speech_states(model: LlamaForCausalLM, batch: Batch, vocabulary: Vocabulary) -> tuple[Tensor, Tensor, Tensor]:
    """Return the hidden states of the S positions that have a label `[S, D]`, the rows of the head for speech `[V, D]`, and the
    labels `[S]`."""
    _, hidden = read_target(model, batch, ())
    learned = batch.labels != IGNORED
    head = model.get_output_embeddings().weight[vocabulary.model_ids().to(batch.ids.device)]
    return hidden[learned], head, batch.labels[learned]


def read_target(target: LlamaForCausalLM, batch: Batch, tapped: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the target's hidden states of `batch` behind the layers `tapped` (counted from 1), `[B, S, layers, D]`, and those
    that its head multiplies, `[B, S, D]`."""
    states: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        states.append(output if isinstance(output, Tensor) else output[0])

    hooks = [target.model.layers[number - 1].register_forward_hook(keep) for number in sorted(tapped)]
    # The all-ones mask keeps transformers from reading our overlapping positions as several packed sequences.
    mask = torch.ones_like(batch.ids)
    try:
        read = target.model(batch.ids, attention_mask=mask, position_ids=batch.positions, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(states or [read.last_hidden_state], 2), read.last_hidden_state
