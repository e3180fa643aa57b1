"""Many callers, one decoding thread: takes as alone, order, fairness, closed takes, faults, what a waiting one is told."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

import numpy as np
import pytest
import torch

from pcg.decode.device_loop import DeviceBatch
from pcg.decode.speculative import RunningBatch
from pcg.errors import InputError, PCGError
from pcg.rules import Coins, Verdict, exact
from pcg.serving.speech_service import SpeechService
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Round, Sound, Take

WORDS = "hello, is this one sentence? yes!"
LONG = ". ".join([WORDS] * 20)
POSITIONS = 1400
PATIENCE = 60


@pytest.fixture
def service(synthesizer: Synthesizer) -> Iterator[SpeechService]:
    service = SpeechService(synthesizer, rows=2, positions=POSITIONS, waiting=3)
    yield service
    service.close()


class Gate:
    """A rule that keeps the whole batch in its round until it is opened: what happens meanwhile is for a test to say."""

    def __init__(self) -> None:
        self.open, self.entered = threading.Event(), threading.Event()

    def __call__(self, drafted: torch.Tensor, p: torch.Tensor, q: torch.Tensor, coins: Coins) -> Verdict:
        self.entered.set()
        assert self.open.wait(PATIENCE)
        return exact(drafted, p, q, coins)


def last(speech: Iterator[Round | Sound | Take]) -> Take:
    *_, take = speech
    assert isinstance(take, Take)
    return take


def test_what_many_callers_get_is_what_each_would_get_alone(synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """More takes than rows, of all methods and with chunks and pauses, each from its own thread; in turns, and as on a GPU."""
    wishes = [
        ("hello", Settings("ar", seed=1)),
        (WORDS, Settings("sd", seed=2, lookahead=5)),
        ("yes [pause:0.3] hello", Settings("ssd", seed=3)),
        (WORDS, Settings("pcg", theta=0.3, seed=4)),
        ("yes", Settings("sd", seed=6, temperature=1.0, sampler="ras")),
    ]
    apart = [synthesizer.take(*wish, "one") for wish in wishes]
    for in_turns, batch in ((False, RunningBatch), (True, RunningBatch), (False, DeviceBatch)):
        monkeypatch.setattr("pcg.serving.speech_service.RunningBatch", batch)
        service = SpeechService(synthesizer, rows=3, positions=POSITIONS, in_turns=in_turns)
        with ThreadPoolExecutor(len(wishes)) as pool:
            takes = list(pool.map(lambda wish: last(service.speak(*wish, "one")), wishes))  # noqa: B023
        service.close()
        for alone, take in zip(apart, takes, strict=True):
            assert (take.tokens, take.pauses, take.hit_limit) == (alone.tokens, alone.pauses, alone.hit_limit)
            assert [r.drafted for r in take.rounds] == [r.drafted for r in alone.rounds]
            assert np.array_equal(take.audio, alone.audio)
            assert 0 < take.prefill_ms < 1e3 * take.wall_seconds


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[dict[int, int]]:
    """The tokens of each row in each round that a batch decodes."""
    noted: list[dict[int, int]] = []
    step = RunningBatch.step

    def noting(batch: RunningBatch, only: int | None = None) -> dict[int, Round | Exception]:
        played = step(batch, only)
        noted.append({row: len(round_.tokens) for row, round_ in played.items()})
        return played

    monkeypatch.setattr(RunningBatch, "step", noting)
    return noted


@pytest.mark.parametrize(("in_turns", "rows_a_round", "apart"), [(True, 1, (0, 6)), (False, 2, (7, 1000))])
def test_in_turns_every_round_is_of_one_row_and_none_gets_ahead(
    in_turns: bool, rows_a_round: int, apart: tuple[int, int], synthesizer: Synthesizer, rounds: list[dict[int, int]]
) -> None:
    """By less than a round of five tokens and one more. Without turns the one that drafts gets ahead."""
    service = SpeechService(synthesizer, rows=2, positions=POSITIONS, in_turns=in_turns)
    speeches = [service.speak(WORDS, each, "one") for each in (Settings("ar"), Settings("pcg", theta=0.2, lookahead=4))]
    takes = [last(speech) for speech in speeches]
    service.close()
    first = next(i for i, played in enumerate(rounds) if 1 in played)
    alone = (i for i in range(len(rounds)) if not all(any(row in played for played in rounds[i:]) for row in (0, 1)))
    ended = next(alone, len(rounds))  # both may end in one round
    said = np.cumsum([[played.get(row, 0) for row in (0, 1)] for played in rounds[first:ended]], axis=0)
    assert len(said) > 10
    assert apart[0] <= np.abs(said[:, 0] - said[:, 1]).max() <= apart[1]
    assert {len(played) for played in rounds[first:ended]} == {rows_a_round}
    assert np.sum([sum(played.values()) for played in rounds]) == sum(len(take.tokens) for take in takes)


@pytest.mark.parametrize("heard", [True, False])
def test_a_take_that_somebody_listens_to_goes_before_others(
    heard: bool, synthesizer: Synthesizer, rounds: list[dict[int, int]]
) -> None:
    """It is the next that gets a row, and from then on nobody else has a round until it has ended."""
    service = SpeechService(synthesizer, rows=2, positions=POSITIONS, in_turns=True)
    gate = Gate()
    first = service.speak("yes", Settings("sd"), "one", rule=gate)
    assert gate.entered.wait(PATIENCE)
    others = [service.speak(WORDS, Settings("ar", seed=i), "one") for i in range(3)]
    mine = service.speak(WORDS, Settings("ar", seed=9), "one", heard=heard)
    assert mine.place == (1 if heard else 4)
    gate.open.set()
    counts = [sum(isinstance(step, Round) for step in each) for each in (first, *others, mine)]
    service.close()
    alone = max(len(list(run)) for _, run in groupby(list(played) for played in rounds))
    assert sum(counts) == len(rounds)
    assert (alone >= counts[-1] > 10) == heard


def test_those_that_wait_know_their_place_and_too_many_are_sent_away(service: SpeechService) -> None:
    gate = Gate()
    holding = [service.speak(WORDS, Settings("sd", seed=i), "one", rule=gate) for i in range(2)]
    assert gate.entered.wait(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while len([each for each in holding if each.place]) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    others = [service.speak(WORDS, Settings("ar", seed=i), "one") for i in range(3 - sum(each.place > 0 for each in holding))]
    assert [each.place for each in others] == list(range(4 - len(others), 4))
    assert others[-1].waits(0.01)
    with pytest.raises(PCGError, match="3 takes are waiting already"):
        service.speak("yes", Settings("ar"), "one")
    others[0].close()
    assert others[1].place == 3 - len(others) + 1
    gate.open.set()
    takes = [last(each) for each in (*holding, *others[1:])]
    assert all(take.tokens for take in takes)
    assert [each.place for each in others[1:]] == [0] * (len(others) - 1)


def test_a_closed_take_frees_its_row(service: SpeechService) -> None:
    """Both rows are held by takes that nobody hears to the end; the third gets one of theirs."""
    endless = [service.speak(LONG, Settings("ar", seed=i), "one") for i in range(2)]
    assert all(not each.waits(PATIENCE) for each in endless)
    third = service.speak("yes", Settings("ar"), "one")
    assert third.waits(0)
    closed = endless.pop()
    closed.close()
    with pytest.raises(PCGError, match="stopped"):
        list(closed)
    assert not third.waits(PATIENCE)
    assert endless[0].place == 0
    assert last(third).tokens


def test_a_fault_in_one_take_is_told_to_its_caller_alone(synthesizer: Synthesizer, service: SpeechService) -> None:
    def broken(drafted: torch.Tensor, p: torch.Tensor, q: torch.Tensor, coins: Coins) -> Verdict:
        raise RuntimeError("broken")

    good = service.speak(WORDS, Settings("sd", seed=2), "one")
    with pytest.raises(RuntimeError, match="broken"):
        last(service.speak(WORDS, Settings("sd", seed=2), "one", rule=broken))
    assert last(good).tokens == synthesizer.take(WORDS, Settings("sd", seed=2), "one").tokens


def test_the_time_of_a_take_is_kept_where_nobody_asks_for_its_steps(
    synthesizer: Synthesizer, service: SpeechService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a client has stopped to read what it is sent."""
    monkeypatch.setattr(synthesizer, "longest_seconds", 1e-6)
    speech = service.speak(LONG, Settings("ar"), "one")
    assert not speech.decoding(PATIENCE)
    assert len(speech.rounds) == 1
    monkeypatch.undo()
    with pytest.raises(PCGError, match="The take was stopped after"):
        last(speech)
    assert last(service.speak("yes", Settings("ar"), "one")).tokens


def test_what_cannot_be_spoken_is_refused_and_a_server_that_stops_stops_all_takes(synthesizer: Synthesizer) -> None:
    service = SpeechService(synthesizer, rows=1, positions=POSITIONS)
    for settings, text, voice, word in (
        (Settings(hierarchical=True), WORDS, "one", "hierarchical"),
        (Settings("ar"), " ", "one", "text"),
        (Settings("ar"), WORDS, "nobody", "voice"),
    ):
        with pytest.raises(InputError, match=word):
            service.speak(text, settings, voice)
    speeches = [service.speak(LONG, Settings("ar", seed=i), "one") for i in range(2)]
    assert not speeches[0].waits(PATIENCE)
    service.close()
    for each in speeches:
        with pytest.raises(PCGError, match="the server stops"):
            list(each)
    with pytest.raises(PCGError, match="the server stops"):
        service.speak("yes", Settings("ar"), "one")
