"""The text box, and controls of one name on several tabs, in a real browser."""

from collections.abc import Iterator

import gradio as gr
import pytest
from playwright.sync_api import Page, expect

from explorers.shared.controls import share_controls, text_box
from explorers.theme import launch_options
from pcg.text.reading import MAX_CHARACTERS
from tests.explorers.chromium import NEEDS_CHROMIUM
from tests.explorers.served import serve

LONG = "word " * 1_100 + "end."


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A form, and on another tab a narrower slider."""
    with gr.Blocks() as app:
        with gr.Tab("Form"):
            box = text_box("", " Hello. ")
            gr.Button("Load", elem_id="load").click(lambda: "Loaded. ", None, box)
            form = {"theta": gr.Slider(0, 1, 0.2, step=0.01, elem_id="theta")}
        with gr.Tab("Panel") as tab:
            own = {"theta": gr.Slider(0.5, 0.8, 0.6, step=0.01, elem_id="narrow")}
        share_controls([tab], form, own)
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


@NEEDS_CHROMIUM
def test_a_narrower_slider_shows_its_nearest_end_and_gives_back_what_a_visitor_sets(page: Page) -> None:
    theta, narrow = (page.locator(f"#{name} input[type=number]") for name in ("theta", "narrow"))
    for value, shown in (("0.2", "0.5"), ("0.9", "0.8")):
        theta.fill(value)
        page.get_by_role("tab", name="Panel").click()
        expect(narrow).to_have_value(shown)
        page.wait_for_timeout(300)
        page.get_by_role("tab", name="Form").click()
        expect(theta).to_have_value(value)
    page.get_by_role("tab", name="Panel").click()
    narrow.fill("0.7")
    page.get_by_role("tab", name="Form").click()
    expect(theta).to_have_value("0.7")
