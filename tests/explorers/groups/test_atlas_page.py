"""The map as a person sees it, in a real browser."""

from collections.abc import Callable, Iterator

import gradio as gr
import numpy as np
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from explorers.groups.layout import create_map
from explorers.groups.listen_token import create_listen
from explorers.session import Session, TakeView
from explorers.theme import launch_options
from pcg.groups.phones import PHONES
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.chromium import ARGUMENTS, CHROMIUM, watch
from tests.explorers.served import in_hand, serve

SOFTWARE_WEBGL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
NO_WEBGL = ["--disable-3d-apis"]
PATIENCE_MS = 120_000
PIXELS = """places => {
  const canvas = document.querySelector("[data-part=points]");
  const ratio = canvas.width / canvas.clientWidth;
  const pixel = ([left, top]) => canvas.getContext("2d").getImageData(left * ratio, top * ratio, 1, 1).data.join();
  return places.map(pixel);
}"""
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# What is written on the marks since they were last wiped: words, left end, middle line and width.
SPY = """() => {
  const pen = CanvasRenderingContext2D.prototype;
  const { fillText, clearRect } = pen;
  window.written = [];
  pen.clearRect = function (...box) {
    if (this.canvas.dataset.part === "marks") window.written = [];
    clearRect.apply(this, box);
  };
  pen.fillText = function (words, left, top) {
    window.written.push([words, left, top, this.measureText(words).width]);
    fillText.call(this, words, left, top);
  };
}"""
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this computer"), pytest.mark.slow]


def spoken(tokens: tuple[int, ...]) -> Session:
    shape = (("accepted",) * len(tokens), (1,) * len(tokens), tokens, ((tokens[0], True), (tokens[1], False)))
    take = TakeView(Settings("pcg"), "${window.hacked = 1}", "<b>", 1.5, 100.0, 0.3, 0.5, 2.0, False, *shape)
    return Session().with_take(take, True)


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer) -> Iterator[str]:
    """Where a page is served that has the map in its second tab."""
    with gr.Blocks() as app:
        session = gr.State(Session())
        with gr.Tab("Speak"):
            gr.Button("Speak", elem_id="speak").click(lambda: spoken((5, 6, 5)), None, session)
        with gr.Tab("Map"):
            view = create_map(synthesizer, session)
            with view.listen:
                create_listen(synthesizer, session, view.anchor, view.second, view.theta, view.similarity, in_hand())
    yield from serve(app, **launch_options())


@pytest.fixture
def open_map(address: str) -> Iterator[Callable[[list[str]], Page]]:
    with sync_playwright() as playwright:

        def open_(arguments: list[str], speak_first: bool = False) -> Page:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, *arguments])
            page = browser.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
            page.set_default_timeout(PATIENCE_MS)
            expect.set_options(timeout=PATIENCE_MS)
            page.goto(address)
            if speak_first:
                with page.expect_response(lambda response: "/queue/data" in response.url):
                    page.click("#speak")
            page.get_by_role("tab", name="Map").click()
            expect(page.locator(".atlas")).to_have_attribute("data-state", "ready")
            return page

        yield open_
        expect.set_options(timeout=5_000)


def title(page: Page) -> object:
    return expect(page.locator('[data-part="title"]'))


def place_of(synthesizer: Synthesizer, token: int, width: float, height: float) -> tuple[float, float]:
    """Where the whole map shows `token`: all codes that have a place of their own, in 93 % of the room."""
    map_ = synthesizer.atlas()
    own = map_.nearest[:, 0].numpy() != np.arange(len(map_.x))
    places = np.stack([map_.x.numpy(), -map_.y.numpy()])
    low, high = places[:, own].min(1), places[:, own].max(1)
    room = np.array([width, height])
    return tuple((places[:, token] - (low + high) / 2) * 0.93 * min(room / (high - low)) + room / 2)


