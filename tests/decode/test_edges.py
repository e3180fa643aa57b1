"""Ties, full rows, positions and seeds: what is promised where a number lies on an edge, which statistics do not see."""

import numpy as np
import pytest
import torch
from tiny_llama import tiny_llama

from pcg.decode.device_rules import draw_each
from pcg.decode.hf_generate import SpeculativeGenerate
from pcg.decode.model_runner import ModelRunner
from pcg.groups.groups import Groups
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Vocabulary, layer_subset
from pcg.rules import THINNING_TRIALS, Coins, block, coarse, exact
from pcg.sampling import EntropyAware, Plain, RepetitionAware, draw, sampled_spans
from pcg.text.prompt import Prompt

SPEECH = Vocabulary(codes=7, first_code=4, end=2)
PROMPT = Prompt(torch.tensor([1, 3, 0]), torch.tensor([0.0, 1.5, 2.25]), 2.5)
SINGLE = Groups.singletons(2)
RULES = {"exact": exact, "block": block, "dense": coarse(SINGLE), "thinning": coarse(SINGLE, "thinning")}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize(("coin", "token"), [(0.15, 0), (0.25, 1)])
def test_where_nothing_of_the_target_lies_above_the_draft_a_rejected_token_comes_from_the_target(rule, coin, token):
    """Rounding can reject so. Here q is small: a share of .2 is its first token's, and half of p is."""
    p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.1, 0.4], [0.5, 0.5]])
    half, almost = np.full(1, 0.5), np.full(1, 1 - 2**-53)
    coins = Coins(half, almost, half, np.array([coin, 0.5]), np.full((THINNING_TRIALS, 3), 0.5), 0.5)
    verdict = rule(torch.tensor([0]), p, q, coins)
    assert (verdict.accepted, verdict.next_kind, verdict.next_token) == (0, "resampled", token)


@pytest.mark.parametrize("ahead", [0, 255, 256])
def test_a_coin_on_the_border_of_two_tokens_draws_the_second(ahead):
    """On the host and on the device, within a block of weights and at the border of two."""
    weights = torch.cat([torch.zeros(ahead), torch.tensor([0.25, 0.25, 0.5])])
    coins = [0.0, 0.25, 0.5]
    wanted = [ahead, ahead + 1, ahead + 2]
    assert [draw(weights, coin) for coin in coins] == wanted
    assert draw_each(weights, torch.tensor(coins, dtype=torch.float64)).tolist() == wanted


def test_the_nucleus_is_the_fewest_tokens_that_hold_its_share():
    """One of two equal tokens holds half."""
    logits = torch.tensor([0.0, 0.0, -torch.inf])
    assert Plain(1.0, top_p=0.5).warp(logits).probs.tolist() == [1, 0, 0]


def test_a_token_is_worn_out_by_more_than_its_share_of_the_window():
    logits, sampler = torch.tensor([1.0, 0.0, -1.0]), RepetitionAware(1.0, top_p=0.5, window=4, share=0.5)
    twice = sampler.after(0, None).after(0, None)
    assert torch.equal(twice.warp(logits).probs, sampler.warp(logits).probs)
    assert not torch.equal(twice.after(0, None).warp(logits).probs, sampler.warp(logits).probs)


@pytest.mark.parametrize("sampler", [Plain(1.0, penalty=1.5), RepetitionAware(1.0), EntropyAware(1.0)])
def test_a_sampler_remembers_what_stood_and_not_what_was_drafted_behind_it(sampler):
    logits = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    (span,) = sampled_spans([sampler], [logits], [[1, 2, 3]])
    stood = sampler.after(1, sampler.warp(logits[0]))
    assert span.after(1, 5) == stood.after(5, stood.warp(logits[1]))


def runner(model, limit=8):
    made = ModelRunner(DecodingLlama(model, SPEECH), [PROMPT], limit)
    made.prefill()
    return made


def test_speech_stands_at_the_positions_behind_its_prompt():
    """As transformers reads prompt and speech in one, at the positions that the prompt names."""
    model, tokens = tiny_llama(), [5, 0]
    ids = torch.cat([PROMPT.ids, SPEECH.model_ids()[tokens]])[None]
    positions = torch.tensor([[*PROMPT.positions, PROMPT.next_position, PROMPT.next_position + 1]])
    with torch.no_grad():
        wanted = model(ids, position_ids=positions).logits[0, -3:, SPEECH.model_ids()]
    torch.testing.assert_close(runner(model).feed([0], [tokens], 3)[0], wanted, atol=1e-5, rtol=1e-4)


@pytest.fixture(scope="module")
def pair():
    target = tiny_llama(6.0, 0, num_hidden_layers=3, eos_token_id=2, bos_token_id=None)
    return target, layer_subset(target, (0, 2)).eval()


def generated(pair, speculate, rows, room, **more):
    prompt = torch.tensor([[1, 3, 0, 1]]).expand(rows, 4)
    asked = {"do_sample": True, "temperature": 0.9, "top_k": 0, "max_new_tokens": room}
    return pair[0].generate(prompt, custom_generate=speculate, **asked, **more)[:, 4:].tolist()


def test_each_row_of_each_call_has_the_coins_of_a_seed_of_its_own(pair):
    calling, later = (SpeculativeGenerate(*pair, SPEECH, exact, seed=seed) for seed in (3, 5))
    first, second = (generated(pair, calling, 2, 12, pad_token_id=0) for _ in range(2))
    assert second == generated(pair, later, 2, 12, pad_token_id=0)
    assert len({tuple(row) for row in first + second}) == 4


@pytest.mark.parametrize("room", [1, 2, 5])
def test_a_row_says_no_more_than_was_asked_and_is_filled_up_with_the_end(pair, room):
    rows = generated(pair, SpeculativeGenerate(*pair, SPEECH, exact), 60, room)
    assert {len(row) for row in rows} == {room}
    ended = [row for row in rows if SPEECH.end in row]
    assert 0 < len(ended) < len(rows)
    assert all(set(row[row.index(SPEECH.end) :]) == {SPEECH.end} for row in ended)
    assert any(row.index(SPEECH.end) == room - 1 for row in ended), "the end takes the last place"
