"""In bfloat16, as a GPU decodes: speculative decoding says what the target would, within what rounding changes.

With CUDA the recorded loop runs there, by many draws; without it the same functions run plainly on the CPU, by fewer.
"""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.decode.cuda_graphs import GraphModel, GraphRunner
from pcg.decode.sequence import begin
from pcg.decode.speculative import Drafting, speculative
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.rules import block, exact, tolerant
from pcg.sampling import Plain, probabilities
from pcg.synthesis.voice import layer_subset
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
    return [DecodingLlama(model.to(DEVICE, torch.bfloat16), SPEECH) for model in (target, draft)]


def started(static, rows=ROWS):
    runners = GraphRunner(static, [PROMPT] * rows, 8)
    runners.prefill()
    return runners


def probs_behind(static, tokens, last=1):
    return probabilities(started(static, 1).feed([0], [tokens], last)[0], TEMPERATURE).double().cpu()


@pytest.fixture(scope="module")
def second(models):
    """P(second token), the end of speech included, and one place for what had ended before: by passes of one token."""
    static = GraphModel(models[0], 1, 32)
    first = probs_behind(static, [])[0]
    total = torch.zeros(SPEECH.size + 1, dtype=torch.float64)
    for token in range(SPEECH.codes):
        total[:-1] += first[token] * probs_behind(static, [token])[0]
    total[-1] = first[SPEECH.eos]
    return total


def said(models, rule):
    """How often each second token is said."""
    runners, found = [started(GraphModel(model, ROWS, 32)) for model in models], torch.zeros(SPEECH.size + 1).double()
    for start in range(0, DRAWS, ROWS):
        generators = [torch.Generator().manual_seed(start + row) for row in range(ROWS)]
        utterances = begin(Plain(TEMPERATURE), [LIMIT] * ROWS, generators)
        for each in runners:
            for row in range(ROWS):
                each.roll_back(row, -1)  # to where the prompt's last id waits to be read, as after `prefill`
        for _ in speculative(*runners, rule, Drafting(2), utterances):
            pass
        for u in utterances:
            tokens = [*u.emitted, *([SPEECH.eos] if u.ended else [])]
            found[tokens[1] if len(tokens) > 1 else SPEECH.eos + 1] += 1
    return found / found.sum()


def distance(one, other):
    return float((one - other).abs().sum() / 2)


def test_a_wide_pass_rounds_within_its_bound(models):
    static = GraphModel(models[0], 1, 32)
    for tokens in ([0, 1, 2], [3, 3, 6], [5, 0, 4]):
        wide = probs_behind(static, tokens, last=4)
        for count, together in enumerate(wide):
            assert distance(together, probs_behind(static, tokens[:count])[0]) < ROUNDING


@pytest.mark.parametrize("rule", [exact, block])
def test_the_second_token_has_the_targets_probabilities(models, second, rule):
    assert distance(said(models, rule), second) < BOUND


def test_the_bound_refuses_a_tolerance(models, second):
    assert distance(said(models, tolerant(1.0)), second) > BOUND
