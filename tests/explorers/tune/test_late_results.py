"""What comes too late: a study or a measurement of a take that is in hand no more."""

from collections.abc import Callable

import gradio as gr
import pytest

from explorers.session import Session, TakeView
from explorers.tune import layout
from explorers.tune.actions import Studied
from explorers.tune.layout import Looked, create_in_hand, wire_in_hand
from explorers.tune.measured import Bench, Measured
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin
from pcg.takes.take import Take
from tests.explorers.served import in_hand

Handler = Callable[..., dict[gr.Blocks, object]]


@pytest.fixture(scope="module")
def take(synthesizer: Synthesizer) -> Take:
    return synthesizer.take("yes", Settings("ar", seed=7), "two")


@pytest.fixture(params=[False, True])
def replaced(request: pytest.FixtureRequest) -> bool:
    """Whether another take comes into hand while the work goes on."""
    return request.param


@pytest.fixture
def turn() -> Looked:
    return Looked()


@pytest.fixture
def handlers(
    synthesizer: Synthesizer, take: Take, turn: Looked, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Handler]:
    """Those of the page, by name, whose work only brings a Bench that has the take."""
    found = Bench().spoken(Measured.of(take), None)

    def late(result: object) -> object:
        if replaced:
            turn.next()
        return result

    monkeypatch.setattr(layout, "study", lambda *_: late(Studied(None, found)))
    monkeypatch.setattr(layout, "time_steps", lambda *_: late(found))
    with gr.Blocks() as app:
        session = gr.State(Session())
        places = create_in_hand(synthesizer)
        wire_in_hand(synthesizer, Origin("tiny", "0" * 64), places, session, in_hand(), app)
    return {block_fn.fn.__name__: block_fn.fn for block_fn in app.fns.values() if block_fn.fn}


@pytest.mark.parametrize("name", ["learn", "measured"])
def test_what_was_found_on_a_take_is_shown_only_while_it_is_in_hand(
    name: str, handlers: dict[str, Handler], turn: Looked, take: Take, replaced: bool
) -> None:
    session = Session().with_take(TakeView.of(take), full_run=True)
    turn.shown = session.cards["ar"].first
    updates = handlers[name]("ar", session, Bench(), turn)
    shown = [value for value in updates.values() if isinstance(value, Bench) and value.last is not None]
    assert len(shown) == (not replaced)
    assert (turn.studied is turn.shown) == (name == "learn" and not replaced)


@pytest.mark.parametrize("replaced", [False], indirect=True)
def test_a_take_that_the_strip_does_not_show_is_not_studied(handlers: dict[str, Handler], turn: Looked, take: Take) -> None:
    session = Session().with_take(TakeView.of(take), full_run=True)
    updates = handlers["learn"]("ar", session, Bench(), turn)
    assert not any(isinstance(value, Bench) for value in updates.values())
    assert turn.studied is None
