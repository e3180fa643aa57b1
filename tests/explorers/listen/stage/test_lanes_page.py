"""What a lane, the bar and the menu of voices say of a take, in a real browser."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from explorers.shared.terms import TERMS
from pcg.audio import write_wav
from pcg.settings import METHODS
from tests.explorers.chromium import NEEDS_CHROMIUM

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]
RATE = 16_000


def test_a_take_generated_alone_is_compared_with_ar_of_an_earlier_run_and_says_so(page: Page, complaints: list[str]) -> None:
    speed = page.locator('.stage-lane[data-key="pcg"] [data-fact="speed"]')
    page.fill("#text textarea", "Once more.")
    page.click("#run")
    expect(page.locator("#status")).to_contain_text("Four takes in")
    expect(speed).to_contain_text("× AR")
    expect(speed).not_to_contain_text("earlier")
    expect(speed).to_have_css("font-weight", "650")
    page.locator("#theta input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    expect(speed).to_contain_text("× AR of an earlier run")
    expect(speed).to_have_css("font-weight", "400")
    expect(page.locator(".hand-what")).to_contain_text("× AR of an earlier run")
    assert complaints == []


def test_a_press_on_generate_is_worth_more_than_a_knob_that_moved_just_before(page: Page) -> None:
    page.fill("#text textarea", "Once more.")
    page.evaluate(
        "document.dispatchEvent(new CustomEvent('knob-moved', { detail: 'pcg' })), document.querySelector('#run').click()"
    )
    expect(page.locator("#status")).to_contain_text("Four takes in")


@pytest.mark.parametrize("page", [390, 1440], indirect=True)
def test_every_method_and_the_calls_are_explained_on_their_lane(page: Page, complaints: list[str]) -> None:
    tip, pressed = page.locator(".term-tip"), page.locator('.stage-switch [aria-pressed="true"]')
    heard = pressed.text_content()
    for method in METHODS:
        lane = page.locator(f'.stage-lane[data-key="{method}"]')
        for key in (method, "call"):
            lane.locator(f'a[href="#term-{key}"]').click()
            expect(tip).to_contain_text(TERMS[key].meaning)
    expect(pressed).to_have_text(heard)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert complaints == []


def test_the_menu_of_voices_says_that_a_recording_speaks(page: Page, complaints: list[str], tmp_path: Path) -> None:
    menu = page.locator("#voice input")
    expect(menu).to_have_value("two")
    write_wav(tmp_path / "me.wav", np.sin(np.arange(4 * RATE) / 20).astype(np.float32) / 2, RATE)
    page.get_by_text("Another voice, from a recording").first.click()
    page.locator('#recording input[type="file"]').set_input_files(tmp_path / "me.wav")
    expect(menu).to_have_value("your recording")
    expect(menu).to_be_disabled()
    page.locator('#recording button[aria-label="Clear"]').click()
    expect(menu).to_have_value("two")
    expect(menu).to_be_enabled()
    page.locator('#recording input[type="file"]').set_input_files(tmp_path / "me.wav")
    expect(menu).to_have_value("your recording")
    page.click('.hand [data-part="open"]')
    page.locator('.hand-takes li[data-number="1"] [data-act="up"]').click()
    expect(page.locator("#status")).to_contain_text("Take 1 is selected. Its text, voice and settings are restored.")
    expect(menu).to_have_value("two")
    expect(menu).to_be_enabled()
    assert complaints == []
