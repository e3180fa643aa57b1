"""The probabilities of what the loop emits, by many draws, against those that are computed from the model itself."""

from dataclasses import replace

import pytest
import torch
from tiny_llama import tiny_llama

from pcg.decode.model_runner import ModelRunner
from pcg.decode.sequence import DecodingSequence
from pcg.decode.speculative import to_the_end
from pcg.groups.groups import Groups
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Vocabulary, layer_subset
from pcg.rules import coarse, exact
from pcg.sampling import EntropyAware, Plain, RepetitionAware, as_array, draw
from pcg.text.prompt import Prompt

SPEECH = Vocabulary(codes=7, first_code=4, end=2)
TEMPERATURE = 0.8
PLAIN = Plain(TEMPERATURE)
ROWS, FEW = 1000, 3000
DRAWS = pytest.mark.parametrize("draws", [5000, pytest.param(200_000, marks=pytest.mark.slow)])


def bound(draws):
    """1.6 times the 0.4 sqrt(9 / draws) by which a sample of a law of 9 outcomes strays from it."""
    return 1.6 * 0.4 * (9 / draws) ** 0.5


@pytest.fixture(scope="module")
def models():
    target = tiny_llama()
    return [DecodingLlama(model, SPEECH) for model in (target, layer_subset(target, (0,)).eval())]


def prompts(rows):
    return [Prompt(torch.tensor([1, 3, 0]), torch.arange(3.0), 3.0)] * rows


def spoken(models, rule, draws, limit, state=PLAIN, lookahead=2):
    """The rounds of `draws` utterances of at most `limit` tokens, every one with coins of its own."""
    utterances = []
    for first in range(0, draws, ROWS):
        runners = [ModelRunner(model, prompts(ROWS), limit + lookahead + 1) for model in models]
        for each in runners:
            each.prefill()
        generators = [torch.Generator().manual_seed(first + row) for row in range(ROWS)]
        sequences = [DecodingSequence(row, limit, own, state, rule, lookahead) for row, own in enumerate(generators)]
        rounds = [[] for _ in range(ROWS)]
        for step in to_the_end(*runners, sequences):
            for row, round_ in step.items():
                rounds[row].append(round_)
        utterances += rounds
    return utterances


def last_tokens(utterances, limit):
    """Token number `limit` of each, the end of speech included; one past it if the utterance ended before."""
    found = []
    for rounds in utterances:
        tokens = [t for r in rounds for t in r.tokens] + ([SPEECH.eos] if rounds[-1].ended else [])
        found.append(tokens[limit - 1] if len(tokens) >= limit else SPEECH.size)
    return found


def law_of_last(target, limit, state=PLAIN, before=()):
    """The probabilities `[SPEECH.size + 1]` of what `last_tokens` gives, by enumeration of the texts before it."""
    reader = ModelRunner(target, prompts(1), limit + 1)
    reader.prefill()
    warped = state.warp(reader.feed([0], [before], 1)[0, 0])
    law = torch.zeros(SPEECH.size + 1, dtype=torch.float64)
    if len(before) == limit - 1:
        law[:-1] = warped.probs
        return law
    law[-1] = float(warped.probs[SPEECH.eos])
    for token in range(SPEECH.codes):
        if warped.probs[token] > 0:
            law += float(warped.probs[token]) * law_of_last(target, limit, state.after(token, warped), (*before, token))
    return law


def distance(outcomes, wanted):
    counts = torch.tensor(outcomes).bincount(minlength=len(wanted)).double()
    return float((counts / counts.sum() - wanted).abs().sum() / 2)


def careless(drafted, p, q, coins):
    """As exact, but a rejected token is replaced by a draw from q and not from the residual."""
    told = exact(drafted, p, q, coins)
    if told.next_kind != "resampled":
        return told
    return replace(told, next_token=draw(as_array(q)[told.accepted], float(coins.residual[0])))


@DRAWS
def test_the_second_token_of_sd_has_the_targets_law(models, draws):
    outcomes = last_tokens(spoken(models, exact, draws, limit=2), 2)
    assert len(outcomes) == draws
    assert distance(outcomes, law_of_last(models[0], 2)) < bound(draws)


def test_the_bound_rejects_a_careless_rule(models):
    outcomes = last_tokens(spoken(models, careless, 3000, limit=2), 2)
    assert distance(outcomes, law_of_last(models[0], 2)) > 1.2 * bound(3000)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(EntropyAware(1.5, top_p=0.9), id="eas"),
        pytest.param(RepetitionAware(1.5, top_k=4, top_p=0.7, window=3, share=0.3), id="ras", marks=pytest.mark.slow),
        pytest.param(Plain(1.5, top_k=4, top_p=0.95, penalty=1.5), id="plain with a penalty", marks=pytest.mark.slow),
    ],
)
def test_a_sampler_with_a_memory_keeps_the_targets_law(models, state):
    wanted = law_of_last(models[0], 3, state)
    assert float(wanted.sum()) == pytest.approx(1, abs=1e-5)
    assert distance(last_tokens(spoken(models, exact, FEW, 3, state), 3), wanted) < bound(FEW)
    forgetful = law_of_last(models[0], 3, Plain(1.5))
    assert (forgetful - wanted).abs().sum() / 2 > 2 * bound(FEW), "or the test could not tell the laws apart"


@DRAWS
@pytest.mark.parametrize("residual", ["dense", "thinning"])
def test_the_group_that_pcg_draws_has_the_targets_coarse_law(models, residual, draws):
    """Overlapping groups; the group drawn at the first position, whether it was accepted or put in a rejected one's place."""
    sets = [[0, 1, 2], [0, 1, 2, 3], [1, 2], [1, 3, 4], [3, 4], [5, 6], [5, 6], [7]]
    indptr = torch.tensor([0, *torch.tensor([len(s) for s in sets]).cumsum(0).tolist()])
    groups = Groups.from_sets(0.5, indptr, torch.tensor([t for s in sets for t in s]))
    drawn = []
    for rounds in spoken(models, coarse(groups, residual), draws // 2, limit=1):
        test = rounds[0].tests[0]
        drawn.append(test.group if test.accepted else rounds[0].next_group)
    assert distance(drawn, groups.masses(law_of_last(models[0], 1)[:-1])) < bound(draws // 2)
