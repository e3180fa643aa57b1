"""The bar above the tabs, and the state that all tabs share, in a real browser."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from explorers.groups.actions import equal_theta
from explorers.measure_page.access import open_tab
from explorers.shared.blocks import SIMILARITY_NAMES
from pcg.metrics.intelligibility import read_sentences
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.chromium import NEEDS_CHROMIUM

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]


def row(page: Page, number: int):
    return page.locator(f'.hand-takes li[data-number="{number}"]')


def test_the_bar_names_the_take_in_hand_on_every_tab(page: Page, complaints: list[str]) -> None:
    for tab in ("Listen", "Map", "Swap", "Experiments", "Recognise"):
        open_tab(page, tab)
        expect(page.locator(".hand-what")).to_contain_text("PCG · “The quick brown fox, yes.” · two · theta 0.3")
    open_tab(page, "Listen")
    page.click('.stage-switch [data-key="ar"]')
    expect(page.locator(".hand-what")).to_contain_text("AR · “The quick brown fox, yes.”")
    assert complaints == []


def test_takes_are_named_pinned_and_taken_in_hand_again(page: Page, complaints: list[str]) -> None:
    page.fill("#text textarea", "Another sentence.")
    page.click("#run")
    expect(page.locator('.hand [data-part="open"]')).to_have_text("History (8)")
    page.click('.hand [data-part="open"]')
    row(page, 3).locator("input").fill("x" * 41)
    row(page, 3).locator("input").press("Tab")
    expect(page.locator('.hand [data-part="notice"]')).to_have_text("A name has at most 40 characters, and this one has 41.")
    expect(row(page, 3).locator("input")).to_have_value("x" * 41)
    row(page, 3).locator("input").fill("<b>calm</b>")
    row(page, 3).locator("input").press("Tab")
    row(page, 3).locator('[data-act="pin"]').click()
    expect(row(page, 3).locator('[data-act="pin"]')).to_have_attribute("aria-pressed", "true")
    row(page, 3).locator('[data-act="up"]').click()
    expect(page.locator(".hand-what")).to_contain_text("<b>calm</b> · “The quick brown fox, yes.”")
    expect(page.locator("#text textarea")).to_have_value("The quick brown fox, yes.")
    expect(page.locator("#in-hand-heading")).to_contain_text("SSD, seed 7")
    page.keyboard.press("Escape")
    expect(page.locator("#hand-history")).to_be_hidden()
    page.click('.stage-switch [data-key="sd"]')
    expect(page.locator(".hand-what")).to_contain_text("SD · “Another sentence.”")
    assert complaints == []


def test_two_takes_are_heard_in_turn_and_one_sound_at_a_time(page: Page, complaints: list[str]) -> None:
    turns, swap = (page.locator(f'.hand [data-part="{part}"]') for part in ("turns", "swap"))
    page.click('.hand [data-part="open"]')
    expect(turns).to_be_disabled()
    row(page, 1).locator('[data-act="0"]').click()
    row(page, 4).locator('[data-act="1"]').click()
    turns.click()
    expect(row(page, 1)).to_have_attribute("data-heard", "true")
    swap.click()
    expect(row(page, 4)).to_have_attribute("data-heard", "true")
    expect(row(page, 1)).to_have_attribute("data-heard", "false")
    page.click(".stage-play")
    expect(turns).to_have_text("▶ Compare A and B")
    assert complaints == []


def test_the_history_is_saved_by_one_click(page: Page, tmp_path: Path) -> None:
    page.click('.hand [data-part="open"]')
    with page.expect_download() as download:
        page.click('.hand [data-part="save"]')
    assert download.value.suggested_filename == "pcg-lab-history.zip"


def test_without_a_clipboard_the_link_is_shown_and_the_takes_stay(page: Page, address: str, complaints: list[str]) -> None:
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined }); window.same = true")
    page.click('.hand [data-part="link"]')
    expect(page.locator(".hand-told")).to_contain_text(f"Copy this link: {address}#take=")
    assert page.locator(".hand-told").text_content().endswith(page.evaluate("location.hash"))
    page.wait_for_timeout(1_000)  # a page that opens anew would have begun to
    assert page.evaluate("window.same")
    page.click('.hand [data-part="open"]')
    row(page, 1).locator('[data-act="link"]').click()
    assert page.locator(".hand-told").text_content().endswith(page.evaluate("location.hash"))
    expect(page.locator('.hand [data-part="notice"]')).to_have_text("The link of take 1 stands in the address bar.")
    assert complaints == []


def test_a_link_of_a_long_text_is_said_to_be_long(page: Page) -> None:
    said = page.locator('.hand-line [data-part="long"], .strip [data-part="long"]')
    page.locator('.strip [data-part="next"]').click()
    expect(said).to_have_text(["", ""])
    page.fill("#text textarea", " ".join(read_sentences()[:10]))
    page.evaluate("document.querySelector('#lookahead input[type=range]').focus()")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".hand-what")).to_contain_text(read_sentences()[0])
    page.locator('.strip [data-part="next"]').click()
    expect(said).to_have_text([re.compile(r"long link: [45]\d\d characters")] * 2)


def test_text_and_knobs_are_the_same_on_every_tab(page: Page) -> None:
    page.fill("#text textarea", "One state for all.")
    open_tab(page, "Map")
    theta = page.locator("#map-theta input[type=number]")
    theta.fill("0.55")
    theta.press("Tab")
    open_tab(page, "Swap")
    expect(page.locator("#swap-theta input[type=number]")).to_have_value("0.55")
    page.locator("#swap-source").get_by_text("a new text").click()
    expect(page.locator("#swap-text textarea")).to_have_value("One state for all.")
    page.fill("#swap-text textarea", "Changed elsewhere.")
    open_tab(page, "Listen")
    expect(page.locator("#text textarea")).to_have_value("Changed elsewhere.")
    expect(page.locator("#theta input[type=number]")).to_have_value("0.55")


def choose(page: Page, menu: str, similarity: str) -> None:
    page.locator(f"{menu} input").click()
    page.get_by_role("option", name=SIMILARITY_NAMES[similarity], exact=True).click()


def test_a_moved_theta_leaves_the_page_at_rest(page: Page) -> None:
    page.locator("#more-settings > button").click()
    choose(page, "#similarity", "mel")
    page.locator("#theta input[type=number]").fill("0.7")
    open_tab(page, "Map")
    expect(page.locator("#map-theta input[type=number]")).to_have_value("0.7")
    page.locator("#map-theta input[type=number]").fill("0.8")
    open_tab(page, "Listen")
    expect(page.locator("#groups")).to_contain_text("At theta 0.80")
    open_tab(page, "Map")
    page.wait_for_timeout(4_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "queue" in request.url else None)
    page.wait_for_timeout(2_000)
    assert asked == []


def test_the_similarity_is_the_same_on_every_tab_and_theta_goes_with_it(page: Page, synthesizer: Synthesizer) -> None:
    theta, on_map, on_swap = (page.locator(f"{knob} input[type=number]") for knob in ("#theta", "#map-theta", "#swap-theta"))
    page.locator("#more-settings > button").click()
    choose(page, "#similarity", "mel")
    theta.fill("0.7")
    open_tab(page, "Map")
    expect(page.locator("#map-similarity input")).to_have_value(SIMILARITY_NAMES["mel"])
    expect(on_map).to_have_value("0.7")

    choose(page, "#map-similarity", "cosine")
    as_large = equal_theta(synthesizer.library, 0.7, "mel", "cosine")
    assert as_large != 0.7
    expect(on_map).to_have_value(str(as_large))
    open_tab(page, "Swap")
    expect(page.locator("#swap-similarity input")).to_have_value(SIMILARITY_NAMES["cosine"])
    expect(on_swap).to_have_value(str(as_large))
    choose(page, "#swap-similarity", "mel")
    back = equal_theta(synthesizer.library, as_large, "cosine", "mel")
    expect(on_swap).to_have_value(str(back))
    open_tab(page, "Listen")
    expect(page.locator("#similarity input")).to_have_value(SIMILARITY_NAMES["mel"])
    expect(theta).to_have_value(str(back))
