"""The law of what the real loop says, by many draws, against the law computed from the model itself."""

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.decode.model_runner import ModelRunner
from pcg.decode.sequence import begin
from pcg.decode.speculative import Drafting, speculative
from pcg.groups.groups import Groups
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.rules import coarse, exact
from pcg.sampling import Plain, as_array, draw, probabilities
from pcg.text.prompt import Prompt
from pcg.training.layer_draft import layer_subset

SPEECH = Vocabulary(codes=7, first_code=4, end=2)
TEMPERATURE = 0.8
ROWS = 1000
DRAWS = pytest.mark.parametrize("draws", [5000, pytest.param(200_000, marks=pytest.mark.slow)])


def bound(draws):
    """1.6 times the 0.4 sqrt(9 / draws) by which a sample of a law of 9 outcomes strays from it."""
    return 1.6 * 0.4 * (9 / draws) ** 0.5


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=11, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2
    )
    target = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in target.parameters():
            weight.mul_(5.0 if weight.ndim == 2 else 1.0)
        draft = layer_subset(target, (0,)).eval()
    return [DecodingLlama(model, SPEECH) for model in (target, draft)]


def prompts(rows):
    return [Prompt(torch.tensor([1, 3, 0]), torch.arange(3.0), 3.0)] * rows


def said(models, rule, draws, limit, lookahead=2):
    """The first rounds of `draws` utterances of `limit` tokens, every one with coins of its own."""
    utterances = []
    for first in range(0, draws, ROWS):
        runners = [ModelRunner(model, prompts(ROWS), limit + lookahead + 1) for model in models]
        for each in runners:
            each.prefill()
        generators = [torch.Generator().manual_seed(first + row) for row in range(ROWS)]
        rounds = [[] for _ in range(ROWS)]
        for step in speculative(*runners, rule, Drafting(lookahead), begin(Plain(TEMPERATURE), [limit] * ROWS, generators)):
            for row, round_ in step.items():
                rounds[row].append(round_)
        utterances += rounds
    return utterances


def second_token(rounds):
    """The utterance's second token, the end of speech included; one past it if the utterance ended before."""
    tokens = [t for r in rounds for t in r.tokens] + ([SPEECH.eos] if rounds[-1].ended else [])
    return tokens[1] if len(tokens) > 1 else SPEECH.eos + 1


def first_law(models):
    target = ModelRunner(models[0], prompts(1), 5)
    target.prefill()
    return probabilities(target.feed([0], [[]], 1)[0, 0], TEMPERATURE).double()


def second_law(models):
    """The sum over first tokens x of q(x) q(. | x)."""
    total = torch.zeros(SPEECH.size + 1, dtype=torch.float64)
    first = first_law(models)
    for token in range(SPEECH.codes):
        target = ModelRunner(models[0], prompts(1), 5)
        target.prefill()
        total[:-1] += first[token] * probabilities(target.feed([0], [[token]], 1)[0, 0], TEMPERATURE).double()
    total[-1] = first[SPEECH.eos]
    return total


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
    outcomes = [second_token(rounds) for rounds in said(models, exact, draws, limit=2)]
    assert len(outcomes) == draws
    assert distance(outcomes, second_law(models)) < bound(draws)


def test_the_bound_rejects_a_careless_rule(models):
    outcomes = [second_token(rounds) for rounds in said(models, careless, 5000, limit=2)]
    assert distance(outcomes, second_law(models)) > 1.2 * bound(5000)


@DRAWS
@pytest.mark.parametrize("residual", ["dense", "thinning"])
def test_the_group_that_pcg_draws_has_the_targets_coarse_law(models, residual, draws):
    """Overlapping groups; the group drawn at the first position, whether it was accepted or put in a rejected one's place."""
    sets = [[0, 1, 2], [0, 1, 2, 3], [1, 2], [1, 3, 4], [3, 4], [5, 6], [5, 6], [7]]
    indptr = torch.tensor([0, *torch.tensor([len(s) for s in sets]).cumsum(0).tolist()])
    groups = Groups.from_sets(0.5, indptr, torch.tensor([t for s in sets for t in s]))
    drawn = []
    for rounds in said(models, coarse(groups, residual), draws // 2, limit=1):
        test = rounds[0].tests[0]
        drawn.append(test.group if test.accepted else rounds[0].next_group)
    assert distance(drawn, groups.masses(first_law(models))) < bound(draws // 2)
