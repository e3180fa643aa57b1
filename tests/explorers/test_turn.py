"""What a page keeps of runs that are stopped, replaced, or run beside something else that changes its session."""

import pytest

from explorers.session import Session, ShownTake, TakeView
from explorers.turn import Turn
from pcg.errors import PCGError
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


def pinned(session: Session) -> Session:
    return session.with_kept(1, pinned=True)


def test_what_is_pinned_during_a_run_stays_pinned_after_it(one: Session, two: Session) -> None:
    turn = Turn()
    number, held = turn.begin(one)
    assert held is one
    turn.change(pinned)
    ended = turn.changed(two)
    assert [each.pinned for each in ended.history] == [True, False]
    turn.end(number)
    assert turn.changed(two) is two  # the changes belong to that run alone


def test_without_a_run_nothing_is_changed_twice(two: Session) -> None:
    turn = Turn()
    turn.change(pinned)
    assert not turn.changes
    number, _ = turn.begin(two)
    turn.end(number)
    turn.change(pinned)
    assert turn.changed(two) is two


def test_a_change_of_a_take_that_is_gone_is_none(one: Session) -> None:
    turn = Turn()
    turn.begin(one)
    turn.change(lambda session: session.with_kept(99, pinned=True))
    turn.change(pinned)
    assert turn.changed(one).history[0].pinned


@pytest.mark.parametrize("halted", [True, False])
def test_a_run_that_replaces_another_begins_with_what_that_had(halted: bool, one: Session, two: Session) -> None:
    turn = Turn()
    first, _ = turn.begin(one)
    turn.session = two
    turn.change(pinned)
    if halted:
        turn.halt()
    second, held = turn.begin(one)
    assert second > first
    assert list(held.cards) == ["ar", "sd"]
    assert held.history[0].pinned
    turn.end(first)  # an earlier run's end is not that of the current one
    assert turn.running


def test_a_run_that_fails_at_once_still_has_what_it_replaced(one: Session, two: Session) -> None:
    turn = Turn()
    turn.begin(one)
    turn.session = two
    turn.begin(one)
    assert list(turn.so_far().cards) == ["ar", "sd"]


def test_a_take_is_the_same_one_under_another_number(one: Session, two: Session, synthesizer: Synthesizer) -> None:
    """Spoof's take is the second of the page, and the third of the run, which has one of its own before it."""
    by_spoof = ShownTake(TakeView.of(synthesizer.take("yes", Settings("ar", sampler="ras"), "two")))
    page = one.remembering(by_spoof, "ras", "RAS")
    turn = Turn()
    turn.begin(one)
    turn.change(lambda session: session.remembering(by_spoof, "ras", "RAS"))
    turn.change(lambda session: session.with_kept(session.number_of(page.kept(2).shown), pinned=True))
    assert [(each.name, each.pinned) for each in turn.changed(two).history] == [("", False), ("", False), ("RAS", True)]
    with pytest.raises(PCGError, match="no longer kept"):
        one.number_of(by_spoof)


def test_stop_keeps_what_the_run_had_and_after_its_end_nothing(one: Session, two: Session) -> None:
    turn = Turn()
    turn.begin(one)
    turn.session = two
    turn.change(pinned)
    turn.stop()
    assert [each.pinned for each in turn.stopped.history] == [True, False]
    number, _ = turn.begin(two)
    turn.end(number)
    turn.stop()
    assert turn.stopped is None