def test_a_person_explores_the_map(
    open_map: Callable[[list[str]], Page], synthesizer: Synthesizer, address: str, complaints: list[str]
) -> None:
    page = open_map(SOFTWARE_WEBGL)
    watch(page, address, complaints)
    expect(page.locator('[data-part="notice"]')).to_have_text("")

    page.fill("#map-token input", "64")
    page.click("#map-find")
    expect(page.locator(".toast-body")).to_contain_text("token is 64, but must be a whole number from 0 to 63.")
    page.locator(".toast-close").click()
    page.fill("#map-token input", "3")
    page.click("#map-find")
    title(page).to_contain_text("Token 3")

    canvas = page.locator('[data-part="marks"]')
    box = canvas.bounding_box()
    left, top = place_of(synthesizer, 9, box["width"], box["height"])
    canvas.click(position={"x": left, "y": top})
    title(page).to_contain_text("Token 9")
    expect(page.locator("#map-token input")).to_have_value("9")
    page.click('[data-part="back"]')
    title(page).to_contain_text("Token 3")

    page.locator("#map-theta input[type=range]").focus()
    page.keyboard.press("Home")
    expect(page.locator('[data-part="news"]')).to_contain_text("at theta 0.20")
    size = synthesizer.groups(0.2).size(int(synthesizer.groups(0.2).group_of_centre[3]))
    expect(page.locator('[data-part="table"] tbody tr')).to_have_count(size)

    second = page.locator('[data-part="table"] tbody tr').nth(1)
    token = second.get_attribute("data-token")
    page.locator('[data-part="table"] tbody tr').first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Enter")
    expect(page.locator('[data-part="pair"]')).to_contain_text("Together at theta 0.20")
    page.get_by_role("tab", name="Members").click()
    page.get_by_role("columnheader", name="Token").get_by_role("button").click()
    expect(page.locator('th[aria-sort="ascending"]')).to_have_text("Token")
    page.locator(f'[data-part="table"] tr[data-token="{token}"]').focus()
    page.keyboard.press("Enter")
    title(page).to_contain_text(f"Token {token}")
    canvas.focus()
    page.keyboard.press("+")
    page.keyboard.press("Escape")
    title(page).to_contain_text("No token chosen")

    page.get_by_role("tab", name="Speak").click()
    page.click("#speak")
    page.get_by_role("tab", name="Map").click()
    page.locator('[data-part="path"]').check()
    page.select_option('[data-part="colouring"]', "fate")
    expect(page.locator('[data-part="legend"]')).to_contain_text("rejected")

    page.evaluate("document.querySelector('[data-part=points]').getContext('webgl2').getExtension('WEBGL_lose_context')"
                  ".loseContext()")  # fmt: skip
    expect(page.locator('[data-part="notice"]')).to_contain_text("lost the map's graphics")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("window.hacked") is None
    assert complaints == []


def find(page: Page, token: int) -> None:
    page.fill("#map-token input", str(token))
    page.click("#map-find")
    title(page).to_contain_text(f"Token {token}")


def test_a_colouring_shows_outside_of_the_chosen_group(open_map: Callable[[list[str]], Page], synthesizer: Synthesizer) -> None:
    page = open_map(NO_WEBGL)
    page.locator("#map-theta input[type=range]").focus()
    page.keyboard.press("End")
    find(page, 3)
    expect(page.locator('[data-part="facts"] dd').first).to_have_text("1")
    box = page.locator('[data-part="marks"]').bounding_box()
    own = synthesizer.atlas().nearest[:, 0].numpy() != np.arange(64)
    others = [place_of(synthesizer, t, box["width"], box["height"]) for t in np.flatnonzero(own).tolist() if t != 3]
    before = page.evaluate(PIXELS, others)
    page.select_option('[data-part="colouring"]', "digit")
    expect(page.locator('[data-part="legend"]')).to_contain_text("Colour: FSQ digit 1")
    page.evaluate(PAINTED)
    after = page.evaluate(PIXELS, others)
    assert sum(a != b for a, b in zip(before, after, strict=True)) > len(others) / 3
    assert len(set(after)) > len(set(before))


def test_a_token_tells_its_phone_and_the_map_is_coloured_by_phones(
    open_map: Callable[[list[str]], Page], synthesizer: Synthesizer
) -> None:
    page = open_map(NO_WEBGL)
    for token in (0, 3, 40):
        find(page, token)
        phone = dict(enumerate(PHONES)).get(int(synthesizer.voice.phones[token]))
        heard = "pauses" if phone == "pau" else f'"{phone}" (' if phone else "no phone of the timed speech"
        title(page).to_contain_text(f"heard in {heard}")
    page.select_option('[data-part="colouring"]', "phone")
    expect(page.locator('[data-part="legend"]')).to_contain_text("fricative")


