"""Takes of several visitors, which wait for one another."""

from collections.abc import Iterator
from dataclasses import replace
from threading import Event, Thread
from time import perf_counter

import pytest

from explorers.listen import turns
from explorers.listen.actions import CompareRequest, generate_again, generate_all
from explorers.listen.turns import Speaker
from explorers.session import CARDS, Session
from explorers.shared.waiting import waiting
from pcg.serving.speech_service import SpeechService
from pcg.settings import Settings
from pcg.takes.presets import PAPERS

REQUEST = CompareRequest("The quick brown fox.", "one", 0.3, 3, 0.3, 0.6, 5)


@pytest.fixture
def in_turns(speaker: Speaker) -> Iterator[Speaker]:
    """One whose takes of one run go on in turns."""
    service = SpeechService(speaker.synthesizer, rows=5, positions=1400, in_turns=True)
    yield replace(speaker, service=service)
    service.close()


def test_the_takes_of_a_run_grow_side_by_side_and_are_those_of_each_alone(
    in_turns: Speaker, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PROGRESS_SECONDS", 0.02)
    request = replace(REQUEST, takes=2, preset=PAPERS[0].name)
    steps = list(generate_all(in_turns, request, Session()))
    shown = [step.live.key for step in steps if step.live and not step.live.sounding]
    assert set(shown[:5]) == set(CARDS)
    assert "AR, SD, SSD, PCG and Preset in turns: " in next(
        step.status for step in steps if step.live and step.live.key == "ar"
    )
    assert [step.new for step in steps if step.new] == [*CARDS, *CARDS]
    cards = steps[-1].session.cards
    assert cards["pcg"].first.speed_up == pytest.approx(
        cards["pcg"].first.reading.tokens_per_second / cards["ar"].first.reading.tokens_per_second
    )
    for card in cards.values():
        for shown_take in card.takes:
            alone = speaker.synthesizer.take(REQUEST.text, shown_take.reading.settings, "one")
            assert shown_take.reading.tokens == alone.tokens


def test_a_wait_for_others_is_no_work(in_turns: Speaker) -> None:
    """Of three takes side by side, each counts its own prompt, rounds and sound alone."""
    speeches = [in_turns.speak(REQUEST.text, Settings("ar", seed=i), "one", None) for i in range(3)]
    begun = perf_counter()
    takes = [list(speech)[-1] for speech in speeches]
    passed = 1e3 * (perf_counter() - begun)
    for take in takes:
        assert 1e3 * take.wall_seconds == pytest.approx(take.prefill_ms + take.decoding_ms + take.codec_ms)
        assert take.decoding_ms < 0.7 * passed


@pytest.fixture
def shared(speaker: Speaker) -> Iterator[Speaker]:
    """One whose takes wait for those of other visitors."""
    service = SpeechService(speaker.synthesizer, rows=1, positions=1400)
    yield replace(speaker, service=service)
    service.close()


@pytest.fixture
def go_on(shared: Speaker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Until it is set, the take that has the only row does not begin."""
    opened = Event()
    monkeypatch.setattr(shared.synthesizer, "wait_until_warm", opened.wait)
    yield opened
    opened.set()


def test_whoever_waits_is_told_the_place_and_hears_the_same_take_in_the_end(
    shared: Speaker, speaker: Speaker, go_on: Event
) -> None:
    others = [shared.speak(REQUEST.text, Settings("ar"), "one", None, stream=True) for _ in range(2)]
    steps = generate_again(shared, "sd", REQUEST, Session())
    told = [next(steps).status for _ in range(2)]
    assert "1 take of other visitors before yours" in told[1]
    assert "can be played meanwhile" in told[1]
    go_on.set()
    for each in others:
        each.close()
    *_, last = steps
    *_, alone = generate_again(speaker, "sd", REQUEST, Session())
    assert last.session.cards["sd"].reading.tokens == alone.session.cards["sd"].reading.tokens


def test_who_stops_waiting_leaves_the_queue(shared: Speaker, go_on: Event) -> None:
    before = shared.speak(REQUEST.text, Settings("ar"), "one", None, stream=True)
    steps = generate_again(shared, "sd", REQUEST, Session())
    assert "You are next" in [next(steps).status for _ in range(2)][1]
    assert shared.service.waiting == 1
    steps.close()
    assert shared.service.waiting == 0
    go_on.set()
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


def test_whoever_comes_during_the_warm_up_is_told_so_and_its_time_is_that_of_the_take(shared: Speaker, monkeypatch) -> None:
    synthesizer, begun, go_on = shared.synthesizer, Event(), Event()

    def slow(*_: object) -> None:
        begun.set()
        go_on.wait()

    monkeypatch.setattr(synthesizer, "take", slow)
    warming = Thread(target=synthesizer.warm_up)
    warming.start()
    begun.wait()
    try:
        steps = generate_again(shared, "sd", REQUEST, Session())
        told = [next(steps).status for _ in range(3)]
        assert all("The page warms up" in each for each in told[1:])
    finally:
        go_on.set()
    *_, last = steps
    warming.join()
    assert not synthesizer.preparing
    assert last.session.cards["sd"].reading.tokens
