"""Controls of one name on several tabs, in a real browser."""

from collections.abc import Iterator

import gradio as gr
import pytest
from playwright.sync_api import Page, expect

from explorers.shared.one_state import MOVES, share_controls
from explorers.theme import launch_options
from tests.explorers.chromium import ARGUMENTS, NEEDS_CHROMIUM, patient_page
from tests.explorers.served import serve

PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A form, and on another tab a narrower slider that a button moves, too."""
    with gr.Blocks() as app:
        with gr.Tab("Form"):
            form = {"theta": gr.Slider(0, 1, 0.2, step=0.01, elem_id="theta")}
        with gr.Tab("Panel") as tab:
            own = {"theta": gr.Slider(0.5, 0.8, 0.6, step=0.01, elem_id="narrow")}
            moved = gr.Button("Move", elem_id="move").click(lambda: 0.7, None, own["theta"])
        share_controls([tab], form, {**own, MOVES: [moved]})
    yield from serve(app, **launch_options())


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    with patient_page(1440, ARGUMENTS, PATIENCE_MS) as page:
        page.goto(address)
        yield page


@NEEDS_CHROMIUM
def test_a_narrower_slider_shows_its_nearest_end_and_changes_nothing(page: Page) -> None:
    theta, narrow = (page.locator(f"#{name} input[type=number]") for name in ("theta", "narrow"))
    for value, shown in (("0.2", "0.5"), ("0.9", "0.8")):
        theta.fill(value)
        page.get_by_role("tab", name="Panel").click()
        expect(narrow).to_have_value(shown)
        page.wait_for_timeout(300)
        page.get_by_role("tab", name="Form").click()
        expect(theta).to_have_value(value)


@NEEDS_CHROMIUM
def test_what_moves_a_slider_by_itself_is_given_back(page: Page) -> None:
    theta, narrow = (page.locator(f"#{name} input[type=number]") for name in ("theta", "narrow"))
    page.get_by_role("tab", name="Panel").click()
    expect(narrow).to_have_value("0.5")
    page.click("#move")
    expect(narrow).to_have_value("0.7")
    page.get_by_role("tab", name="Form").click()
    expect(theta).to_have_value("0.7")
