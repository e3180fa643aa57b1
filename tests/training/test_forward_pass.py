"""The training forward pass of a Llama against transformers' own."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.training.target import hidden_states


def tiny(heads: int, kv_heads: int) -> LlamaForCausalLM:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=heads * 16,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        initializer_range=0.2,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    return LlamaForCausalLM(config)


def theirs(model: LlamaForCausalLM, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        mask = torch.ones_like(ids)
        return model.model(ids, attention_mask=mask, position_ids=positions, use_cache=False).last_hidden_state


def gradients(model: LlamaForCausalLM, hidden: torch.Tensor, wanted: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    (hidden.float() - wanted).square().mean().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.float() - other.float()).norm() / other.float().norm())


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2)])
def test_states_and_gradients_are_those_of_transformers(heads, kv_heads):
    model = tiny(heads, kv_heads)
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(97, (3, 21), generator=generator)
    positions = torch.rand(3, 21, generator=generator) * 30  # speech and text overlap, so positions are no counts
    wanted = torch.randn(3, 21, heads * 16, generator=generator)
    ours, reference = hidden_states(model, ids, positions), theirs(model, ids, positions)
    assert distance(ours, reference) < 0.03  # both round to bfloat16, at other places
    a, b = gradients(model, ours, wanted), gradients(model, reference, wanted)
    assert a.keys() == b.keys()
    assert max(distance(a[name], b[name]) for name in a) < 0.1
    # The bounds would notice a wrong position or a look ahead.
    assert distance(hidden_states(model, ids, positions.flip(1)), reference) > 0.1
    assert distance(hidden_states(model, ids.flip(1), positions).flip(1), reference) > 0.1
