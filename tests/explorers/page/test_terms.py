"""The words that the page explains, as data and under a pointer, a key and a finger."""

import re
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, expect

from explorers.shared.terms import TERMS, terms_html
from tests.explorers.chromium import NEEDS_CHROMIUM, READY


def test_a_term_is_one_sentence_and_stands_in_the_list() -> None:
    html = terms_html()
    for key, term in TERMS.items():
        assert re.fullmatch(r"([^.]|0\.)+\.", term.meaning)
        assert html.count(f'id="term-{key}"') == 1
        assert all(part in html for part in (term.meaning, term.equation, term.source))


def test_every_dotted_word_of_the_page_is_in_the_list(address: str) -> None:
    with urlopen(f"{address}config") as answer:
        linked = set(re.findall(r"#term-([a-z-]+)", answer.read().decode()))
    assert {"theta", "lookahead", "beta", "temperature", "entropy-gate", "swapped"} <= linked <= set(TERMS)


def opened(browser: Browser, address: str, width: int, touch: bool = False) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 844}, has_touch=touch, reduced_motion="reduce")
    page.set_default_timeout(60_000)
    page.goto(address)
    expect(page.locator(READY)).to_be_visible(timeout=60_000)
    page.locator("#knobs > button:not(.open)").click()
    expect(page.locator("#theta")).to_be_visible()
    return page


@NEEDS_CHROMIUM
def test_a_pointer_or_the_keyboard_shows_a_term_and_escape_closes_it(browser: Browser, address: str) -> None:
    page = opened(browser, address, 1440)
    tip, word = page.locator(".term-tip"), page.locator('#theta a[href="#term-theta"]')
    expect(tip).to_be_hidden()
    word.hover()
    for told in ("lower theta, larger groups", "cos(e(t), e(t′)) > θ", "PCG Eq. 1"):
        expect(tip).to_contain_text(told)
    tip.hover()  # it can be read and copied
    page.wait_for_timeout(400)
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()

    page.mouse.move(0, 0)
    page.locator("#voice input").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href')") == "#term-theta":
            break
    expect(tip).to_contain_text("lower theta, larger groups")
    described = page.evaluate("document.getElementById(document.activeElement.getAttribute('aria-describedby')).textContent")
    assert TERMS["theta"].meaning in described
    page.close()


@NEEDS_CHROMIUM
def test_a_tap_shows_a_term_within_a_narrow_screen_and_opens_no_tab(browser: Browser, address: str) -> None:
    page = opened(browser, address, 390, touch=True)
    tip, word = page.locator(".term-tip"), page.locator('#lookahead a[href="#term-lookahead"]')
    before = page.locator("#lookahead input[type=number]").input_value()
    word.tap()
    expect(tip).to_contain_text("number of tokens that the draft proposes", ignore_case=True)
    box = tip.bounding_box()
    assert 0 <= box["x"] <= 390 - box["width"]
    page.locator("h1").tap()
    expect(tip).to_be_hidden()
    assert len(page.context.pages) == 1
    assert page.locator("#lookahead input[type=number]").input_value() == before
    page.locator("#knobs > button").tap()  # the sheet would lie above it
    page.locator("#terms summary").tap()
    expect(page.locator("#term-log-mel dd")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
