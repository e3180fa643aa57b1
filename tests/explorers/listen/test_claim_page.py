"""The claim above the player, and on a phone its first sentence below it, in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import pytest
from playwright.sync_api import expect

from explorers.listen.claim import IDEA, Measured, claim_html
from explorers.listen.example import read_example
from explorers.listen.layout import create_compare
from explorers.session import Session
from explorers.theme import launch_options
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin
from tests.explorers.chromium import ARGUMENTS, NEEDS_CHROMIUM, READY, patient_page
from tests.explorers.served import serve

PATIENCE_MS = 60_000
ROWS = {"ar": Measured(60, 1.0, 1.0, 0.25), "pcg": Measured(60, 1.5, 0.4, 0.27, "theta 0.3")}
IDEA_READ = re.sub("<[^>]+>", "", IDEA)
SHORT = "On 60 sentences PCG (theta 0.3) was 1.50 times as fast as AR"


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer, example_folder: Path) -> Iterator[str]:
    with gr.Blocks() as app:
        example, origin = read_example(example_folder), Origin.of(synthesizer.voice)
        create_compare(app, synthesizer, origin, gr.State(Session()), example, claim=claim_html(ROWS))
    yield from serve(app.queue(), **launch_options())


@NEEDS_CHROMIUM
@pytest.mark.parametrize(("width", "below"), [(390, True), (1440, False)])
def test_who_won_is_said_on_every_screen(width: int, below: bool, address: str) -> None:
    with patient_page(width, ARGUMENTS, PATIENCE_MS) as page:
        page.goto(address)
        expect(page.locator(READY)).to_be_visible()
        expect(page.locator(".claim-short")).to_have_text(SHORT)
        expect(page.locator(".claim-short")).to_be_visible()
        assert page.locator(".claim-more").is_visible() == page.locator(".claim p", has_text=IDEA_READ).is_visible()
        assert page.locator(".claim-more").is_visible() != below
        player, claim = (page.locator(name).bounding_box()["y"] for name in (".stage", ".claim"))
        assert (claim > player) == below
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@NEEDS_CHROMIUM
def test_without_figures_the_idea_is_read_whole_on_a_phone(synthesizer: Synthesizer) -> None:
    with gr.Blocks() as app:
        create_compare(app, synthesizer, Origin.of(synthesizer.voice), gr.State(Session()), claim=claim_html({}))
    for address in serve(app.queue(), **launch_options()):
        with patient_page(390, ARGUMENTS, PATIENCE_MS) as page:
            page.goto(address)
            expect(page.locator(".claim .term").first).to_be_visible()
            assert page.locator(".claim p").inner_text() == IDEA_READ
