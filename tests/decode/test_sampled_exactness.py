"""Speculative decoding by laws with a memory: what the loop says against the enumerated law of the target."""

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.decode.model_runner import ModelRunner
from pcg.decode.sequence import begin
from pcg.decode.speculative import Drafting, speculative
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import layer_subset
from pcg.rules import exact
from pcg.sampling import EntropyAware, Plain, RepetitionAware, SamplerState
from pcg.text.prompt import Prompt

SPEECH = Vocabulary(codes=5, first_code=4, end=2)
PROMPT = Prompt(torch.tensor([1, 3, 0]), torch.arange(3.0), 3.0)
DRAWS, LENGTH = 3000, 3
BOUND = 0.035
"""Half the sum of differences strays by about 0.4 sqrt(7 / 3,000) = 0.02 from a law of seven outcomes."""
LAWS = [
    EntropyAware(1.5, top_p=0.9),
    RepetitionAware(1.5, top_k=4, top_p=0.7, window=3, share=0.3),
    Plain(1.5, top_k=4, top_p=0.95, penalty=1.5),
]


@pytest.fixture(scope="module")
def models() -> list[DecodingLlama]:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=9, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2
    )
    target = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in target.parameters():
            weight.mul_(5.0 if weight.ndim == 2 else 1.0)
        draft = layer_subset(target, (0,)).eval()
    return [DecodingLlama(model, SPEECH) for model in (target, draft)]


def law_of_last(target: DecodingLlama, memory: SamplerState, said: tuple[int, ...] = ()) -> Tensor:
    """The law of token number LENGTH, the end of speech included, and what had ended before in the place behind it."""
    reader = ModelRunner(target, [PROMPT], LENGTH + 1)
    reader.prefill()
    warped = memory.warp(reader.feed([0], [said], 1)[0, 0])
    law = torch.zeros(SPEECH.size + 1, dtype=torch.float64)
    if len(said) == LENGTH - 1:
        law[:-1] = warped.probs
        return law
    law[-1] = float(warped.probs[SPEECH.eos])
    for token in range(SPEECH.codes):
        if warped.probs[token] > 0:
            law += float(warped.probs[token]) * law_of_last(target, memory.after(token, warped), (*said, token))
    return law


def drawn(models: list[DecodingLlama], memory: SamplerState) -> Tensor:
    """The same from many utterances of the speculative loop, every one with coins of its own."""
    runners = [ModelRunner(model, [PROMPT] * DRAWS, LENGTH + 4) for model in models]
    for each in runners:
        each.prefill()
    utterances = begin(memory, [LENGTH] * DRAWS, [torch.Generator().manual_seed(row) for row in range(DRAWS)])
    for _ in speculative(*runners, exact, Drafting(2), utterances):
        pass
    outcomes = [
        u.emitted[-1] if len(u.emitted) == LENGTH else SPEECH.eos if len(u.emitted) == LENGTH - 1 else SPEECH.size
        for u in utterances
    ]
    return torch.bincount(torch.tensor(outcomes), minlength=SPEECH.size + 1).double() / DRAWS


def distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().sum() / 2)


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(LAWS[0], id="eas"),
        pytest.param(LAWS[1], id="ras", marks=pytest.mark.slow),
        pytest.param(LAWS[2], id="plain with a penalty", marks=pytest.mark.slow),
    ],
)
def test_the_loop_says_what_the_target_would_by_the_same_law(models: list[DecodingLlama], memory: SamplerState) -> None:
    wanted = law_of_last(models[0], memory)
    assert float(wanted.sum()) == pytest.approx(1, abs=1e-5)
    assert distance(drawn(models, memory), wanted) < BOUND
    assert distance(law_of_last(models[0], Plain(1.5)), wanted) > 2 * BOUND, "or the test could not tell the laws apart"
