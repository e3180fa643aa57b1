"""The take in hand as a person sees it, in a real browser: every token, one round step by step, the detectors, the map."""

from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import pytest
from playwright.sync_api import Page, expect

from explorers.groups.layout import create_map
from explorers.listen.example import read_example
from explorers.listen.layout import create_compare
from explorers.session import Session
from explorers.theme import launch_options
from explorers.tune.layout import connect_map
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.stored import Origin
from pcg.takes.take import Take
from tests.explorers.chromium import NEEDS_CHROMIUM, SOFTWARE, patient_page, watch
from tests.explorers.served import serve

pytestmark = NEEDS_CHROMIUM
PATIENCE_MS = 60_000
LONGEST_MOTION = """() => {
  document.querySelectorAll('.round-steps a')[2].click();
  const moving = document.getAnimations().filter(({ animationName }) => animationName?.startsWith('round-'));
  return Math.max(0, ...moving.map((each) => each.effect.getTiming().duration));
}"""


@pytest.fixture(scope="module")
def address(judged: Synthesizer, example_folder: Path) -> Iterator[str]:
    """Where a page is served that has the panel and the map."""
    with gr.Blocks() as app:
        session = gr.State(Session())
        with gr.Tab("Listen"):
            view = create_compare(app, judged, Origin.of(judged.voice), session, read_example(example_folder))
        with gr.Tab("Groups", elem_id="groups-tab"), gr.Tabs(), gr.Tab("Map", elem_id="map"):
            shown = create_map(judged, session)
        connect_map(judged, view.strip, shown)
    yield from serve(app.queue(), **launch_options())


@pytest.fixture
def take(example_folder: Path) -> Take:
    return read_example(example_folder).takes["pcg"]


@pytest.fixture(params=[390, pytest.param(1440, marks=pytest.mark.slow)])
def page(address: str, request: pytest.FixtureRequest, complaints: list[str]) -> Iterator[Page]:
    with patient_page(request.param, SOFTWARE, PATIENCE_MS) as page:
        watch(page, address, complaints)
        page.goto(address)
        expect(page.locator(".strip")).to_have_attribute("data-state", "done")
        yield page


def test_a_person_reads_the_tokens_and_finds_one_on_the_map(page: Page, take: Take, complaints: list[str]) -> None:
    marks, title = page.locator('.strip [data-part="marks"]'), page.locator('.strip [data-part="title"]')
    button = page.locator('.strip [data-part="play"]')
    expect(marks).to_have_attribute("aria-valuemax", str(len(take.tokens) - 1))
    marks.focus()
    expect(title).to_contain_text(f"Token {take.tokens[0]}, {take.kinds[0]}")
    page.keyboard.press("ArrowRight")
    expect(marks).to_have_attribute("aria-valuenow", "1")
    test = next(t for r in take.rounds for t in r.tests)
    page.keyboard.press("Home")
    expect(page.locator('.strip [data-part="facts"]')).to_contain_text(f"{test.mass_q:.3f}"[:4])
    page.keyboard.press("Enter")
    expect(button).to_have_text("❚❚ Stop")
    page.keyboard.press("Escape")
    expect(button).to_have_text("▶ Play")
    marks.click(position={"x": 40, "y": 30})
    expect(button).to_have_text("❚❚ Stop")

    marks.focus()
    token = int(title.text_content().split()[1].rstrip(","))
    page.keyboard.press("m")
    expect(page.locator('.atlas [data-part="title"]')).to_contain_text(f"Token {token}")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert complaints == []


def test_a_round_is_explained_step_by_step_with_its_own_numbers(page: Page, take: Take, complaints: list[str]) -> None:
    onwards, formula = page.locator('.strip [data-part="next"]'), page.locator('.strip [data-part="formula"]')
    number = next(i for i, r in enumerate(take.rounds) if "resampled" in r.kinds and r.tests)
    round_, steps = take.rounds[number], page.locator(".round-steps a")
    onwards.click()
    expect(page.locator('.strip [data-part="number"]')).to_have_text(f"{number + 1} of {len(take.rounds)}")
    expect(formula).to_contain_text(f"The draft proposes {len(round_.drafted)} tokens")
    expect(page.locator(".round-chip")).to_have_count(len(round_.drafted))
    onwards.click()
    expect(formula).to_contain_text("reads all of them in one call")
    for test in round_.tests:
        onwards.press("Enter")
        expect(formula).to_contain_text(f"coin {test.coin:.3f}" if test.coin >= 0.001 else "coin")
        expect(formula).to_contain_text("accepted." if test.accepted else "rejected.")
        expect(formula).to_contain_text("Q_c / P_c")
        expect(page.locator(".round-map")).to_be_visible()
    onwards.press("Enter")
    expect(formula).to_contain_text(f"draws token {round_.tokens[-1]} in its place")
    expect(steps.last).to_have_attribute("aria-current", "step")
    steps.first.focus()
    page.keyboard.press("Enter")
    expect(formula).to_contain_text("The draft proposes")
    expect(steps.first).to_be_focused()
    page.locator('.strip [data-part="after"]').click()
    expect(page.locator('.strip [data-part="number"]')).to_have_text(f"{number + 2} of {len(take.rounds)}")
    assert complaints == []


