"""Takes of several visitors, which wait for one another."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from explorers.compare.actions import CompareRequest, Speaker, generate_again, waiting
from explorers.session import Session
from pcg.serving.speech_service import SpeechService
from pcg.settings import Settings

REQUEST = CompareRequest("The quick brown fox.", "one", 0.3, 3, 0.3, 0.6, 5)
LONG = "The quick brown fox, yes. " * 40


@pytest.fixture
def shared(speaker: Speaker) -> Iterator[Speaker]:
    """One whose takes wait for those of other visitors."""
    service = SpeechService(speaker.synthesizer, rows=1, positions=1400)
    yield replace(speaker, service=service)
    service.close()


def test_whoever_waits_is_told_the_place_and_hears_the_same_take_in_the_end(shared: Speaker, speaker: Speaker) -> None:
    others = [shared.speak(LONG, Settings("ar"), "one", None) for _ in range(2)]
    steps = generate_again(shared, "sd", REQUEST, Session())
    told = [next(steps).status for _ in range(2)]
    assert "1 take of other visitors before yours" in told[1]
    assert "can be played meanwhile" in told[1]
    for each in others:
        each.close()
    *_, last = steps
    *_, alone = generate_again(speaker, "sd", REQUEST, Session())
    assert last.session.cards["sd"].reading.tokens == alone.session.cards["sd"].reading.tokens


def test_who_stops_waiting_leaves_the_queue(shared: Speaker) -> None:
    before = shared.speak(LONG, Settings("ar"), "one", None)
    steps = generate_again(shared, "sd", REQUEST, Session())
    assert "You are next" in [next(steps).status for _ in range(2)][1]
    steps.close()
    assert shared.service.waiting == 0
    before.close()


@pytest.mark.parametrize(
    ("place", "seconds", "told"),
    [
        (1, None, "You are next. The"),
        (1, 0.2, "You are next, about 1 second left."),
        (3, 12.4, "2 takes of other visitors before yours, about 12 seconds left."),
    ],
)
def test_the_words_for_who_waits(place: int, seconds: float | None, told: str) -> None:
    assert waiting(place, seconds).startswith(told)
