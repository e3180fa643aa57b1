"""The page in a real browser: what a visitor sees, hears and does. One server and one browser for all tests."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.explorers.chromium import NEEDS_CHROMIUM, READY, axe_faults, faults, not_reached, open_tab, picture, too_wide

pytestmark = NEEDS_CHROMIUM
LISTEN_PIXELS, PLAYER_PIXELS = 1_400, 500
TABS = ("Listen", "Map", "Swap test", "Measured", "Listening test", "Recognition")
STOPPABLE = "hello, is this one sentence? yes! " * 120


@pytest.fixture
def page(page: Page) -> Page:
    """The whole page once it can play."""
    expect(page.locator(READY)).to_be_visible()
    expect(page.locator("#play")).to_be_enabled()
    return page


def lane(page: Page, key: str, part: str = "") -> object:
    return page.locator(f'.stage-lane[data-key="{key}"] {part}'.strip())


def idle(page: Page) -> None:
    expect(page.locator(".stage")).to_have_attribute("data-running", "false")


def test_the_first_screen_says_what_it_is_plays_and_switches(page: Page, complaints: list[str]) -> None:
    expect(page.locator(".masthead")).to_contain_text("Principled coarse-graining")
    assert page.locator('.masthead a[href*="arxiv.org"]').count() == 3
    assert page.evaluate("document.documentElement.scrollHeight") <= LISTEN_PIXELS
    expect(page.locator(".stage-lane")).to_have_count(4)
    expect(lane(page, "pcg", '[data-fact="calls"]')).to_contain_text("call")
    page.click("#play")
    expect(page.locator("#play")).to_have_text("❚❚ Pause")
    assert float(page.locator(".stage").get_attribute("data-first")) < 5
    page.keyboard.press("1")
    expect(lane(page, "ar", ".stage-name")).to_have_attribute("aria-pressed", "true")
    lane(page, "ssd").click(position={"x": 300, "y": 20})  # anywhere on the lane
    expect(lane(page, "ssd")).to_have_attribute("data-chosen", "true")
    picture(page, "listen")
    assert complaints == []


@pytest.mark.parametrize("width", [390], indirect=True)
def test_a_phone_shows_the_lanes_first_and_the_knobs_in_a_low_sheet(page: Page) -> None:
    assert page.locator("#play").bounding_box()["y"] <= PLAYER_PIXELS
    for part in ("strong", '[data-fact="calls"]'):
        expect(lane(page, "pcg", part)).to_be_in_viewport()
    assert page.locator("#run").bounding_box()["y"] > lane(page, "pcg").bounding_box()["y"]
    page.locator("#knobs > button").click()
    expect(page.locator("#theta")).to_be_visible()
    assert page.locator("#knobs").bounding_box()["height"] <= 0.41 * 844
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    expect(lane(page, "ar")).to_be_in_viewport()
    page.set_viewport_size({"width": 844, "height": 390})
    page.evaluate("scrollTo(0, 0)")
    expect(page.locator("#play")).to_be_in_viewport()


def test_a_visitor_generates_and_what_was_written_comes_back_as_text(page: Page, complaints: list[str]) -> None:
    length = page.locator("#text-length")
    for text, told in (("<b>🎈", "4 of"), ("word " * 300, "1,499 of 5,000 characters, about 100 s of speech."),
                       ("word " * 1_100, "5,499 of 5,000 characters: too long.")):  # fmt: skip
        page.fill("#text textarea", text)
        expect(length).to_contain_text(told)
        expect(page.locator("#text textarea")).to_have_value(text)
    attack = "Hello, ${window.hacked=1} is this <img src=x onerror='window.hacked=1'> yes?"
    page.fill("#text textarea", attack)
    expect(page.locator(".stage-status")).to_contain_text("press Generate")
    expect(lane(page, "pcg")).to_have_attribute("data-outdated", "true")
    expect(page.locator(".stage-verdict")).to_be_hidden()
    expect(page.locator("#stop")).to_be_hidden()
    page.click("#run")
    expect(page.locator("#run")).to_be_hidden()
    idle(page)
    expect(page.locator(".stage-words")).to_contain_text("<img")
    for key in ("ar", "sd", "ssd", "pcg"):
        expect(lane(page, key)).to_have_attribute("data-outdated", "false")
    expect(lane(page, "pcg", "small")).to_contain_text(re.compile("understood|misheard"))  # by the judge
    page.locator('[data-part="history"]').click()
    expect(page.locator('[data-part="takes"] li').first).to_contain_text("<img")
    page.locator('[data-part="takes"] [data-use]').last.click()
    expect(page.locator('.stage-lane[data-key="kept"]')).to_have_attribute("data-chosen", "true")
    expect(page.locator("#text textarea")).to_have_value("The quick brown fox, yes.")
    assert page.evaluate("window.hacked") is None
    assert complaints == []


def test_a_knob_generates_its_method_again_beside_ar_and_an_emptied_field_gets_its_number_back(page: Page) -> None:
    page.locator("#knobs > button").click()
    page.fill("#theta input[type=number]", "")
    page.keyboard.press("Tab")
    expect(page.locator("#theta input[type=number]")).to_have_value("0.3")
    idle(page)
    page.locator("#theta input[type=range]").press("ArrowRight")
    idle(page)
    expect(lane(page, "pcg", "strong")).to_contain_text("× AR")
    page.locator('[data-part="history"]').click()
    expect(page.locator('[data-part="takes"] li').first).to_contain_text("theta 0.31")
    page.click("#dice")
    expect(page.locator("#seed input")).not_to_have_value("7")
    idle(page)
    seed = page.locator("#seed input").input_value()
    expect(page.locator('[data-part="takes"] li').first).to_contain_text(f"seed {seed}")


def test_an_error_says_what_to_do_and_what_was_heard_before_stop_is_kept(page: Page) -> None:
    page.fill("#text textarea", "مرحبا بالعالم")
    page.click("#run")
    expect(page.locator(".stage-status")).to_have_text("I can only read English letters and digits.")
    idle(page)
    page.fill("#text textarea", STOPPABLE)
    page.click("#run")
    expect(page.locator(".stage")).to_have_attribute("data-first", re.compile(r"\d"))
    page.wait_for_timeout(1_500)
    page.click("#stop")
    expect(page.locator(".stage-status")).to_contain_text("Stopped")
    idle(page)
    position, duration = (float(page.locator(".stage-clock").inner_text().split()[i]) for i in (0, 2))
    assert position <= duration
    page.click("#play")
    expect(page.locator("#play")).to_have_text("❚❚ Pause")


def test_token_by_token_shows_a_round_and_its_link_opens_it(page: Page, browser: Browser, address: str) -> None:
    page.locator('[data-part="tokens"] > summary').click()
    page.click('[data-part="findRejected"]')
    expect(page.locator('[data-part="title"]')).to_contain_text("drawn again")
    expect(page.locator('[data-part="formula"]')).to_contain_text("rejected")
    page.click('[data-part="findAccepted"]')
    expect(page.locator('[data-part="formula"]')).to_contain_text("accepted")
    page.locator("#how-tab-button").click()
    page.locator("#how-round button").click()  # the group passes where its token alone would fail
    expect(page.locator('[data-part="formula"]')).to_contain_text("The token alone had")
    page.locator('[data-part="study"] > summary').click()
    expect(page.locator('[data-part="studied"]')).to_contain_text("accepted of drafted")
    expect(page.locator(".stage-mel")).to_be_visible()
    assert faults(page, axe_faults, ("Listen",)) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.locator(".stage-card").first.bounding_box()["width"] <= 390
    other = browser.new_page()
    other.goto(f"{address}#round=2&step=3")
    expect(other.locator('[data-part="round"]')).to_contain_text("2 of")
    other.close()


def test_a_link_replays_its_take_and_the_history_survives_a_reload(page: Page, browser: Browser, address: str) -> None:
    page.fill("#text textarea", "hello, yes!")
    page.click("#run")
    idle(page)
    calls = lane(page, "pcg", '[data-fact="calls"]').inner_text()
    link = page.evaluate("""() => new Promise((done) => {
      Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (words) => done(words) } });
      document.querySelector('[data-part="share"]').click();
      document.querySelector('[data-act="link"]').click();
    })""")
    other = browser.new_page()
    other.set_default_timeout(90_000)
    other.goto(link)
    expect(other.locator(".stage-words")).to_contain_text("hello, yes!")
    idle(other)
    expect(lane(other, "pcg", '[data-fact="calls"]')).to_have_text(calls)
    other.close()
    page.reload()
    expect(page.locator(READY)).to_be_visible()
    page.locator('[data-part="history"]').click()
    again = page.locator('[data-part="takes"] li', has_text="of before the page was reloaded")
    expect(again).to_have_count(4)
    expect(again.first).to_contain_text("hello, yes!")
    again.first.locator("button").click()
    expect(page.locator(".stage-words")).to_contain_text("hello, yes!")
    idle(page)
    expect(page.locator("#text textarea")).to_have_value("hello, yes!")


def test_presets_stay_in_the_browser_and_go_when_asked_and_a_json_file_brings_its_settings(page: Page) -> None:
    page.locator("#knobs > button").click()
    page.locator('[data-part="share"]').click()
    page.locator('[data-act="paper"]').last.click()
    expect(page.locator(".stage-status")).to_contain_text("press Generate")
    page.locator('[data-act="paper"]').first.click()
    expect(page.locator("#theta input[type=number]")).to_have_value("0.4")
    expect(page.locator(".stage-status")).to_have_text("These takes are of an earlier request: press Generate.")
    page.locator('[data-name="new"]').fill("mine")
    page.locator('[data-act="save"]').click()
    expect(page.locator('[data-act="own"]')).to_have_text("mine")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.locator('[data-act="forget"]').click()
    expect(page.locator('[data-act="own"]')).to_have_count(1)
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator('[data-act="forget"]').click()
    expect(page.locator('[data-act="own"]')).to_have_count(0)
    written = page.evaluate("""() => new Promise((done) => {
      Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (words) => done(words) } });
      document.querySelector('[data-act="json"]').click();
    })""").replace('"theta": 0.3', '"theta": 0.44')
    file = {"name": "take.json", "mimeType": "application/json", "buffer": written.encode()}
    page.set_input_files(".stage-panel input[type=file]", file)
    expect(page.locator("#theta input[type=number]")).to_have_value("0.44")
    idle(page)


def test_can_you_tell_counts_against_chance(page: Page) -> None:
    page.click('[data-part="tellA"]')
    expect(page.locator('[data-part="tellA"]')).to_have_text("❚❚ A")
    page.click('[data-vote="0"]')
    expect(page.locator('[data-part="score"]')).to_contain_text("of 1; guessing gives 0.5")
    page.click('[data-vote="none"]')
    expect(page.locator('[data-part="score"]')).to_contain_text("of 2; guessing gives 0.5")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_in_any_tab(page: Page, dark: bool) -> None:
    page.locator("#knobs > button").click()
    assert faults(page, axe_faults, TABS, dark) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [360], indirect=True)
def test_no_tab_is_wider_than_a_narrow_screen(page: Page) -> None:
    assert faults(page, too_wide, TABS) == []


@pytest.mark.slow
def test_axe_would_see_a_button_without_a_name(page: Page) -> None:
    page.evaluate("document.querySelector('.gradio-container').insertAdjacentHTML('beforebegin', '<button></button>')")
    assert any(fault.startswith("button-name") for fault in axe_faults(page))


def test_the_keyboard_reaches_every_control_and_the_player_first(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the player"
    assert not_reached(page) == []
    page.evaluate("document.querySelector('#run').tabIndex = -1")
    assert ['id="run"' in each for each in not_reached(page)] == [True]


@pytest.mark.slow
def test_one_sound_is_heard_on_the_whole_page(page: Page) -> None:
    page.click("#play")
    expect(page.locator("#play")).to_have_text("❚❚ Pause")
    page.click('[data-part="tellA"]')
    expect(page.locator("#play")).to_have_text("▶ Play")
    open_tab(page, "Map")
    assert page.locator("#play").is_hidden()
