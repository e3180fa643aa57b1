"""The first tab as a person meets it, in a real browser: one player for all methods, a run, a race, one sound at a time."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from explorers.measure_page.access import open_tab
from pcg.settings import METHODS
from tests.explorers.chromium import NEEDS_CHROMIUM, READY, SOFTWARE, patient_page, picture, watch

pytestmark = NEEDS_CHROMIUM
PATIENCE_MS = 120_000
LOUD = """() => [...document.querySelectorAll('.stage-switch [aria-pressed="true"]')].map((b) => b.dataset.key)"""
LISTEN_PIXELS, PLAYER_PIXELS = 1_600, 700


@pytest.fixture
def page(address: str, request: pytest.FixtureRequest, complaints: list[str]) -> Iterator[Page]:
    with patient_page(getattr(request, "param", 390), SOFTWARE, PATIENCE_MS) as page:
        watch(page, address, complaints)
        page.goto(address)
        expect(page.locator(READY)).to_be_visible()
        yield page


def play(page: Page) -> None:
    page.locator(".stage-play").click()
    expect(page.locator(".stage-play")).to_have_text("❚❚ Pause")


def seconds(page: Page) -> float:
    return float(page.locator(".stage-clock").text_content().split()[0])


def test_one_button_plays_and_a_switch_changes_the_method_at_the_same_place(page: Page, complaints: list[str]) -> None:
    lanes = page.locator(".stage-lane")
    expect(lanes).to_have_count(len(METHODS))
    expect(page.locator(".stage-words")).to_contain_text("The quick brown fox, yes.")
    play(page)
    assert float(page.locator(".stage").get_attribute("data-first")) < 5
    before = seconds(page)
    page.keyboard.press("1")
    assert page.evaluate(LOUD) == ["ar"]
    page.locator('.stage-switch [data-key="ssd"]').click()
    assert page.evaluate(LOUD) == ["ssd"]
    assert seconds(page) >= before
    expect(lanes.nth(2)).to_have_attribute("data-chosen", "true")
    page.locator(".stage-name").first.click()
    assert page.evaluate(LOUD) == ["ar"]
    page.locator(".stage-seek").fill("0.1")
    expect(page.locator("#in-hand-heading")).to_contain_text("AR, seed 7")
    assert complaints == []


def test_a_phone_shows_sentence_button_and_player_and_the_knobs_lie_in_a_sheet(page: Page) -> None:
    tops = {name: page.locator(name).first.bounding_box()["y"] for name in ("#text", "#run", ".stage-play")}
    assert tops["#text"] < tops["#run"] < tops[".stage-play"] <= PLAYER_PIXELS
    expect(page.locator("#theta")).to_be_hidden()
    page.locator("#knobs > button").click()
    expect(page.locator("#theta")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_sheet_is_folded_where_the_page_is_slow_to_hear_a_click(page: Page) -> None:
    page.add_init_script("""let lost = 3;
      addEventListener('click', (event) => {
        if (event.target.closest?.('#knobs > button') && lost-- > 0) event.stopImmediatePropagation();
      }, true)""")
    page.reload()
    expect(page.locator(READY)).to_be_visible()
    expect(page.locator("#knobs > button")).not_to_have_class(re.compile(r"\bopen\b"))
    page.locator("#knobs > button").click()
    expect(page.locator("#theta")).to_be_visible()


@pytest.mark.parametrize("page", [360], indirect=True)
def test_nothing_is_cut_off_on_the_narrowest_screen(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("page", [1440], indirect=True)
def test_the_first_tab_fits_on_two_screens_and_the_race_tells_who_was_first(page: Page) -> None:
    expect(page.locator(".strip")).to_have_attribute("data-state", "done")
    assert page.evaluate("document.documentElement.scrollHeight") <= LISTEN_PIXELS
    page.locator('.stage [data-part="race"]').click()
    expect(page.locator(".stage-notice")).to_contain_text("Decoding took: ")
    said = page.locator(".stage-notice").text_content().removeprefix("Decoding took: ").rstrip(".").split(", ")
    times = [float(each.split()[-2]) for each in said]
    assert len(times) == len(METHODS)
    assert times == sorted(times)


@pytest.mark.slow
@pytest.mark.parametrize("page", [1440], indirect=True)
def test_only_one_sound_is_heard_on_the_whole_page(page: Page) -> None:
    expect(page.locator(".strip")).to_have_attribute("data-state", "done")
    page.locator("#details > button").click()
    expect(page.locator("#sound-pcg time").last).to_have_text(re.compile("[1-9]"))  # until it is loaded, a press does nothing
    page.locator("#sound-pcg").get_by_role("button", name="Play", exact=True).click()
    expect(page.locator("#sound-pcg").get_by_role("button", name="Pause", exact=True)).to_be_visible()
    play(page)
    expect(page.locator("#sound-pcg").get_by_role("button", name="Play", exact=True)).to_be_visible()
    page.locator('.strip [data-part="play"]').click()
    expect(page.locator(".stage-play")).to_have_text("▶ Play")
    play(page)
    open_tab(page, "Map")
    page.click('.hand [data-part="play"]')
    expect(page.locator(".stage-play")).to_have_text("▶ Play")


@pytest.mark.slow
def test_a_person_generates_moves_knobs_and_stops(page: Page, complaints: list[str]) -> None:
    page.fill("#text textarea", "Hello, ${window.hacked = 1} is this <b>one</b> sentence?")
    page.click("#run")
    expect(page.locator("#status")).to_contain_text("Four takes in")
    assert float(page.locator(".stage").get_attribute("data-first")) < 30
    for method in METHODS:
        expect(page.locator(f'.stage-lane[data-key="{method}"]')).to_have_attribute("data-outdated", "false")
    expect(page.locator('.stage-lane[data-key="pcg"] [data-fact="speed"]')).to_contain_text("× AR")
    expect(page.locator(".stage-words")).to_contain_text("<b>one</b>")

    page.locator("#knobs > button").click()
    page.locator("#theta input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#status")).to_contain_text("PCG in")
    expect(page.locator("#groups")).to_contain_text("At theta 0.31")
    expect(page.locator('.stage-lane[data-key="pcg"]')).to_contain_text("theta 0.31")
    assert page.evaluate(LOUD) == ["pcg"]
    page.locator("#beta input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#status")).to_contain_text("SSD in")
    page.locator("#knobs > button").click()

    words = page.locator(".stage-words").text_content()
    page.fill("#text textarea", " ")
    page.click("#run")
    expect(page.locator(".toast-body")).to_contain_text("Type an English text first.")
    expect(page.locator("#status")).to_contain_text("Type an English text first.")
    assert page.locator(".stage-words").text_content() == words

    page.fill("#text textarea", "This one is stopped. " * 200)
    page.click("#run")
    expect(page.locator('.stage-lane[data-outdated="true"]').first).to_be_visible()
    page.click("#stop")
    expect(page.locator("#status")).to_contain_text("Stopped")
    expect(page.locator('.stage-lane:has-text("from an earlier request")').first).to_be_visible()

    picture(page, "listen-done")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("window.hacked") is None
    assert complaints == []
