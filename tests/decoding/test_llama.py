"""The decoding Llama against transformers' own forward pass."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.decoding.llama import DecodingLlama
from pcg.vocabulary import Vocabulary

VOCABULARY = Vocabulary(codes=60, first_code=20, end=3)


def make_model(kv_heads: int, tied: bool, rope: dict[str, object] | None = None) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=80,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        tie_word_embeddings=tied,
        **({"rope_parameters": rope} if rope else {}),
    )
    return LlamaForCausalLM(config).eval()


LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize(("kv_heads", "tied", "rope"), [(4, True, None), (2, False, None), (1, True, LLAMA3_ROPE)])
def test_it_computes_what_transformers_computes(kv_heads, tied, rope):
    model = make_model(kv_heads, tied, rope)
    decoding = DecodingLlama(model, VOCABULARY)
    ids = torch.randint(0, 80, (1, 16))
    positions = torch.cat([torch.rand(6) * 9, torch.arange(10.0)])
    with torch.no_grad():
        whole = model(ids, attention_mask=torch.ones_like(ids), position_ids=positions[None]).logits
    wanted = whole[..., VOCABULARY.model_ids()]
    cache = decoding.cache(1, 16)
    pieces = [decoding.forward(ids[:, a:b], positions[a:b], cache) for a, b in ((0, 9), (9, 10), (10, 14), (14, 16))]
    torch.testing.assert_close(torch.cat(pieces, dim=1), wanted, atol=1e-5, rtol=1e-4)


def test_rolling_back_forgets_exactly_what_came_after():
    decoding = DecodingLlama(make_model(4, True), VOCABULARY)
    ids, positions = torch.randint(0, 80, (1, 12)), torch.arange(12.0)
    fresh, reused = decoding.cache(1, 12), decoding.cache(1, 12)
    wanted = decoding.forward(ids, positions, fresh)[:, -4:]
    decoding.forward(ids[:, :8], positions[:8], reused)
    decoding.forward(torch.randint(0, 80, (1, 3)), positions[8:11], reused)
    reused.roll_back(8)
    torch.testing.assert_close(decoding.forward(ids[:, 8:], positions[8:], reused), wanted, atol=1e-5, rtol=1e-4)


def test_a_full_cache_says_so():
    decoding = DecodingLlama(make_model(4, True), VOCABULARY)
    with pytest.raises(ValueError, match="do not fit"):
        decoding.forward(torch.zeros(1, 5, dtype=torch.long), torch.arange(5.0), decoding.cache(1, 4))


def test_left_padding_changes_nothing_for_a_row():
    decoding = DecodingLlama(make_model(2, True), VOCABULARY)
    ids, positions = torch.randint(0, 80, (1, 7)), torch.arange(7.0)
    alone = decoding.forward(ids, positions, decoding.cache(1, 7))[:, -1]
    padded = torch.nn.functional.pad(ids, (3, 0))
    batch = torch.cat([padded, torch.randint(0, 80, (1, 10))])
    at = torch.stack([torch.nn.functional.pad(positions, (3, 0)), torch.arange(10.0)])
    together = decoding.forward(batch, at, decoding.cache(2, 10), padding=torch.tensor([3, 0]))[:1, -1]
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
