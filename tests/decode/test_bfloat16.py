"""In bfloat16, as a GPU decodes: speculative decoding says what the target would, within what rounding changes.

With CUDA the recorded loop runs there, by many draws; without it the same functions run plainly on the CPU, by fewer.
"""

import pytest
import torch
from tiny_llama import tiny_llama

from pcg.decode.device_loop import DevicePool, decode
from pcg.decode.model_runner import ModelRunner
from pcg.decode.speculative import Request
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Vocabulary, layer_subset
from pcg.rules import block, exact, tolerant
from pcg.sampling import Plain, probabilities
from pcg.text.prompt import Prompt

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SPEECH = Vocabulary(codes=7, first_code=4, end=2)
PROMPT = Prompt(torch.tensor([1, 3, 0] * 7), torch.arange(21.0), 21.0)
"""Long enough to be read outside of the recorded calls, as real ones are."""
TEMPERATURE, ROWS, LIMIT = 0.8, 1000, 2
DRAWS = 20_000 if DEVICE == "cuda" else 5000
ROUNDING = 0.02
"""By which the probabilities of one wide pass may differ from those of passes of one token, as half the sum of differences."""
BOUND = ROUNDING + 2 * 0.4 * (9 / DRAWS) ** 0.5
"""Of a sample of nine outcomes, beside that."""


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Two tokens need no more rounds."""
    monkeypatch.setattr("pcg.decode.device_loop.BLOCK", 2)


@pytest.fixture(scope="module")
def models():
    target = tiny_llama()
    draft = layer_subset(target, (0,)).eval()
    return [DecodingLlama(model.to(DEVICE, torch.bfloat16), SPEECH) for model in (target, draft)]


def probs_behind(model, tokens, last=1):
    runner = ModelRunner(model, [PROMPT], 8)
    runner.prefill()
    return probabilities(runner.feed([0], [tokens], last)[0], TEMPERATURE).double().cpu()


@pytest.fixture(scope="module")
def second(models):
    """P(second token), the end of speech included, and one place for what had ended before: by passes of one token."""
    first = probs_behind(models[0], [])[0]
    total = torch.zeros(SPEECH.size + 1, dtype=torch.float64)
    for token in range(SPEECH.codes):
        total[:-1] += first[token] * probs_behind(models[0], [token])[0]
    total[-1] = first[SPEECH.eos]
    return total


def said(models, rule):
    """How often each second token is said."""
    pool, found = DevicePool(), torch.zeros(SPEECH.size + 1).double()
    for start in range(0, DRAWS, ROWS):
        generators = [torch.Generator().manual_seed(start + row) for row in range(ROWS)]
        requests = [Request(PROMPT, LIMIT, each, Plain(TEMPERATURE), rule, 2) for each in generators]
        spoken = [[] for _ in requests]
        for step in decode(*models, requests, pool):
            for row, round_ in step.items():
                spoken[row] += [*round_.tokens, *([SPEECH.eos] if round_.ended else [])]
        for tokens in spoken:
            found[tokens[1] if len(tokens) > 1 else SPEECH.eos + 1] += 1
    return found / found.sum()


def distance(one, other):
    return float((one - other).abs().sum() / 2)


def test_a_wide_pass_rounds_within_its_bound(models):
    for tokens in ([0, 1, 2], [3, 3, 6], [5, 0, 4]):
        wide = probs_behind(models[0], tokens, last=4)
        for count, together in enumerate(wide):
            assert distance(together, probs_behind(models[0], tokens[:count])[0]) < ROUNDING


@pytest.mark.parametrize("rule", [exact, pytest.param(block, marks=pytest.mark.slow)])
def test_the_second_token_has_the_targets_probabilities(models, second, rule):
    assert distance(said(models, rule), second) < BOUND


def test_the_bound_refuses_a_tolerance(models, second):
    assert distance(said(models, tolerant(1.0)), second) > BOUND
