"""Panels beside Listen tell a visitor who waits for the takes of others."""

from collections.abc import Iterator
from dataclasses import replace
from threading import Event

import pytest

from explorers.listening.actions import Preparing, prepare
from explorers.session import Session
from explorers.spoof.actions import SpoofRequest, generate_all
from explorers.swap.actions import SwapRequest, stress
from pcg.errors import PCGError
from pcg.serving.speech_service import SpeechService
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.listening.ears import ASKED
from tests.explorers.spoof.test_beams import untrained

TEXT = "The quick brown fox."
NEXT = "You are next"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Until it is set, no take of a service begins."""
    opened = Event()
    monkeypatch.setattr(Synthesizer, "wait_until_warm", lambda _: opened.wait())
    return opened


@pytest.fixture
def busy(synthesizer: Synthesizer, opened: Event) -> Iterator[tuple[Synthesizer, SpeechService]]:
    speaking = Synthesizer(synthesizer.voice, detectors=untrained(64))
    service = SpeechService(speaking, rows=1, positions=1400)
    yield speaking, service
    opened.set()
    service.close()


def test_the_swap_panel(busy: tuple[Synthesizer, SpeechService], opened: Event) -> None:
    synthesizer, service = busy

    def no_judges() -> None:
        raise PCGError("no judges here")

    asked = SwapRequest("text", TEXT, "one", 0.3, "cosine", 1.0, "none", 3)
    steps = stress(synthesizer, no_judges, asked, Session(), speak=service.speak)
    assert next(steps).now.startswith("Generating")
    assert next(steps).now.startswith(NEXT)
    opened.set()
    assert next(step for step in steps if not step.now.startswith(NEXT)).original.text == TEXT


def test_the_listening_test(busy: tuple[Synthesizer, SpeechService], opened: Event) -> None:
    synthesizer, service = busy
    steps = prepare(synthesizer, ASKED, {}, service.speak)
    assert next(steps).waits == ""
    told = next(steps)
    assert (told.done, told.waits[: len(NEXT)]) == (0, NEXT)
    opened.set()
    *_, last = steps
    assert not isinstance(last, Preparing)


def test_the_spoof_panel(busy: tuple[Synthesizer, SpeechService], opened: Event) -> None:
    synthesizer, service = busy
    steps = generate_all(synthesizer, SpoofRequest(TEXT, "one"), service.speak)
    assert next(steps).waits == ""
    assert next(steps).waits.startswith(NEXT)
    opened.set()
    assert next(step for step in steps if step.done).now == "original"
    steps.close()


def test_whoever_speaks_alone_does_not_wait(synthesizer: Synthesizer) -> None:
    steps = list(prepare(synthesizer, replace(ASKED, trials=1), {}))
    assert all(step.waits == "" for step in steps if isinstance(step, Preparing))
