"""The text box in a real browser."""

from collections.abc import Iterator

import gradio as gr
import pytest
from playwright.sync_api import Page, expect

from explorers.shared.controls import text_box
from explorers.theme import launch_options
from pcg.text.reading import MAX_CHARACTERS
from tests.explorers.chromium import NEEDS_CHROMIUM
from tests.explorers.served import serve

LONG = "word " * 1_100 + "end."


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A text box, and what replaces its text."""
    with gr.Blocks() as app:
        box = text_box(" Hello. ")
        gr.Button("Load", elem_id="load").click(lambda: "Loaded. ", None, box)
    yield from serve(app, **launch_options())


@pytest.fixture
def width() -> int:
    return 390


@NEEDS_CHROMIUM
def test_a_text_box_tells_its_length_and_the_time_of_long_texts_and_cuts_nothing(page: Page, complaints: list[str]) -> None:
    length, text = page.locator("#text-length"), page.locator("#text textarea")
    expect(length).to_contain_text("6 of 5,000 characters. [pause:1] is a second of silence.")
    page.click("#load")
    expect(length).to_contain_text("7 of 5,000 characters.")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    text.fill("<b>🎈")
    expect(length).to_contain_text("4 of 5,000 characters.")
    text.fill("word " * 300)
    expect(length).to_contain_text("1,499 of 5,000 characters, about 100 s of speech.")
    text.fill(LONG)
    expect(length).to_contain_text("5,504 of 5,000 characters: too long.")
    expect(text).to_have_value(LONG)
    assert len(LONG) > MAX_CHARACTERS
    assert asked == complaints == []
