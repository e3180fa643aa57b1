"""The page to those who do not see it or do not use a mouse: axe on every tab, the keyboard, reduced motion."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from explorers.shared.blocks import SIMILARITY_NAMES
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

# All that a person may operate and sees; what is marked as hidden are gradio's own copies of tabs.
CONTROLS = """[...document.querySelectorAll('button, input:not([type="hidden"]), textarea, select, summary, a[href], audio, ' +
    '[role="slider"], [role="button"], [role="tab"], [tabindex="0"]')]
  .filter((e) => e.checkVisibility() && e.getClientRects().length && !e.disabled)
  .filter((e) => !e.closest('[inert], [aria-hidden="true"], .visually-hidden'))"""
UNFOLD = """() => document.querySelectorAll('button.label-wrap:not(.open)').forEach(
  (e) => e.checkVisibility() && !e.closest('#experiments') && e.click())"""
FORGET = "() => { for (const e of document.querySelectorAll('[data-reached]')) delete e.dataset.reached; }"
# Whether the focus is where it was before.
ARRIVE = """() => {
  const { activeElement: e } = document;
  if (e === document.body) return false;
  const before = Boolean(e.dataset.reached);
  e.dataset.reached = true;
  return before;
}"""
# Of a group of radio buttons one is reached, and arrows lead to the others.
SKIPPED = f"""() => {{
  const all = {CONTROLS};
  const beside = (e) => e.closest('fieldset')?.querySelector('[type="radio"][data-reached]');
  return all.filter((e) => !e.dataset.reached && !(e.type === 'radio' && beside(e))).map((e) => e.outerHTML.slice(0, 200));
}}"""
MARK_SLIDERS = (
    f"""() => {CONTROLS}.filter((e) => e.matches('[type="range"], [role="slider"]')).map((e, i) => (e.dataset.slider = i))"""
)
VALUE = "i => { const e = document.querySelector(`[data-slider='${i}']`); return e.getAttribute('aria-valuenow') ?? e.value; }"
MOST_STOPS = 500


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


def walk(page: Page) -> None:
    """Press Tab until the focus is back at where it was first."""
    page.evaluate(FORGET)
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if page.evaluate(ARRIVE):
            return
    raise AssertionError("the focus does not come round")


def move_sliders(page: Page) -> list[str]:
    """Use every slider of the tab by an arrow key, and return those that stand still."""
    still = []
    for i in page.evaluate(MARK_SLIDERS):
        slider = page.locator(f"[data-slider='{i}']")
        slider.focus()
        before = page.evaluate(VALUE, i)
        for key in ("ArrowRight", "ArrowLeft", "ArrowLeft"):  # it may stand at its end
            page.keyboard.press(key)
            if page.evaluate(VALUE, i) != before:
                break
        else:
            still.append(slider.evaluate("e => e.outerHTML.slice(0, 200)"))
    page.evaluate("document.querySelectorAll('[data-slider]').forEach((e) => delete e.dataset.slider)")
    return still


@pytest.mark.parametrize("page", ["light"], indirect=True)
@pytest.mark.slow
def test_every_control_of_every_tab_is_reached_and_used_by_the_keyboard(page: Page) -> None:
    for tab in TABS:
        open_tab(page, tab)
        page.evaluate(UNFOLD)
        page.wait_for_timeout(1_000)  # what is unfolded is drawn
        walk(page)
        assert page.evaluate(SKIPPED) == [], tab
        expect(page.locator("#status")).to_contain_text("A recorded example.")  # whoever passes by chooses nothing
    for tab in TABS:
        open_tab(page, tab)
        assert move_sliders(page) == [], tab


@pytest.mark.parametrize("page", ["light"], indirect=True)
@pytest.mark.slow
def test_the_walk_would_see_a_control_that_is_skipped(page: Page) -> None:
    page.evaluate("document.querySelector('#run').tabIndex = -1")
    walk(page)
    assert ['id="run"' in each for each in page.evaluate(SKIPPED)] == [True]


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
