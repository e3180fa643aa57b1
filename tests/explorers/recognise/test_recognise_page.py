"""The Recognise panel as a person sees it, in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import pytest
from playwright.sync_api import expect

from explorers.recognise.layout import create_recognise
from explorers.session import Session, TakeView
from explorers.theme import launch_options
from pcg.asr.embedded import EmbeddedRecogniser
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.chromium import NEEDS_CHROMIUM, SOFTWARE, patient_page, watch
from tests.explorers.served import in_hand, serve

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer, recogniser: EmbeddedRecogniser) -> Iterator[str]:
    take = synthesizer.take("The quick brown fox.", Settings("pcg", theta=0.3), "two")
    with gr.Blocks() as app:
        session = Session().with_take(TakeView.of(take))
        create_recognise(synthesizer, lambda: recogniser, gr.State(session), in_hand())
    yield from serve(app, **launch_options())


def test_the_status_follows_the_sound(address: str, recordings: list[Path], complaints: list[str]) -> None:
    with patient_page(1440, SOFTWARE, PATIENCE_MS) as page:
        watch(page, address, complaints)
        page.goto(address)
        status, taken = page.locator("#recognise-status"), page.locator("#recognise-taken")
        expect(status).to_contain_text("Upload or record a sound")
        page.click("#recognise-run")
        expect(page.locator(".toast-body")).to_contain_text("There is no sound to transcribe: upload or record one")
        page.locator(".toast-close").click()
        expect(status).to_contain_text("Upload or record a sound")

        page.click("#recognise-last")
        expect(taken).to_contain_text("The PCG take, by two.")
        expect(status).to_contain_text("Transcribed")
        page.locator("#recognise-sound").get_by_label("Clear").click()
        expect(status).to_contain_text("Upload or record a sound")
        expect(taken).not_to_contain_text("take")
        page.locator("#recognise-sound input[type=file]").set_input_files(recordings[0])
        expect(status).to_contain_text("Transcribed")
        assert complaints == []