def towards(synthesizer: Synthesizer, token: int, right: int, up: int) -> int:
    """The nearest token within 45 degrees of a direction."""
    map_ = synthesizer.atlas()
    offsets = np.stack([map_.x.numpy() - map_.x.numpy()[token], map_.y.numpy() - map_.y.numpy()[token]])
    along, across = right * offsets[0] + up * offsets[1], np.abs(up * offsets[0] + right * offsets[1])
    return int(np.where((along > 0) & (across <= along), (offsets**2).sum(0), np.inf).argmin())


def test_arrow_keys_move_the_choice_and_enter_plays_it(open_map: Callable[[list[str]], Page], synthesizer: Synthesizer) -> None:
    page = open_map(SOFTWARE_WEBGL)
    canvas, token = page.locator('[data-part="marks"]'), 3
    find(page, token)
    canvas.focus()
    # There is a token to the right of any but the last, and to the left of that.
    for key, way in (("ArrowRight", (1, 0)), ("ArrowLeft", (-1, 0)), ("ArrowUp", (0, 1)), ("ArrowDown", (0, -1))):
        page.keyboard.press(key)
        token = towards(synthesizer, token, *way)
        title(page).to_contain_text(f"Token {token}")
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.locator("#listen-words")).to_contain_text(f"A is token {token}.")
    expect(page.locator("#listen-a-alone").get_by_role("button", name="Play", exact=True)).to_be_visible()
    # Its clock would count whole seconds, and the sound lasts half of one.
    expect(page.locator("#listen-a-alone .timestamps")).to_be_hidden()
    title(page).to_contain_text(f"Token {token}")
    page.keyboard.press("Escape")
    title(page).to_contain_text("No token chosen")
    page.keyboard.press("ArrowUp")
    title(page).to_contain_text("Token ")


def test_no_label_is_printed_over_another(open_map: Callable[..., Page]) -> None:
    page = open_map(SOFTWARE_WEBGL, speak_first=True)
    page.evaluate(SPY)
    find(page, 5)
    # The path begins and ends at the chosen token.
    page.locator('[data-part="path"]').check()
    page.wait_for_function("window.written.length > 2")
    written = page.evaluate("window.written")
    assert {words for words, *_ in written} == {"5", "start", "end"}
    for i, (_, left, middle, wide) in enumerate(written):
        for _, other_left, other_middle, other_wide in written[:i]:
            apart = left > other_left + other_wide or other_left > left + wide
            assert apart or abs(middle - other_middle) >= 16


def test_the_members_table_explains_its_steps(open_map: Callable[[list[str]], Page]) -> None:
    page = open_map(NO_WEBGL)
    explained = page.locator('[data-part="steps"]')
    expect(explained).to_be_hidden()
    find(page, 3)
    expect(explained).to_have_text("Steps: the differences between the FSQ digits of the two tokens, summed.")
    page.get_by_role("tab", name="Overlaps").click()
    expect(explained).to_be_hidden()


def test_a_take_may_come_before_the_map_is_opened(open_map: Callable[..., Page]) -> None:
    page = open_map(SOFTWARE_WEBGL, speak_first=True)
    page.locator('[data-part="path"]').check()
    page.select_option('[data-part="colouring"]', "fate")
    expect(page.locator('[data-part="legend"]')).to_contain_text("rejected")
    page.fill("#map-token input", "3")
    page.click("#map-find")
    title(page).to_contain_text("Token 3")


def test_without_webgl_the_map_is_a_still_picture(open_map: Callable[[list[str]], Page]) -> None:
    page = open_map(NO_WEBGL)
    expect(page.locator('[data-part="notice"]')).to_contain_text("A still picture")
    page.fill("#map-token input", "3")
    page.keyboard.press("Enter")
    title(page).to_contain_text("Token 3")
    painted = "Array.from(document.querySelector('[data-part=points]').getContext('2d').getImageData(0, 0, 300, 300).data)"
    assert page.evaluate(f"{painted}.some((byte) => byte > 0)")
