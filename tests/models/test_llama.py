"""The decoding Llama against transformers' own forward pass."""

import pytest
import torch
from tiny_llama import tiny_llama
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from pcg.errors import AssetError
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Vocabulary

VOCABULARY = Vocabulary(codes=60, first_code=20, end=3)


SHAPE = {"vocab_size": 80, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}


def make_model(kv_heads: int, tied: bool, rope: dict[str, object] | None = None) -> PreTrainedModel:
    chosen = {"rope_parameters": rope} if rope else {}
    return tiny_llama(1.0, 0, **SHAPE, num_key_value_heads=kv_heads, tie_word_embeddings=tied, **chosen)


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
    check_in_pieces(make_model(kv_heads, tied, rope))


def test_it_computes_a_qwen2_with_its_biases():
    model = tiny_llama(1.0, 0, qwen2=True, **SHAPE, num_key_value_heads=2)
    check_in_pieces(model)
    without = tiny_llama(1.0, 0, qwen2=True, **SHAPE, num_key_value_heads=2)
    with torch.no_grad():
        without.model.layers[1].self_attn.k_proj.bias.zero_()
    with pytest.raises(AssertionError, match="not close"):
        check_in_pieces(model, DecodingLlama(without, VOCABULARY))


def test_a_bias_anywhere_else_is_refused():
    model = LlamaForCausalLM(LlamaConfig(vocab_size=80, hidden_size=32, num_hidden_layers=1, attention_bias=True))
    with pytest.raises(AssetError, match="has biases elsewhere than on queries"):
        DecodingLlama(model, VOCABULARY)


def check_in_pieces(model: PreTrainedModel, decoding: DecodingLlama | None = None) -> None:
    """Two rows of 16 tokens read in pieces have the logits that `model` gives all at once."""
    decoding = decoding or DecodingLlama(model, VOCABULARY)
    ids = torch.randint(0, 80, (2, 16))
    positions = torch.stack([torch.cat([torch.rand(6) * 9, torch.arange(10.0)]), torch.arange(16.0)])
    with torch.no_grad():
        whole = model(ids, attention_mask=torch.ones_like(ids), position_ids=positions).logits
    wanted = whole[..., VOCABULARY.model_ids()]
    cache = decoding.cache(2, 16)
    cuts = ((0, 8), (8, 9), (9, 12), (12, 14), (14, 16))
    pieces = [decoding.forward(ids[:, a:b], decoding.rotary(positions[:, a:b]), cache) for a, b in cuts]
    torch.testing.assert_close(torch.cat(pieces, dim=1), wanted, atol=2e-5, rtol=1e-4)


def test_rows_go_their_own_ways():
    """A batch whose rows have read different numbers of ids computes what each row computes alone."""
    decoding = DecodingLlama(make_model(2, True), VOCABULARY)
    ids, positions = torch.randint(0, 80, (3, 12)), torch.arange(12.0).expand(3, 12)
    lengths, cache = [3, 7, 5], decoding.cache(3, 12)
    alone = []
    for row, length in enumerate(lengths):
        decoding.forward(ids[row : row + 1, :length], decoding.rotary(positions[:1, :length]), cache, rows=[row])
        single = decoding.cache(1, 12)
        alone.append(
            decoding.forward(ids[row : row + 1, : length + 2], decoding.rotary(positions[:1, : length + 2]), single, last=2)
        )
    for rows in ([2, 0], [1]):
        new = torch.stack([ids[row, lengths[row] : lengths[row] + 2] for row in rows])
        at = torch.stack([positions[row, lengths[row] : lengths[row] + 2] for row in rows])
        together = decoding.forward(new, decoding.rotary(at), cache, rows=rows)
        torch.testing.assert_close(together, torch.cat([alone[row] for row in rows]), atol=1e-5, rtol=1e-4)
    assert cache.lengths == [5, 9, 7]


def test_rolling_back_forgets_exactly_what_came_after():
    decoding = DecodingLlama(make_model(4, True), VOCABULARY)
    ids, positions = torch.randint(0, 80, (1, 12)), torch.arange(12.0)[None]
    fresh, reused = decoding.cache(1, 12), decoding.cache(1, 12)
    wanted = decoding.forward(ids, decoding.rotary(positions), fresh)[:, -4:]
    decoding.forward(ids[:, :8], decoding.rotary(positions[:, :8]), reused)
    decoding.forward(torch.randint(0, 80, (1, 3)), decoding.rotary(positions[:, 8:11]), reused)
    reused.roll_back(0, 8)
    torch.testing.assert_close(
        decoding.forward(ids[:, 8:], decoding.rotary(positions[:, 8:]), reused), wanted, atol=1e-5, rtol=1e-4
    )


def test_a_full_cache_says_so():
    decoding = DecodingLlama(make_model(4, True), VOCABULARY)
    with pytest.raises(ValueError, match="do not fit"):
        decoding.forward(torch.zeros(1, 5, dtype=torch.long), decoding.rotary(torch.arange(5.0)[None]), decoding.cache(1, 4))
    with pytest.raises(ValueError, match="roll back"):
        decoding.cache(1, 4).roll_back(0, 1)