def test_a_round_goes_on_by_itself_until_it_is_stopped(page: Page) -> None:
    slowly, steps = page.locator('.strip [data-part="slowly"]'), page.locator(".round-steps a")
    slowly.click()
    expect(slowly).to_have_text("❚❚ Stop")
    expect(steps.nth(1)).to_have_attribute("aria-current", "step")
    slowly.click()
    expect(slowly).to_have_text("▶ Slowly")
    at = page.locator('.round-steps [aria-current="step"]').text_content()
    page.wait_for_timeout(2_000)
    assert page.locator('.round-steps [aria-current="step"]').text_content() == at
    slowly.click()
    expect(steps.nth(1)).to_have_attribute("aria-current", "step")
    page.locator('.strip [data-part="before"]').click()
    expect(slowly).to_have_text("▶ Slowly")


def test_a_test_moves_unless_less_motion_is_asked_for(page: Page) -> None:
    page.locator('.strip [data-part="next"]').click()
    assert page.evaluate(LONGEST_MOTION) < 1
    page.emulate_media(reduced_motion="no-preference")
    page.locator(".round-steps a").first.click()
    assert page.evaluate(LONGEST_MOTION) > 100


def test_the_curves_of_the_detectors_unfold_below_the_tokens(page: Page, judged: Synthesizer, take: Take) -> None:
    legend, marks = page.locator('.strip [data-part="curves"] button'), page.locator('.strip [data-part="marks"]')
    expect(page.locator('.strip [data-part="spoof"]')).to_be_hidden()
    page.locator('.strip [data-part="detectors"]').click()
    expect(legend).to_have_count(5)
    expect(page.locator('.strip [data-part="judge"]')).to_contain_text("Detectors: untrained <b>.")
    curves = judged.decoder.detectors.curves(take.tokens)
    enabled = [span <= len(take.tokens) for span in (50, 25, 10, 50, 50)]
    assert [legend.nth(i).is_enabled() for i in range(5)] == enabled
    box = marks.bounding_box()
    marks.hover(position={"x": 40, "y": box["height"] - 20})
    title = page.locator('.strip [data-part="title"]')
    expect(title).to_contain_text("Token ")
    place = int(title.locator("small").text_content().split("number ")[1].split()[0]) - 1
    expect(page.locator('[data-curve="M10"] output')).to_have_text(f"{round(curves['M10'][place].item(), 3):.2f}")
    before = page.locator('.strip [data-part="picture"]').evaluate("canvas => canvas.toDataURL()")
    page.locator('.strip [data-curve="M10"]').click()
    expect(page.locator('.strip [data-curve="M10"]')).to_have_attribute("aria-pressed", "false")
    page.wait_for_function("old => document.querySelector('.strip [data-part=picture]').toDataURL() !== old", arg=before)


@pytest.mark.slow
def test_a_moved_knob_is_heard_and_its_take_is_in_hand(page: Page, judged: Synthesizer, take: Take) -> None:
    page.evaluate("document.querySelector('#knobs > button:not(.open)')?.click()")
    page.locator("#theta input[type=range]").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#status")).to_contain_text("PCG in")
    again = judged.take(take.text, take.settings.with_(theta=0.33), "two")
    expect(page.locator('.strip [data-part="marks"]')).to_have_attribute("aria-valuemax", str(len(again.tokens) - 1))
    if page.viewport_size["width"] < 760:  # the sheet of the knobs would lie above it
        page.locator("#knobs > button").click()
    page.locator("#tune-more > button").click()
    expect(page.locator("#tune-what-if th[aria-current]")).to_have_count(1)  # no column stands for theta 0.33
    page.click("#tune-measure")
    expect(page.locator("#tune-figures")).to_contain_text("bound")
