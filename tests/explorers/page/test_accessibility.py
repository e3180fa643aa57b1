"""The page to those who do not see it or do not use a mouse: axe on every tab, the keyboard, reduced motion."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from tests.explorers.chromium import CHROMIUM, NEEDS_CHROMIUM, READY, SOFTWARE, TABS, open_tab

pytestmark = NEEDS_CHROMIUM
SERIOUS = ("serious", "critical")
# Gradio's own, which cannot be mended from outside: a rule, what its selector holds, and why.
GRADIOS_OWN = (
    ("aria-prohibited-attr", 'aria-label="Empty value"', "a label on the icon of an empty component, which says nothing else"),
)  # fmt: skip
UNLABELLED = """() => [...document.querySelectorAll(
    'button, input:not([type="hidden"]), textarea, select, canvas:not([aria-hidden]), audio, [role="slider"], [role="img"]')]
  .filter((e) => e.checkVisibility() && e.getClientRects().length)
  .filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.labels?.length ||
                   e.textContent.trim() || e.title || e.placeholder || e.closest('label, [aria-label]')))
  .map((e) => e.outerHTML.slice(0, 160))"""
MOVING = """() => document.getAnimations().filter((a) => a.playState === 'running').map((a) => a.animationName)"""
FOCUSED = """() => { const style = getComputedStyle(document.activeElement);
  return { outline: style.outlineStyle + ' ' + style.outlineWidth, shadow: style.boxShadow,
           inside: document.activeElement.closest('[role="tab"], #text, #run, .stage')?.id ?? '' }; }"""


@pytest.fixture(params=["light", pytest.param("dark", marks=pytest.mark.slow)])
def page(address: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE)
        page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        page.set_default_timeout(60_000)
        page.goto(f"{address}?__theme={request.param}")
        expect(page.locator(READY)).to_be_visible(timeout=60_000)
        yield page
        browser.close()


def violations(page: Page) -> list[str]:
    """What axe finds serious or worse and nobody knows yet, one line an element."""
    found = []
    for violation in Axe().run(page).response["violations"]:
        for node in violation["nodes"]:
            place = " ".join(map(str, node["target"])) + node["html"]
            known = any(rule == violation["id"] and part in place for rule, part, _ in GRADIOS_OWN)
            if violation["impact"] in SERIOUS and not known:
                found.append(f"{violation['id']}: {node['target']} {node['html'][:160]} {node['failureSummary'][:240]}")
    return found


@pytest.mark.slow
def test_axe_finds_nothing_serious_in_any_tab(page: Page) -> None:
    page.locator("#terms summary").click()
    page.locator("#settings > button").click()
    found = []
    for tab in TABS:
        open_tab(page, tab)
        found += [f"{tab}: {violation}" for violation in violations(page)]
        found += [f"{tab}, without a label: {element}" for element in page.evaluate(UNLABELLED)]
    assert found == []
    assert page.evaluate(MOVING) == []
    assert page.evaluate("getComputedStyle(document.querySelector('#run')).transitionDuration") == "0s"


@pytest.mark.slow
def test_axe_would_see_a_button_without_a_name_and_words_that_are_too_pale(page: Page) -> None:
    faults = '<button></button><p style="color: #999; background: #888">too pale to be read</p>'
    page.evaluate("faults => document.querySelector('.gradio-container').insertAdjacentHTML('beforebegin', faults)", faults)
    assert {"button-name", "color-contrast"} <= {line.partition(":")[0] for line in violations(page)}


def test_the_keyboard_reaches_tabs_text_and_button_in_that_order_and_shows_where_it_is(page: Page) -> None:
    page.evaluate("document.activeElement?.blur()")
    order = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        assert focused["outline"].split()[0] != "none" or focused["shadow"] != "none", focused
        order.append(focused["inside"])
        if focused["inside"] == "run":
            break
    places = [order.index(place) for place in ("listen-tab-button", "text", "run")]
    assert places == sorted(places)
