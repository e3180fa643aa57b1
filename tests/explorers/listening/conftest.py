"""A page that is served with the listening test alone, and a take in its session."""

from collections.abc import Iterator

import gradio as gr
import pytest

from explorers.listening import player
from explorers.listening.layout import create_listening_test
from explorers.session import Session, TakeView
from explorers.theme import launch_options
from pcg.saved_take import Origin
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.listening.ears import FakeEars
from tests.explorers.served import serve


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("explorers.listening.layout.Judges", lambda judge: FakeEars())
        with gr.Blocks() as app, gr.Tab("Listening test"):
            session = Session().with_take(TakeView.of(synthesizer.take("yes", Settings("sd"), "one")), False)
            origin = Origin.of(synthesizer.voice)
            create_listening_test(app, synthesizer, origin, lambda: None, gr.State(session), {})
        options = launch_options()
        options["css_paths"] = [*dict.fromkeys([*options["css_paths"], player.STYLES])]
        yield from serve(app, **options)
