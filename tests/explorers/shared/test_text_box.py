"""The box of a text to be spoken: it counts while one types, without the server, and cuts nothing of what is pasted."""

from collections.abc import Iterator

import gradio as gr
import pytest
from playwright.sync_api import expect

from explorers.shared.blocks import text_box
from explorers.theme import launch_options
from pcg.text.reading import MAX_CHARACTERS
from tests.explorers.chromium import ARGUMENTS, NEEDS_CHROMIUM, patient_page, watch
from tests.explorers.served import serve

LONG = "word " * 1_100 + "end."


def test_no_limit_of_the_box_cuts_a_text() -> None:
    with gr.Blocks():
        assert text_box("", "Hello.").max_length is None


@pytest.fixture
def address() -> Iterator[str]:
    with gr.Blocks() as page:
        box = text_box("", " Hello. ")
        gr.Button("Load", elem_id="load").click(lambda: "Loaded. ", None, box)
    yield from serve(page, **launch_options())


@pytest.mark.slow
@NEEDS_CHROMIUM
def test_a_visitor_sees_how_long_the_text_is(address: str, complaints: list[str]) -> None:
    asked: list[str] = []
    with patient_page(390, ARGUMENTS, 60_000) as browser:
        watch(browser, address, complaints)
        browser.goto(address)
        length = browser.locator("#text-length")
        expect(length).to_contain_text("6 of 5,000 characters. [pause:1] is a second of silence.")
        browser.click("#load")
        expect(length).to_contain_text("7 of 5,000 characters.")
        browser.on("request", lambda request: asked.append(request.url))
        browser.fill("#text textarea", "<b>🎈")
        expect(length).to_contain_text("4 of 5,000 characters.")
        browser.fill("#text textarea", LONG)
        expect(length).to_contain_text("5,504 of 5,000 characters: too long.")
        expect(browser.locator("#text textarea")).to_have_value(LONG)
    assert len(LONG) > MAX_CHARACTERS
    assert asked == complaints == []
