"""What a page keeps of runs that are stopped, replaced, or run beside something else that changes its session."""

from dataclasses import replace

import pytest

from explorers.session import Session, TakeView, Turn
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer


@pytest.fixture
def one(synthesizer: Synthesizer) -> Session:
    """A session of one AR take."""
    return Session().with_take(TakeView.of(synthesizer.take("yes", Settings("ar"), "two")))


@pytest.fixture
def two(one: Session, synthesizer: Synthesizer) -> Session:
    """What a run makes of `one`: a take of SD beside it."""
    return one.with_take(TakeView.of(synthesizer.take("yes", Settings("sd"), "two")))


def remembered(session: Session) -> Session:
    """Beside the run Spoof has made a take, which stands in the history alone."""
    spoof = session.cards["ar"].first
    spoof = replace(spoof, reading=replace(spoof.reading, settings=Settings("ar", sampler="ras")))
    return session.remembering(spoof, "ras", "RAS")


def names(session: Session) -> list[str]:
    return [kept.name for kept in session.history]


def gone(session: Session) -> Session:
    return session.holding(99)


def test_what_changes_during_a_run_stays_after_it(one: Session, two: Session) -> None:
    turn = Turn()
    number, held = turn.begin(one)
    assert held is one
    turn.change(remembered)
    ended = turn.changed(two)
    assert names(ended) == ["", "", "RAS"]
    turn.end(number)
    assert turn.changed(two) is two  # the changes belong to that run alone


def test_without_a_run_nothing_is_changed_twice(two: Session) -> None:
    turn = Turn()
    turn.change(remembered)
    assert not turn.changes
    number, _ = turn.begin(two)
    turn.end(number)
    turn.change(remembered)
    assert turn.changed(two) is two


def test_a_change_of_a_take_that_is_gone_is_none(one: Session) -> None:
    turn = Turn()
    turn.begin(one)
    turn.change(gone)
    turn.change(remembered)
    assert names(turn.changed(one)) == ["", "RAS"]


@pytest.mark.parametrize("halted", [True, False])
def test_a_run_that_replaces_another_begins_with_what_that_had(halted: bool, one: Session, two: Session) -> None:
    turn = Turn()
    first, _ = turn.begin(one)
    turn.session = two
    turn.change(remembered)
    if halted:
        turn.halt()
    second, held = turn.begin(one)
    assert second > first
    assert list(held.cards) == ["ar", "sd"]
    assert names(held)[-1] == "RAS"
    turn.end(first)  # an earlier run's end is not that of the current one
    assert turn.running


def test_a_run_that_fails_at_once_still_has_what_it_replaced(one: Session, two: Session) -> None:
    turn = Turn()
    turn.begin(one)
    turn.session = two
    turn.begin(one)
    assert list(turn.so_far().cards) == ["ar", "sd"]


def test_stop_keeps_what_the_run_had_and_after_its_end_nothing(one: Session, two: Session) -> None:
    turn = Turn()
    turn.begin(one)
    turn.session = two
    turn.change(remembered)
    turn.stop()
    assert names(turn.stopped) == ["", "", "RAS"]
    number, _ = turn.begin(two)
    turn.end(number)
    turn.stop()
    assert turn.stopped is None
