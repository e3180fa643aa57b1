"""The link of a listening test in a real browser: made on one page, opened on another."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from explorers.listening.link import MARK
from tests.explorers.chromium import ARGUMENTS, CHROMIUM, watch

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this computer")
TEXT = "The quick brown fox, ${window.hacked = 1} and <b>hello</b>."


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def opened(browser: Browser, address: str, complaints: list[str]) -> Page:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    watch(page, address.partition("#")[0], complaints)
    page.goto(address)
    expect(page.locator("#listening-run")).to_be_enabled(timeout=60_000)
    return page


def test_a_test_is_sent_round(browser: Browser, address: str, complaints: list[str]) -> None:
    page = opened(browser, address, complaints)
    page.get_by_label("Rating, 0 to 100").check()
    page.get_by_label("own lines").check()
    page.locator("#listening-lines textarea").fill(TEXT)
    page.locator("#listening-seed input").fill("77")
    page.keyboard.press("Tab")
    page.click("#listening-link-make")
    expect(page.locator("#listening-link textarea")).to_have_value(re.compile(MARK), timeout=20_000)
    link = page.locator("#listening-link textarea").input_value()
    other = opened(browser, link, complaints)
    expect(other.locator("#listening-status")).to_contain_text("This test came by a link: texts")
    expect(other.locator("#listening-lines textarea")).to_have_value(TEXT)
    expect(other.locator("#listening-seed input")).to_have_value("77")
    expect(other.get_by_label("Rating, 0 to 100")).to_be_checked()
    expect(other.locator("#listening-reference input")).to_be_visible()
    assert other.evaluate("window.hacked") is None
    assert other.evaluate("document.documentElement.scrollWidth") <= 390
    assert complaints == []


def test_a_damaged_link_says_so_and_changes_nothing(browser: Browser, address: str, complaints: list[str]) -> None:
    page = opened(browser, f"{address}{MARK}abc", complaints)
    expect(page.locator("#listening-status")).to_contain_text("link is 'abc'")
    expect(page.get_by_label("A/B: which is better")).to_be_checked()
    assert complaints == []
