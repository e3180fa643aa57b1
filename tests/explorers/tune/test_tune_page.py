"""The Tune panel as a person sees it, in a real browser."""

from collections.abc import Iterator

import gradio as gr
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from explorers.groups.layout import create_map
from explorers.session import Session, Turn
from explorers.theme import launch_options
from explorers.tune.actions import TuneRequest, TuneStep, tune
from explorers.tune.layout import connect_map, create_tune
from explorers.tune.measured import Bench
from pcg.settings import Settings
from pcg.spoof.detector import RESOLUTIONS, Detector, DetectorConfig
from pcg.spoof.detectors import Detectors
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin
from tests.explorers.chromium import ARGUMENTS, CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this computer")
SOUND = ["--autoplay-policy=no-user-gesture-required", "--use-gl=angle", "--use-angle=swiftshader"]
SOFTWARE = [*SOUND, "--enable-unsafe-swiftshader"]
PATIENCE_MS = 60_000
TEXT = "Hello, yes."


@pytest.fixture(scope="module")
def address(judged: Synthesizer) -> Iterator[str]:
    """Where a page is served that has the panel and the map."""
    synthesizer = judged
    with gr.Blocks() as app:
        with gr.Tab("Tune"):
            view = create_tune(synthesizer, Origin.of(synthesizer.voice))
        with gr.Tab("Map", elem_id="map"):
            shown = create_map(synthesizer, gr.State(Session()))
        connect_map(synthesizer, view, shown)
    _, url, _ = app.queue().launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_options())
    yield url
    app.close(verbose=False)


@pytest.fixture(params=[390, pytest.param(1440, marks=pytest.mark.slow)])
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
    expect(page.locator("#tune-what-if th[aria-current]")).to_have_count(1)  # no column stands for theta 0.37
    expect(taken).to_have_attribute("data-state", "done")
    text = page.locator("#tune-text textarea").input_value()
    take = synthesizer.take(text, Settings(theta=0.37), "one")
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


def test_the_curves_stand_below_the_tokens_and_the_law_can_be_chosen(page: Page, judged: Synthesizer) -> None:
    legend, marks = page.locator('[data-part="curves"] button'), page.locator('[data-part="marks"]')
    # Drawn by the strip's script, which from then on hears of knobs that move.
    page.locator('[data-part="stage"][style*="width"]').wait_for()
    expect(page.locator('[data-part="spoof"]')).to_be_hidden()
    page.locator("#tune-sampling button").first.click()
    page.fill("#tune-text textarea", TEXT)
    page.locator("#tune-sampler label", has_text="EAS").click()
    expect(page.locator("#tune-sampler")).to_contain_text("get a penalty")
    expect(legend).to_have_count(5)
    expect(page.locator('[data-part="judge"]')).to_contain_text("Detectors: untrained <b>.")
    take = judged.take(TEXT, Settings(sampler="eas"), "one")
    expect(marks).to_have_attribute("aria-valuemax", str(len(take.tokens) - 1))
    expect(page.locator(".strip")).to_have_attribute("data-state", "done")
    curves = judged.decoder.detectors.curves(take.tokens)
    enabled = [span <= len(take.tokens) for span in (50, 25, 10, 50, 50)]
    assert [legend.nth(i).is_enabled() for i in range(5)] == enabled

    box = marks.bounding_box()
    marks.hover(position={"x": 40, "y": box["height"] - 20})
    title = page.locator('[data-part="title"]')
    expect(title).to_contain_text("Token ")
    place = int(title.locator("small").text_content().split("number ")[1].split()[0]) - 1
    expect(page.locator('[data-curve="M10"] output')).to_have_text(f"{round(curves['M10'][place].item(), 3):.2f}")

    before = marks.page.locator('[data-part="picture"]').evaluate("canvas => canvas.toDataURL()")
    page.locator('[data-curve="M10"]').click()
    expect(page.locator('[data-curve="M10"]')).to_have_attribute("aria-pressed", "false")
    page.wait_for_function("old => document.querySelector('[data-part=picture]').toDataURL() !== old", arg=before)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_the_curves_come_after_the_take_and_only_from_detectors_that_fit(synthesizer: Synthesizer, judged: Synthesizer) -> None:
    request = TuneRequest(TEXT, "one", "pcg", 0.3, 3, 0.3, "cosine", 0.6, 5, False, sampler="ras", top_k=20)
    steps: list[TuneStep] = list(tune(judged, request, Bench(), Turn()))
    *before, curves, last = steps
    (take,) = [step.take for step in before if step.take]
    assert before[-1].take is take
    assert last.bench.estimate is not None
    assert not any(step.spoof for step in [*before, last])
    assert (take.settings.sampler, take.settings.top_k) == ("ras", 20)
    assert take.tokens == judged.take(TEXT, take.settings, "one").tokens
    told = {curve["name"]: curve["values"] for curve in curves.spoof["curves"]}
    assert [*told] == [r.name for r in RESOLUTIONS]
    for resolution in RESOLUTIONS:
        if len(take.tokens) < resolution.span:
            assert set(told[resolution.name]) == {None}
        else:
            expected = judged.decoder.detectors.curve(take.tokens, resolution)
            assert told[resolution.name] == pytest.approx(expected.tolist(), abs=1e-3)

    config = DetectorConfig(synthesizer.voice.codec.codebook_size + 1, width=16, heads=2, layers=1, feed_forward=16)
    other = Synthesizer(synthesizer.voice, detectors=Detectors("", {r.name: Detector(config).eval() for r in RESOLUTIONS}))
    assert not any(step.spoof for step in tune(other, request, Bench(), Turn()))


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
