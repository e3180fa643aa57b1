"""Presets of one's own: their settings, and on the whole page, in a real browser."""

import pytest
from playwright.sync_api import Page, expect

from explorers.measure_page.access import open_tab
from explorers.settings.presets import kept_settings
from pcg.settings import BLOCKWISE, METHODS
from tests.explorers.chromium import ARGUMENTS, NEEDS_CHROMIUM, READY, patient_page

PATIENCE_MS = 60_000


@pytest.mark.parametrize("method", METHODS)
def test_any_method_in_hand_makes_a_preset_whatever_verification_is_chosen(method: str) -> None:
    kept = kept_settings({"method": method, "verification": "block", "similarity": "mel", "theta": 0.4})
    assert (kept.method, kept.similarity, kept.theta) == (method, "mel", 0.4)
    assert kept.verification == ("block" if method in BLOCKWISE else "token")


def store_my_own(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator(READY)).to_be_visible()
    page.locator("#settings > button").click()
    page.fill("#preset-name input, #preset-name textarea", "my own")
    page.locator("#keep-preset").click()
    expect(page.locator("#preset input")).to_have_value("my own")


@NEEDS_CHROMIUM
def test_presets_of_ones_own_are_offered_at_once_after_a_reload(address: str) -> None:
    with patient_page(1440, ARGUMENTS, PATIENCE_MS) as page:
        store_my_own(page, address)

        page.reload()
        expect(page.locator(READY)).to_be_visible()
        page.locator("#more-settings > button").click()
        page.locator("#compare-preset input").click()
        expect(page.get_by_role("option", name="my own")).to_be_visible()
        page.keyboard.press("Escape")
        page.locator("#settings > button").click()
        page.locator("#preset input").click()
        expect(page.get_by_role("option", name="my own")).to_be_visible()
        page.keyboard.press("Escape")
        open_tab(page, "Listening test")
        page.locator("#listening-compared input").click()
        page.get_by_role("option", name="my own").click()
        expect(page.locator("#listening-compared")).to_contain_text("my own")


@NEEDS_CHROMIUM
def test_a_preset_that_is_stored_again_or_deleted_leaves_no_stale_choice(address: str) -> None:
    with patient_page(1440, ARGUMENTS, PATIENCE_MS) as page:
        store_my_own(page, address)
        page.locator("#more-settings > button").click()
        chosen = page.locator("#compare-preset input")
        chosen.click()
        page.get_by_role("option", name="my own").click()
        page.fill("#text textarea", "yes")
        page.fill("#lookahead input[type=number]", "2")
        page.locator("#keep-preset").click()
        expect(page.locator("#preset-note")).to_contain_text("Stored")
        page.locator("#run").click()
        expect(page.locator("#status")).to_contain_text("5 takes in")
        expect(chosen).to_have_value("my own")
        page.locator("#forget-preset").click()
        expect(chosen).to_have_value("none")


@NEEDS_CHROMIUM
def test_a_name_that_is_too_long_is_refused_and_not_cut(address: str) -> None:
    with patient_page(1440, ARGUMENTS, PATIENCE_MS) as page:
        page.goto(address)
        expect(page.locator(READY)).to_be_visible()
        page.locator("#settings > button").click()
        expect(page.locator("#preset-name")).to_contain_text("Up to 40 characters.")
        name = page.locator("#preset-name input, #preset-name textarea")
        name.fill("x" * 41)
        page.locator("#keep-preset").click()
        expect(page.locator("#preset-note")).to_contain_text("but must be 1 to 40 printable characters.")
        expect(name).to_have_value("x" * 41)
