"""The tour as a person takes it, in a real browser: six steps from "play" to a rejection that is heard."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from explorers.listen.example import Example, read_example
from explorers.measure_page.access import faults_of_axe
from tests.explorers.chromium import NEEDS_CHROMIUM, READY, SOFTWARE, patient_page, picture, watch

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]
PATIENCE_MS = 90_000
CARD, COUNT, HEADING, TOLD = ".tour", '.tour [data-part="count"]', ".tour h2", '.tour [data-part="told"]'
START, BACK, ONWARDS = ".tour-start", '.tour [data-part="back"]', ".tour-onwards"
# Whatever sounds on this page is a node that starts.
EARS = """() => {
  window.sounds = 0;
  const start = AudioBufferSourceNode.prototype.start;
  AudioBufferSourceNode.prototype.start = function (...when) { window.sounds++; return start.apply(this, when); };
}"""


@pytest.fixture(params=[(390, "light"), (1440, "dark")], ids=["390", "1440"])
def page(address: str, request: pytest.FixtureRequest, complaints: list[str]) -> Iterator[Page]:
    width, theme = request.param
    with patient_page(width, SOFTWARE, PATIENCE_MS) as page:
        watch(page, address, complaints)
        page.goto(f"{address}?__theme={theme}")
        expect(page.locator(READY)).to_be_visible()
        expect(page.locator(".strip")).to_have_attribute("data-state", "done")
        page.evaluate(EARS)
        yield page


@pytest.fixture
def example(example_folder: Path) -> Example:
    return read_example(example_folder)


def onwards(page: Page, step: int, heading: str) -> None:
    page.keyboard.press("Enter")  # Next has the focus
    expect(page.locator(COUNT)).to_have_text(f"Step {step} of 6")
    expect(page.locator(HEADING)).to_have_text(heading)
    expect(page.locator(".tour-at")).to_have_count(1)


def heard(page: Page) -> int:
    return page.evaluate("window.sounds")


def test_six_steps_lead_from_play_to_a_rejection_that_is_heard(page: Page, example: Example, complaints: list[str]) -> None:
    begun = time.monotonic()
    page.click(START)
    expect(page.locator(COUNT)).to_have_text("Step 1 of 6")
    expect(page.locator(ONWARDS)).to_be_focused()
    expect(page.locator(BACK)).to_be_disabled()
    expect(page.locator(".stage-play")).to_have_text("❚❚ Pause")

    onwards(page, 2, "Switch to AR")
    expect(page.locator('.stage-switch [data-key="ar"]')).to_have_attribute("aria-pressed", "true")

    onwards(page, 3, "The race")
    ar, pcg = (len(example.takes[method].rounds) for method in ("ar", "pcg"))
    expect(page.locator(TOLD)).to_contain_text(f"AR needs {ar} calls of the target, PCG {pcg}.")
    expect(page.locator(".stage-notice")).to_contain_text("Decoding took: ")
    expect(page.locator('.stage [data-part="slow"]')).to_be_checked()
    expect(page.locator("#in-hand-heading")).to_contain_text("PCG")

    onwards(page, 4, "An accepted token")
    expect(page.locator('.strip [data-part="title"]')).to_contain_text(", accepted")
    expect(page.locator('.strip [data-part="formula"]')).to_contain_text(": accepted.")

    onwards(page, 5, "One round")
    expect(page.locator(".round")).to_be_in_viewport()
    expect(page.locator(".round-map")).to_be_visible()

    before = heard(page)
    onwards(page, 6, "Hear a rejection")
    expect(page.locator('.strip [data-part="formula"]')).to_contain_text(": rejected.")
    expect(page.locator('.round-chip[data-now][data-state="rejected"]')).to_have_count(1)
    page.wait_for_function("before => window.sounds > before", arg=before)
    assert time.monotonic() - begun < 60
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert faults_of_axe(page) == []
    picture(page, "tour")

    page.keyboard.press("Enter")
    expect(page.locator(CARD)).to_be_hidden()
    expect(page.locator(START)).to_be_focused()
    expect(page.locator(".tour-at")).to_have_count(0)
    expect(page.locator('.stage [data-part="slow"]')).not_to_be_checked()
    assert complaints == []


def test_the_tour_goes_back_leaves_the_page_free_and_ends_at_escape(page: Page) -> None:
    page.click(START)
    onwards(page, 2, "Switch to AR")
    page.locator('.stage-switch [data-key="sd"]').click()  # the page is not locked
    expect(page.locator("#in-hand-heading")).to_contain_text("SD, seed 7")
    page.locator(BACK).focus()
    page.keyboard.press("Enter")
    expect(page.locator(HEADING)).to_have_text("Press play")
    expect(page.locator(ONWARDS)).to_be_focused()
    expect(page.locator('.stage-switch [data-key="pcg"]')).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    expect(page.locator(CARD)).to_be_hidden()
    expect(page.locator(START)).to_be_focused()
    page.locator('.stage-switch [data-key="ssd"]').click()
    expect(page.locator("#in-hand-heading")).to_contain_text("SSD, seed 7")
    expect(page.locator('.strip [data-part="title"]')).to_have_text("No token chosen")  # the tour asks for nothing any more


def test_the_card_covers_nothing_that_it_explains(page: Page) -> None:
    page.click(START)
    for step, heading in enumerate(("Switch to AR", "The race", "An accepted token"), 2):
        onwards(page, step, heading)
        card, shown = (page.locator(each).bounding_box() for each in (CARD, ".tour-at"))
        top = min(shown["y"] + shown["height"], shown["y"] + 150)
        assert card["y"] >= top or card["y"] + card["height"] <= shown["y"]
