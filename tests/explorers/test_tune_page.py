"""The Tune panel as a person sees it, in a real browser."""

from collections.abc import Iterator

import gradio as gr
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from explorers.map import create_map
from explorers.reading import Session
from explorers.theme import launch_options
from explorers.tune import connect_map, create_tune
from pcg.settings import Settings
from pcg.stored import Origin
from pcg.synthesizer import Synthesizer
from tests.explorers.chromium import ARGUMENTS, CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this computer")
SOUND = ["--autoplay-policy=no-user-gesture-required", "--use-gl=angle", "--use-angle=swiftshader"]
SOFTWARE = [*SOUND, "--enable-unsafe-swiftshader"]
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer) -> Iterator[str]:
    """Where a page is served that has the panel and the map."""
    with gr.Blocks() as app:
        with gr.Tab("Tune"):
            view = create_tune(synthesizer, Origin.of(synthesizer.voice))
        with gr.Tab("Map", elem_id="map"):
            shown = create_map(synthesizer, gr.State(Session()))
        connect_map(synthesizer, view, shown)
    _, url, _ = app.queue().launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_options())
    yield url
    app.close(verbose=False)


@pytest.fixture(params=[390, 1440])
def page(address: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, *SOFTWARE])
        page = browser.new_page(viewport={"width": request.param, "height": 844}, reduced_motion="reduce")
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page.goto(address)
        yield page
        browser.close()
        expect.set_options(timeout=5_000)


def test_a_person_says_a_text_moves_theta_and_reads_the_tokens(page: Page, synthesizer: Synthesizer, address: str) -> None:
    complaints: list[str] = []
    addresses: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: addresses.append(request.url))
    taken, marks, title = page.locator(".strip"), page.locator('[data-part="marks"]'), page.locator('[data-part="title"]')
    expect(taken).to_have_attribute("data-state", "empty")

    page.fill("#tune-text textarea", "Hello, yes ${window.hacked = 1} <b>one</b>.")
    page.click("#tune-run")
    expect(page.locator('[data-part="notice"]')).to_contain_text("first sound after")
    expect(taken).to_have_attribute("data-state", "done")
    expect(page.locator("#tune-what-if")).to_contain_text("Estimated, not decoded")

    page.locator("#tune-theta input[type=range]").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(page.locator("#tune-what-if th[aria-current]")).to_have_count(1)  # no column stands for theta 0.47
    expect(taken).to_have_attribute("data-state", "done")
    text = page.locator("#tune-text textarea").input_value()
    take = synthesizer.take(text, Settings(theta=0.47), "one")
    expect(marks).to_have_attribute("aria-valuemax", str(len(take.tokens) - 1))

    marks.focus()
    expect(title).to_contain_text(f"Token {take.tokens[0]}, {take.kinds[0]}")
    page.keyboard.press("ArrowRight")
    expect(marks).to_have_attribute("aria-valuenow", "1")
    test = next(t for r in take.rounds for t in r.tests)
    page.keyboard.press("Home")
    expect(page.locator('[data-part="facts"]')).to_contain_text(f"{test.mass_q:.3f}"[:4])
    page.keyboard.press("Enter")
    expect(page.locator('[data-part="play"]')).to_have_text("❚❚ Stop")
    page.keyboard.press("Escape")
    expect(page.locator('[data-part="play"]')).to_have_text("▶ Play")
    marks.click(position={"x": 40, "y": 30})
    expect(page.locator('[data-part="play"]')).to_have_text("❚❚ Stop")

    page.click("#tune-measure")
    expect(page.locator("#tune-figures")).to_contain_text("measured on this page")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]

    marks.focus()
    token = int(title.text_content().split()[1].rstrip(","))
    page.keyboard.press("m")
    expect(page.locator('.atlas [data-part="title"]')).to_contain_text(f"Token {token}")
    assert page.evaluate("window.hacked") is None
    assert complaints == []
    assert [a for a in addresses if not a.startswith((address, "blob:", "data:"))] == []


def test_a_take_is_stopped_and_a_method_shows_its_own_knobs(page: Page) -> None:
    page.click("#tune-run")
    expect(page.locator(".strip")).to_have_attribute("data-state", "live")
    page.click("#tune-stop")
    expect(page.locator("#tune-status")).to_contain_text("Stopped")
    expect(page.locator(".strip")).to_have_attribute("data-state", "done")
    page.locator("#tune-method label").first.click()
    expect(page.locator("#tune-theta")).to_be_hidden()
    expect(page.locator("#tune-figures")).to_contain_text("AR drafts nothing")
    page.fill("#tune-text textarea", " ")
    page.click("#tune-run")
    expect(page.locator(".toast-body")).to_contain_text("text is ' ', but must be some English text.")
