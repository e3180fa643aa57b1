"""What a page keeps of runs that are stopped or replaced."""

import pytest

from explorers.session import Session, ShownTake, Turn
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer


@pytest.fixture
def one(synthesizer: Synthesizer) -> Session:
    """A session of one AR take."""
    return Session().with_take(ShownTake.of(synthesizer.take("yes", Settings("ar"), "two")))


@pytest.fixture
def two(one: Session, synthesizer: Synthesizer) -> Session:
    """What a run makes of `one`: a take of SD beside it."""
    return one.with_take(ShownTake.of(synthesizer.take("yes", Settings("sd"), "two")))


@pytest.mark.parametrize("halted", [True, False])
def test_a_run_that_replaces_another_begins_with_its_takes(halted: bool, one: Session, two: Session) -> None:
    turn = Turn()
    first, held = turn.begin(one)
    assert held is one
    turn.session = two
    if halted:
        turn.halt()
    second, held = turn.begin(one)
    assert second > first
    assert held is two
    turn.end(first)  # an earlier run's end is not that of the current one
    assert turn.session is two


def test_stop_keeps_what_the_run_had_and_after_its_end_nothing(one: Session, two: Session) -> None:
    turn = Turn()
    turn.begin(one)
    turn.session = two
    turn.stop()
    assert (turn.stopped, turn.session) == (two, None)
    number, _ = turn.begin(two)
    turn.end(number)
    turn.stop()
    assert turn.stopped is None
