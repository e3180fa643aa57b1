"""All panels in a real browser: how they look at four widths in both themes, and the main actions that no other file tries."""

from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile
from playwright.sync_api import Page, expect
from torch import Tensor

from explorers.measure_page.access import TABS, open_tab
from tests.explorers.chromium import NEEDS_CHROMIUM, picture

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]
MARKS = ("ar", "sd", "ssd", "pcg")


@pytest.mark.parametrize("page", [360, 390, 1440, 1920], indirect=True)
def test_every_panel_fits_in_both_themes_and_has_one_primary_button(page: Page, complaints: list[str]) -> None:
    width = page.viewport_size["width"]
    for tab in TABS[:-1]:  # the last one, Spoof, has a page of its own
        open_tab(page, tab)
        expect(page.locator("button.primary:visible")).to_have_count(1)
        for theme in ("light", "dark"):
            page.evaluate("theme => document.body.classList.toggle('dark', theme === 'dark')", theme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
            assert picture(page, tab).stat().st_size > 10_000
        page.evaluate("document.body.classList.remove('dark')")
    assert complaints == []


def test_a_method_has_one_colour_on_lanes_and_map(page: Page) -> None:
    lane = "getComputedStyle(document.querySelector('.stage-lane[data-key={}]')).borderLeftColor"
    shown = {method: page.evaluate(lane.format(method)) for method in MARKS}
    assert len(set(shown.values())) == len(MARKS)
    open_tab(page, "Map")
    border = page.evaluate("getComputedStyle(document.querySelector('.atlas [data-part=\"take\"]')).borderLeftColor")
    taken = page.locator('.atlas [data-part="take"]').input_value()
    assert shown[taken] == border


def test_a_person_swaps_the_last_utterance_and_reads_what_it_cost(page: Page, complaints: list[str]) -> None:
    open_tab(page, "Swap")
    expect(page.locator("#swap-swapped")).to_contain_text("appears here after a swap")
    page.click("#swap-run")
    for name in ("original", "swapped", "control"):
        expect(page.locator(f"#swap-strip-{name} .ribbon")).to_have_attribute("role", "img")
        expect(page.locator(f"#swap-sound-{name}").get_by_role("button", name="Play", exact=True)).to_be_visible()
    expect(page.locator("#swap-status")).to_contain_text("Swapped.")
    for title in ("average |G|", "swapped", "WER", "DNSMOS", "mel distance"):
        expect(page.locator("#swap-table table")).to_contain_text(title)
    expect(page.locator("#swap-table tbody tr").nth(1).locator("td").nth(1)).to_contain_text("%")
    picture(page, "swap-done")
    assert complaints == []


def test_a_person_drops_a_recording_and_reads_who_decided(
    page: Page, tmp_path: Path, babble: Callable[[int, int], list[Tensor]], complaints: list[str]
) -> None:
    file = tmp_path / "babble.wav"
    soundfile.write(file, babble(1, 3)[0].numpy(), 16_000)
    open_tab(page, "Recognise")
    page.locator("#recognise-sound input[type=file]").set_input_files(file)
    page.fill("#recognise-reference textarea", "the quick brown fox")
    page.click("#recognise-run")
    expect(page.locator("#recognise-transcript .stages li")).to_have_count(3)
    expect(page.locator("#recognise-errors")).to_contain_text("of 4 words of the reference")
    expect(page.locator("#recognise-entropies .js-plotly-plot")).to_be_visible()
    picture(page, "recognise-done")
    assert complaints == []
