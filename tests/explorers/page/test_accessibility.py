"""The page to those who do not see it or do not use a mouse: axe on every tab, the keyboard, reduced motion."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from explorers.measure_page.access import TABS, faults, faults_of_axe, not_reached, not_used
from explorers.shared.blocks import SIMILARITY_NAMES
from tests.explorers.chromium import CHROMIUM, NEEDS_CHROMIUM, READY, SOFTWARE

pytestmark = NEEDS_CHROMIUM
TESTED = [tab for tab in TABS if tab != "Spoof"]  # which this voice has no detectors for, and which has a page of its own
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


@pytest.mark.slow
def test_axe_finds_nothing_in_any_tab(page: Page) -> None:
    page.locator("#terms summary").click()
    page.locator("#settings > button").click()
    dark = page.evaluate("document.body.classList.contains('dark')")
    assert faults(page, faults_of_axe, TESTED, dark=dark) == []
    assert page.evaluate(MOVING) == []
    assert page.evaluate("getComputedStyle(document.querySelector('#run')).transitionDuration") == "0s"


@pytest.mark.slow
def test_axe_would_see_a_button_without_a_name_and_words_that_are_too_pale(page: Page) -> None:
    blame = '<button></button><p style="color: #999; background: #888">too pale to be read</p>'
    page.evaluate("blame => document.querySelector('.gradio-container').insertAdjacentHTML('beforebegin', blame)", blame)
    assert {"button-name", "color-contrast", "without"} <= {line.split()[0] for line in faults_of_axe(page)}


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


@pytest.mark.parametrize("page", ["light"], indirect=True)
@pytest.mark.slow
def test_every_control_of_every_tab_is_reached_and_used_by_the_keyboard(page: Page) -> None:
    assert faults(page, not_reached, TESTED, unfold=True) == []
    expect(page.locator("#status")).to_contain_text("A recorded example.")  # whoever passes by chooses nothing
    assert faults(page, not_used, TESTED, unfold=True) == []


@pytest.mark.parametrize("page", ["light"], indirect=True)
@pytest.mark.slow
def test_the_walk_would_see_a_control_that_is_skipped_and_one_that_is_deaf(page: Page) -> None:
    deaf = '<div id="deaf" role="button" tabindex="0">no key is heard</div>'
    page.locator("#run").evaluate("(run, deaf) => run.insertAdjacentHTML('afterend', deaf)", deaf)  # waits until it is there
    assert ['id="deaf"' in each for each in not_used(page)] == [True]
    page.evaluate("document.querySelector('#run').tabIndex = -1")
    assert ['id="run"' in each for each in not_reached(page)] == [True]


@pytest.mark.parametrize("page", ["light"], indirect=True)
def test_another_similarity_chosen_by_the_keyboard_is_heard(page: Page) -> None:
    page.locator("#more-settings > button").click()
    menu = page.locator("#similarity input")
    menu.focus()
    for key in ("Tab", "Shift+Tab"):
        page.keyboard.press(key)
    expect(page.locator("#status")).to_contain_text("A recorded example.")
    for key in ("ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#status")).to_contain_text("PCG in")
    expect(menu).not_to_have_value(SIMILARITY_NAMES["cosine"])
