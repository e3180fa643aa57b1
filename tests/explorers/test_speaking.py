from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from explorers import speaking
from explorers.reading import Session
from explorers.speaking import RECORDING, SPEECHLESS, Request, Step, describe_groups, new_seed, say_again, say_four_ways
from pcg.errors import PCGError
from pcg.settings import METHODS
from pcg.synthesizer import Synthesizer

REQUEST = Request("The quick brown fox.", "one", 0.3, 3, 0.3, 0.6, 5)


def takes(steps: list[Step]) -> list[str]:
    return [step.take.settings.method for step in steps if step.take]


def test_a_full_run_says_it_four_ways_and_compares_with_its_own_ar(synthesizer: Synthesizer) -> None:
    steps = list(say_four_ways(synthesizer, REQUEST, Session()))
    assert takes(steps) == list(METHODS)
    cards = steps[-1].session.cards
    for method in METHODS[1:]:
        expected = cards[method].reading.tokens_per_second / cards["ar"].reading.tokens_per_second
        assert cards[method].speed_up == pytest.approx(expected)
        assert cards[method].yardstick == "same run"
    assert "Four takes in" in steps[-1].status


def test_progress_tells_method_tokens_and_seconds(synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaking, "PROGRESS_SECONDS", 0.0)
    statuses = [step.status for step in say_four_ways(synthesizer, REQUEST, Session())]
    assert any("PCG: " in status and " tokens, " in status and "4 of 4" in status for status in statuses)


def test_progress_is_told_at_a_modest_rate(synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaking, "PROGRESS_SECONDS", 1e9)
    assert len(list(say_four_ways(synthesizer, REQUEST, Session()))) == 1 + len(METHODS)


@pytest.mark.parametrize(("method", "change"), [("pcg", {"theta": 0.6}), ("ssd", {"beta": 0.9})])
def test_a_knob_says_its_own_method_again(method: str, change: dict[str, float], synthesizer: Synthesizer) -> None:
    *_, last = say_four_ways(synthesizer, REQUEST, Session())
    steps = list(say_again(synthesizer, method, replace(REQUEST, **change), last.session))
    assert takes(steps) == [method]
    card = steps[-1].session.cards[method]
    assert card.yardstick == "last run"
    assert all(getattr(card.reading.settings, name) == value for name, value in change.items())
    others = set(METHODS) - {method}
    assert all(steps[-1].session.cards[other] == last.session.cards[other] for other in others)


def test_a_knob_says_nothing_without_a_text(synthesizer: Synthesizer) -> None:
    (step,) = say_again(synthesizer, "pcg", replace(REQUEST, text="  "), Session())
    assert SPEECHLESS in step.status


def test_closing_stops_the_engine(synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaking, "PROGRESS_SECONDS", 0.0)
    closed = []
    speak = Synthesizer.speak

    def watched(*arguments: object):
        try:
            yield from speak(*arguments)
        finally:
            closed.append(arguments[2].method)

    monkeypatch.setattr(Synthesizer, "speak", watched)
    steps = say_four_ways(synthesizer, REQUEST, Session())
    for _ in range(3):
        next(steps)
    assert closed == []
    steps.close()
    assert closed == ["ar"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"text": ""}, "text is '', but must be some English text."),
        ({"voice": "nobody"}, "voice is 'nobody', but must be one of one, two."),
        ({"theta": 3}, "theta is 3, but must be a number from 0.2 to 1."),
        ({"seed": None}, "seed is None, but must be a number from 0 to"),
        ({"lookahead": 2.5}, "lookahead is 2.5, but must be a whole number from 1 to 16."),
        ({"recording": "a.wav"}, "tick that its speaker agrees"),
        ({"recording": "a.wav", "consent": True}, "transcript is '', but must be the words"),
        ({"recording": "a.wav", "consent": True, "transcript": "yes"}, "a readable WAV"),
    ],
)
def test_bad_input_is_refused_before_anything_changes(
    change: dict[str, object], sentence: str, synthesizer: Synthesizer
) -> None:
    with pytest.raises(PCGError) as refused:
        next(say_four_ways(synthesizer, replace(REQUEST, **change), Session()))
    assert sentence in str(refused.value)


def test_a_recording_with_consent_is_the_voice(synthesizer: Synthesizer, tmp_path: Path) -> None:
    time = np.arange(2 * 16000) / 16000
    soundfile.write(tmp_path / "me.wav", 0.3 * np.sin(2 * np.pi * 220 * time), 16000)
    request = replace(REQUEST, recording=str(tmp_path / "me.wav"), transcript="hello, yes", consent=True)
    *_, last = say_again(synthesizer, "pcg", request, Session())
    assert last.take.voice == RECORDING


def test_theta_outside_its_range_is_refused() -> None:
    with pytest.raises(PCGError, match=r"theta is 0\.1"):
        describe_groups(None, 0.1)


def test_seeds_are_short_and_differ() -> None:
    seeds = {new_seed() for _ in range(50)}
    assert len(seeds) > 40
    assert all(0 <= seed < 10_000 for seed in seeds)
