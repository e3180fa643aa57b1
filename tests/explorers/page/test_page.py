"""The page as a person sees it, in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from explorers.compare.first_minute import HINTS
from pcg.settings import METHODS
from tests.explorers.chromium import ARGUMENTS, CHROMIUM, NEEDS_CHROMIUM, picture, watch

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]
PATIENCE_MS = 120_000


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser.new_page(viewport={"width": 390, "height": 844})
        browser.close()


def test_a_person_says_it_four_ways_and_moves_the_knobs(page: Page, address: str, complaints: list[str]) -> None:
    watch(page, address, complaints)
    page.goto(address)

    for method in METHODS:
        expect(page.locator(f"#ribbon-{method} .ribbon")).to_have_attribute("role", "img")
    expect(page.locator("#text textarea")).to_have_value("The quick brown fox, yes.")
    expect(page.locator("#readout-pcg")).to_contain_text("as recorded with this example")

    page.fill("#text textarea", "Hello, ${window.hacked = 1} is this <b>one</b> sentence?")
    page.click("#run")
    expect(page.locator("#status")).to_contain_text("Four takes in", timeout=PATIENCE_MS)
    for method in METHODS:
        expect(page.locator(f"#sound-{method}").get_by_role("button", name="Play", exact=True)).to_be_visible()
    for method in METHODS[1:]:
        expect(page.locator(f"#readout-{method}")).to_contain_text("measured in this same run")

    page.locator("#theta input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#status")).to_contain_text("PCG in", timeout=PATIENCE_MS)
    expect(page.locator("#groups")).to_contain_text("At theta 0.31")
    expect(page.locator("#readout-pcg")).to_contain_text("measured in the last full run")
    expect(page.locator("#readout-pcg")).to_contain_text("theta 0.31")

    page.locator("#beta input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#status")).to_contain_text("SSD in", timeout=PATIENCE_MS)

    strip = page.locator("#ribbon-pcg .ribbon").get_attribute("aria-label")
    page.fill("#text textarea", " ")
    page.click("#run")
    expect(page.locator(".toast-body")).to_contain_text("text is ' ', but must be some English text.")
    assert page.locator("#ribbon-pcg .ribbon").get_attribute("aria-label") == strip

    picture(page, "compare-done")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("window.hacked") is None
    assert complaints == []


def test_three_hints_lead_to_their_controls_until_they_are_put_aside(page: Page, address: str) -> None:
    page.goto(address)
    card = page.locator(".first-minute")
    expect(card.locator("li")).to_have_count(len(HINTS), timeout=PATIENCE_MS)
    for number, hint in enumerate(HINTS):
        expect(page.locator("#ribbon-pcg .ribbon")).to_have_attribute("role", "img", timeout=PATIENCE_MS)
        card.locator("li button").nth(number).click()
        place = page.locator(hint.place)
        expect(place).to_be_focused(timeout=PATIENCE_MS)
        expect(place).to_be_in_viewport()
        expect(page.locator('[role="tab"][aria-selected="true"]').first).to_have_text(hint.tab)
    picture(page, "first-minute")

    card.get_by_role("button", name="Hide these hints for good").click()
    expect(card).to_be_hidden()
    page.reload()
    expect(page.locator("#tune-button, #compare-button").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#ribbon-pcg .ribbon")).to_have_attribute("role", "img", timeout=PATIENCE_MS)
    expect(card).to_be_hidden()
