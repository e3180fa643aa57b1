"""The three steps of self-speculative decoding, held to the paper's formulas and to plain autoregressive decoding."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pcg.asr.embedded import Recogniser
from pcg.asr.self_speculative import PRESETS, Thresholds, frame_entropies, transcribe, verified_prefix

Babble = Callable[[int, int], list[Tensor]]
NEVER_BY_CTC = 0.0


def test_entropies_are_those_of_the_formula() -> None:
    log_probs = torch.randn(7, 5, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    direct = [-sum(math.exp(x) * x for x in frame) for frame in log_probs.tolist()]
    assert torch.allclose(frame_entropies(log_probs), torch.tensor(direct), atol=1e-6)
    assert float(frame_entropies(torch.tensor([0.0, -math.inf]))) == 0, "a class without probability adds nothing"


def test_one_uncertain_frame_closes_the_gate(recogniser: Recogniser, babble: Babble) -> None:
    (utterance,) = babble(1, 3)
    most = float(frame_entropies(recogniser.hear([utterance])[0].log_probs).max())
    at, above = (transcribe(recogniser, [utterance], Thresholds(t, 0.0))[0] for t in (most, 1.001 * most))
    assert (at.stage, above.stage) == ("lm", "ctc")  # strictly less (Eq. 3)
    assert above.text == above.draft
    assert not above.tokens


@pytest.mark.parametrize(
    ("likelihoods", "threshold", "count"),
    [
        ([0.9, 0.3, 0.9], 0.2, 3),
        ([0.9, 0.2, 0.9], 0.2, 1),  # strictly greater (Eq. 5)
        ([0.1, 0.9], 0.2, 0),
        ([1e-30, 1e-38], 0.0, 2),
        ([1.0, 1.0], 1.0, 0),
        ([], 1.0, 0),
    ],
)
def test_the_prefix_ends_before_the_first_unlikely_token(likelihoods: list[float], threshold: float, count: int) -> None:
    assert verified_prefix(torch.tensor(likelihoods, dtype=torch.float64).log(), threshold) == count


def test_threshold_zero_accepts_every_hypothesis(recogniser: Recogniser, babble: Babble) -> None:
    for t in transcribe(recogniser, babble(6, 1), Thresholds(NEVER_BY_CTC, 0.0)):
        assert t.stage == "lm"
        assert t.text == t.draft == t.accepted_text
        assert t.accepted == len(t.hypothesis) > 0


def test_threshold_one_is_autoregressive_token_for_token(recogniser: Recogniser, babble: Babble) -> None:
    utterances = babble(6, 2)
    found = transcribe(recogniser, utterances, Thresholds(NEVER_BY_CTC, 1.0))
    plain = transcribe(recogniser, utterances, PRESETS["ar"])
    assert [t.tokens for t in found] == [t.tokens for t in plain]
    assert {t.stage for t in found} == {t.stage for t in plain} == {"ar"}
    assert all(t.accepted == 0 for t in found)
    assert any(t.tokens for t in plain)
    assert list(found[0].milliseconds) == ["encode", "gate", "verify", "go_on"]
    assert min(found[0].milliseconds.values()) > 0


def test_a_text_goes_on_behind_what_was_verified(recogniser: Recogniser, babble: Babble) -> None:
    likelihoods = [t.likelihoods for t in transcribe(recogniser, babble(8, 4), Thresholds(NEVER_BY_CTC, 0.0))]
    threshold = float(torch.cat(likelihoods).median())
    found = transcribe(recogniser, babble(8, 4), Thresholds(NEVER_BY_CTC, threshold))
    gone_on = [t for t in found if t.stage == "ar"]
    assert any(0 < t.accepted < len(t.hypothesis) for t in gone_on)
    for t in gone_on:
        assert t.tokens[: t.accepted] == t.hypothesis[: t.accepted]
        assert (t.likelihoods[: t.accepted] > threshold).all()
        assert t.likelihoods[t.accepted] <= threshold


def test_going_on_writes_what_recomputing_every_prefix_writes(recogniser: Recogniser, babble: Babble) -> None:
    heard = recogniser.hear(babble(1, 6))
    written: list[int] = []
    while len(written) < heard[0].most_tokens:
        newest = recogniser.read(heard, [written])[0].choices[-1]
        if newest == recogniser.end:
            break
        written.append(newest)
    assert recogniser.go_on(heard, recogniser.read(heard, [[]]), [[]]) == [written]


@pytest.mark.parametrize("thresholds", [PRESETS["ar"], Thresholds(2.0, 0.02), Thresholds(None, 0.02), Thresholds(2.0, None)])
def test_a_batch_hears_what_single_utterances_hear(recogniser: Recogniser, babble: Babble, thresholds: Thresholds) -> None:
    utterances = babble(7, 7)
    together = transcribe(recogniser, utterances, thresholds)
    alone = [transcribe(recogniser, [utterance], thresholds)[0] for utterance in utterances]
    for one, two in zip(together, alone, strict=True):
        assert (one.text, one.stage, one.tokens, one.accepted) == (two.text, two.stage, two.tokens, two.accepted)
        assert torch.allclose(one.entropies, two.entropies, atol=1e-4)
        assert torch.allclose(one.likelihoods, two.likelihoods, atol=1e-4)
