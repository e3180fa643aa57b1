"""The Spoof panel as a person sees it, in a real browser."""

import re
from collections.abc import Iterator

import gradio as gr
import pytest
from playwright.sync_api import Page, expect

from explorers.measure_page import axe_faults as faults_of_axe
from explorers.shared.terms import create_terms
from explorers.spoof.layout import create_spoof
from explorers.spoof.ways import WAYS
from explorers.theme import launch_options
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.chromium import NEEDS_CHROMIUM, SOFTWARE, patient_page, picture, watch
from tests.explorers.served import serve
from tests.explorers.spoof.test_beams import untrained

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer) -> Iterator[str]:
    """Where a page is served that has the panel."""
    with gr.Blocks(fill_width=True) as app:
        gr.HTML("<h1>A page</h1>")
        with gr.Tab("Spoof", elem_id="spoof"):
            create_spoof(Synthesizer(synthesizer.voice, detectors=untrained(64)))
        create_terms()
    options = launch_options()
    yield from serve(app, **options)


@pytest.fixture
def page(address: str, request: pytest.FixtureRequest, complaints: list[str]) -> Iterator[Page]:
    with patient_page(getattr(request, "param", 1440), SOFTWARE, PATIENCE_MS) as page:
        watch(page, address, complaints)
        page.goto(f"{address}?__theme=light")
        yield page


def say(page: Page) -> None:
    page.fill("#spoof-text textarea", "Hello, yes ${window.hacked = 1} <b>one</b>.")
    page.click("#spoof-run")
    expect(page.locator("#spoof-status")).to_contain_text("All six takes are ready.")


@pytest.mark.parametrize("page", [390, 1440, 1920], indirect=True)
def test_a_person_says_a_text_six_ways_and_it_fits_in_both_themes(page: Page, complaints: list[str]) -> None:
    say(page)
    for key in WAYS:
        expect(page.locator(f"#spoof-{key}")).to_contain_text("tokens computed for each token of the take")
        expect(page.locator(f"#spoof-curves-{key} .spoof-plane")).to_have_attribute("role", "img")
        expect(page.locator(f"#spoof-sound-{key}").get_by_role("button", name="Play", exact=True)).to_be_visible()
    expect(page.locator("#spoof-tree .beams-plane svg")).to_have_attribute("aria-label", re.compile("^Beams of HierEAS"))
    expect(page.locator("button.primary:visible")).to_have_count(1)
    for theme in ("light", "dark"):
        page.evaluate("theme => document.body.classList.toggle('dark', theme === 'dark')", theme)
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
        assert picture(page, "Spoof").stat().st_size > 10_000
        assert faults_of_axe(page) == []
    assert page.evaluate("window.hacked") is None
    assert complaints == []


def test_a_person_walks_the_beams_by_keyboard_and_hears_a_pruned_one(page: Page, complaints: list[str]) -> None:
    say(page)
    told = page.locator('#spoof-tree [data-part="note"]')
    stop = page.locator("#spoof-tree .beam[tabindex='0']")
    stop.focus()
    expect(told).to_contain_text("Cycle 1, beam 1,")
    page.keyboard.press("ArrowDown")
    expect(told).to_contain_text("Cycle 1, beam 2,")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(told).to_contain_text("Cycle 1, beam 1,")
    expect(stop).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#spoof-words")).to_contain_text("HierEAS, cycle 1, beam 2")
    expect(page.locator("#spoof-sound-beam .timestamps")).to_be_visible()
    expect(page.locator("#spoof-beam input")).to_have_value("2")
    expect(page.locator("#spoof-tree .beam[aria-pressed='true']")).to_have_attribute("data-beam", "2")

    pruned = page.locator("#spoof-tree .beams-plane .beam.first").first
    number = pruned.get_attribute("data-beam")
    # Where a line is thin, what takes the pointer is wider than what is seen.
    pruned.locator(".hit").dispatch_event("click")
    expect(page.locator("#spoof-words")).to_contain_text(f"HierEAS, cycle 1, beam {number} (pruned after 10)")
    expect(pruned).to_have_attribute("aria-pressed", "true")
    page.locator('#spoof-way label:has(input[value="hierras"])').click()
    expect(page.locator("#spoof-tree .beams-plane svg")).to_have_attribute("aria-label", re.compile("^Beams of HierRAS"))
    page.fill("#spoof-beam input", "3")
    page.click("#spoof-hear")
    expect(page.locator("#spoof-words")).to_contain_text("HierRAS, cycle 1, beam 3")
    picture(page, "spoof-beam")
    assert complaints == []


def test_a_run_is_stopped_and_what_was_said_stays(page: Page) -> None:
    page.fill("#spoof-text textarea", "The quick brown fox jumps over a lazy dog. " * 4)
    page.click("#spoof-run")
    expect(page.locator("#spoof-status")).to_contain_text(re.compile("[2-6] of 6"))
    # Gradio loses a press that comes before the server has answered that the run is over.
    with page.expect_response("**/cancel*"):
        page.click("#spoof-stop")
    expect(page.locator("#spoof-status")).to_contain_text("Stopped. Finished takes stay.")
    expect(page.locator("#spoof-curves-original .spoof-plane")).to_be_visible()
    page.fill("#spoof-text textarea", " ")
    page.click("#spoof-run")
    expect(page.locator(".toast-body")).to_contain_text("text is missing, but must be some English text.")
    expect(page.locator("#spoof-status")).to_contain_text("text is missing, but must be some English text.")
    expect(page.locator("#spoof-curves-original .spoof-plane")).to_be_visible()
