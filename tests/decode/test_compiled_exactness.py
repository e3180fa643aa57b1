"""The distribution of what the compiled loop says, kernel and feature draft together, by many draws against the one that
transformers gives, in either precision."""

from collections.abc import Sequence

import pytest
import torch
from test_exactness import SPEECH, TEMPERATURE, bound, careless, distance, prompts
from tiny_llama import tiny_llama
from torch import Tensor
from transformers import LlamaForCausalLM

from pcg.decode.runners import make_runners
from pcg.decode.sequence import DecodingSequence
from pcg.decode.speculative import to_the_end
from pcg.models.feature_draft import FeatureDraft, FeatureShape
from pcg.models.kernel.packing import lanes_here, words_here
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint
from pcg.rules import Rule, exact
from pcg.sampling import Plain
from tests.models.test_kernel import logits_of

ROWS, LENGTH, FEW = 64, 3, 3000
"""Few enough rows for every pass to be compiled."""
LOOKAHEAD = 3
DRAWS = pytest.mark.parametrize("draws", [FEW, pytest.param(200_000, marks=pytest.mark.slow)])

Pair = tuple[DecodingLlama, FeatureDraft]


@pytest.fixture(scope="module", params=[torch.float16, torch.bfloat16], ids=["float32", "bfloat16"])
def model(request: pytest.FixtureRequest) -> LlamaForCausalLM:
    """Heads of 64 and weights of 16 bits, as the kernel takes them; large enough that all of them matter. From weights in
    bfloat16 it makes products of rounded inputs."""
    if request.param == torch.bfloat16 and words_here(lanes_here(), []) is None:
        pytest.skip("neither AMX nor AVX512-BF16 here")
    sizes = {"hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 1, "num_key_value_heads": 1}
    model = tiny_llama(4.0, num_hidden_layers=3, **sizes)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.to(request.param))
    model.config.dtype = request.param
    return model


def is_rounded(model: LlamaForCausalLM) -> bool:
    return model.config.dtype == torch.bfloat16


def make_pair(model: LlamaForCausalLM) -> Pair:
    checkpoint, generator = Checkpoint.of(model), torch.Generator().manual_seed(5)
    shape = FeatureShape.of(checkpoint, (1, 2, 3), rank=6)
    sizes = shape.tensors(SPEECH.size)
    numbers = {n: 0.25 * torch.randn(size, generator=generator) + (len(size) == 1) for n, size in sizes.items()}
    tensors = {name: number.to(model.config.dtype) for name, number in numbers.items()}
    target = DecodingLlama(checkpoint, SPEECH, rounded=is_rounded(model))
    draft = FeatureDraft(shape, tensors, checkpoint, SPEECH, rounded=is_rounded(model))
    assert target.compiled
    assert draft.compiled
    assert target.precision == ("bfloat16" if is_rounded(model) else "float32")
    return target, draft


def said(pair: Pair, rule: Rule, draws: int) -> list[int]:
    """Return the last of LENGTH tokens in each of so many utterances with coins of their own. The end of speech counts as a
    token, and an utterance that ended before it as the one behind all tokens."""
    last = []
    for first in range(0, draws, ROWS):
        target, draft = make_runners(*pair, prompts(ROWS), LENGTH + LOOKAHEAD + 1)
        for each in (target, draft):
            each.prefill([0])
            each.fork(0, range(1, ROWS))
        coins = [torch.Generator().manual_seed(first + row) for row in range(ROWS)]
        utterances = [DecodingSequence(i, LENGTH, c, Plain(TEMPERATURE), rule, LOOKAHEAD) for i, c in enumerate(coins)]
        for _ in to_the_end(target, draft, utterances):
            pass
        for u in utterances:
            tokens = [*u.emitted, *[SPEECH.eos] * u.ended, *[SPEECH.size] * LENGTH]
            last.append(tokens[LENGTH - 1])
    return last[:draws]


def law(model: LlamaForCausalLM, spoken: Sequence[int] = ()) -> Tensor:
    """What `said` tells of the target alone, by enumeration of what comes before."""
    ids = torch.cat([prompts(1)[0].ids, SPEECH.model_ids()[list(spoken)]])
    logits = logits_of(model, ids[None], is_rounded(model), SPEECH)[0, -1].double()
    probs, total = (logits / TEMPERATURE).softmax(-1), torch.zeros(SPEECH.size + 1, dtype=torch.float64)
    if len(spoken) == LENGTH - 1:
        total[:-1] = probs
        return total
    total[-1] = probs[SPEECH.eos]
    return total + sum(float(probs[token]) * law(model, [*spoken, token]) for token in range(SPEECH.codes))


@pytest.fixture
def only_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pass of the target may be PyTorch's."""

    def refuse(*_: object) -> None:
        raise AssertionError("the target was read by PyTorch")

    monkeypatch.setattr(DecodingLlama, "run", refuse)


@DRAWS
@pytest.mark.usefixtures("only_compiled")
def test_a_token_of_sd_has_the_targets_distribution(model: LlamaForCausalLM, draws: int) -> None:
    outcomes = said(make_pair(model), exact, draws)
    assert len(outcomes) == draws
    assert distance(outcomes, law(model)) < bound(draws)


def test_the_bound_rejects_a_careless_rule(model: LlamaForCausalLM) -> None:
    assert distance(said(make_pair(model), careless, FEW), law(model)) > 1.2 * bound(FEW)
