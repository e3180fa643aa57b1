"""The Experiments panel as a person sees it, in a real browser, and as a program does, by its endpoints."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from playwright.sync_api import Page, expect, sync_playwright

from explorers.experiments import findings
from explorers.experiments.actions import REDRAW_SECONDS
from explorers.experiments.layout import create_experiments
from explorers.theme import launch_options
from pcg.experiments.grids import ar, pcg, sd, ssd, swapped
from pcg.experiments.store import Store
from pcg.experiments.unit import Unit, Utterance
from pcg.experiments.worker import WorkerSpec
from pcg.synthesis.synthesizer import Synthesizer
from tests.experiments.synthetic import CONTEXT, record
from tests.explorers.chromium import ARGUMENTS, CHROMIUM, slow_down, watch
from tests.explorers.served import serve

MARKUP = "PCG <img src=x onerror=alert(1)> ${window.hacked = 1}"
DRAFTING = {"rounds": 40, "drafted": 120, "accepted": 60, "tested": (40, 30, 20), "accepted_at": (30, 20, 10)}
PATIENCE_MS = 60_000
GRID = """
name: mine
texts: [hello, a fox]
voices: [one]
conditions:
  - {name: AR, method: ar}
  - {name: coarse, method: pcg, theta: 0.45}
"""
# The middle of the last point of a curve that has one: the errors of the page's points grow with speed, so it is PCG's.
LAST_POINT = """() => {
  const points = [...document.querySelectorAll("#experiments-figure-main .scatterlayer .point")];
  const boxes = points.map((point) => point.getBoundingClientRect()).filter((box) => box.width > 1);
  const last = boxes.reduce((one, other) => (other.x > one.x ? other : one));
  return [last.x + last.width / 2, last.y + last.height / 2];
}"""

WIDER_THAN_THEIR_CARD = """() => [...document.querySelectorAll("#experiments-table-main, .findings-wide")]
  .filter((place) => place.scrollWidth > place.clientWidth).map((place) => place.textContent)"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this computer")


@pytest.fixture(scope="module")
def spec(tiny_voice_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> WorkerSpec:
    return WorkerSpec(str(tiny_voice_folder), "embedded", dnsmos=False, cache=tmp_path_factory.mktemp("cache"))


def served(synthesizer: Synthesizer, spec: WorkerSpec, results: Path, committed: Path | None = None) -> Iterator[str]:
    with gr.Blocks(fill_width=True) as app:
        with gr.Tab("Other"):
            gr.HTML("<p>Another panel.</p>")
        with gr.Tab("Experiments"):
            create_experiments(app, synthesizer, spec, results, committed)
    options = launch_options()
    options["css_paths"] = [*options["css_paths"], findings.STYLES]
    yield from serve(app, **options)


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer, spec: WorkerSpec, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a page is served with some shipped results, though nobody ever spoke them, and no own ones."""
    committed = tmp_path_factory.mktemp("committed")
    context = CONTEXT | {"voice": spec.voice_id, "model": "tiny"}
    speeds = {
        ar(): 100, sd(): 90, ssd(0.3): 140, pcg(0.5): 120, swapped(0.5): 100, replace(pcg(0.4), name=MARKUP): 200,
    }  # fmt: skip
    for errors, (condition, speed) in enumerate(speeds.items()):
        drafting = {"swapped": 0.9} if condition.swap else {} if condition == ar() else DRAFTING
        for text in ("hello", "a fox", "a dog", "one sentence"):
            unit = Unit(Utterance(text, "one"), condition, 0)
            made = record(condition, text, min(errors, 4), 20, speed, context=context, **drafting)
            Store(committed).add(unit.key(spec.voice_id), made)
    yield from served(synthesizer, spec, tmp_path_factory.mktemp("results"), committed)


@pytest.fixture(scope="module")
def empty_address(synthesizer: Synthesizer, spec: WorkerSpec, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served(synthesizer, spec, tmp_path_factory.mktemp("empty"))


def browse(address: str, width: int) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": width, "height": 844}, reduced_motion="reduce")
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page.goto(address)
        page.get_by_role("tab", name="Experiments").click()
        yield page
        browser.close()
        expect.set_options(timeout=5_000)


@pytest.fixture(params=[390, pytest.param(1440, marks=pytest.mark.slow)])
def page(address: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    yield from browse(address, request.param)


@pytest.fixture
def empty_page(empty_address: str) -> Iterator[Page]:
    yield from browse(empty_address, 1440)


def test_stored_results_are_there_at_once_and_a_click_on_a_point_is_heard(
    page: Page, address: str, complaints: list[str]
) -> None:
    watch(page, address, complaints)
    page.on("dialog", lambda dialog: complaints.append(dialog.message) or dialog.dismiss())
    expect(page.locator("#experiments-table-claims [data-verdict]").first).to_be_visible()
    expect(page.locator("#experiments-said")).to_contain_text("Shipped with this project: 24 units, up to 4 utterances")

    page.locator("#experiments-figure-main .scatterlayer .point").first.wait_for()
    page.locator("#experiments-figure-main").scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    x, y = page.evaluate(LAST_POINT)
    page.mouse.move(x - 30, y)
    page.mouse.move(x, y, steps=4)
    page.wait_for_timeout(200)
    page.mouse.click(x, y)
    expect(page.locator("#experiments-condition input")).to_have_value(MARKUP)
    # The card with the takes comes into view, and has the focus.
    expect(page.locator("#experiments-hearing h2")).to_be_focused()
    expect(page.locator("#experiments-hearing h2")).to_be_in_viewport(ratio=1)
    expect(page.locator("#experiments-hearing-status")).to_contain_text("Generated again from settings and seed")
    expect(page.locator("#experiments-hearing .findings-heard")).to_have_count(6)
    # Nobody ever spoke these records.
    expect(page.locator("#experiments-hearing .findings-heard").first).to_contain_text("differ from the stored ones")
    expect(page.locator("#experiments-hearing")).to_contain_text("WER 20 % (4 of 20)")

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("window.hacked") is None
    assert complaints == []


def test_a_slow_device_shows_every_utterance_that_was_generated(page: Page) -> None:
    page.locator("#experiments-condition input").focus()
    page.keyboard.type(MARKUP)
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    slow_down(page, 10)
    page.locator("#experiments-hear").click()
    expect(page.locator("#experiments-hearing-status")).to_contain_text("Generated again from settings and seed")
    expect(page.locator("#experiments-hearing .findings-heard")).to_have_count(6, timeout=30_000)
    for heard in page.locator("#experiments-hearing .findings-heard").all():
        expect(heard).to_be_visible()


def test_a_condition_is_heard_by_the_keyboard_alone(page: Page) -> None:
    box, options = page.locator("#experiments-condition input"), page.get_by_role("option")
    box.focus()
    expect(options).to_have_count(6)
    page.keyboard.type("SSD")
    expect(options).to_have_count(1)
    page.keyboard.press("Enter")
    expect(box).to_have_value(ssd(0.3).name)
    page.locator("#experiments-hear").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#experiments-hearing-status")).to_contain_text("Generated again from settings and seed")
    expect(page.locator("#experiments-hearing .findings-heard b").first).to_have_text(ssd(0.3).name)


def test_the_menu_of_conditions_is_searched_though_one_is_chosen(page: Page) -> None:
    box, options = page.locator("#experiments-condition input"), page.get_by_role("option")
    box.click()
    expect(options).to_have_count(6)
    page.keyboard.type("swap")
    expect(options).to_have_count(1)
    page.keyboard.press("Enter")
    expect(box).to_have_value(swapped(0.5).name)
    box.blur()
    box.focus()
    page.keyboard.type("sd")
    expect(options).to_have_text([re.compile("SD$"), re.compile("SSD")])


def test_the_contents_lead_to_a_folded_card_and_open_it(page: Page) -> None:
    card, figure = page.locator("#experiments-card-swap"), page.locator("#experiments-figure-swap .main-svg").first
    expect(page.locator("#experiments-contents a").first).to_be_visible()
    expect(figure).to_be_hidden()
    page.get_by_role("link", name="Members of a group").focus()
    page.keyboard.press("Enter")
    expect(card.locator("button").first).to_be_focused()
    expect(card).to_contain_text("Shipped with this project: 4 utterances a row.")
    # The figure fills its card, though it may have been drawn while that was folded.
    page.wait_for_function(
        """() => {
          const [svg, card] = ["#experiments-figure-swap .main-svg", "#experiments-card-swap"]
            .map((name) => document.querySelector(name)?.getBoundingClientRect());
          return svg && svg.width > 0.8 * card.width && svg.width < card.width;
        }"""
    )
    for link in page.locator("#experiments-contents a").all():
        link.click()
    # On a desk every table fits; on a telephone it scrolls in its card.
    if page.viewport_size["width"] > 1000:
        expect(page.locator("#experiments-table-conditions table")).to_be_visible()
        assert page.evaluate(WIDER_THAN_THEIR_CARD) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_a_run_shows_own_runs_to_its_visitor_alone_and_the_shipped_results_stay(address: str) -> None:
    shipped, own = "Shipped with this project: 24 units", "Runs on this server: "
    for page in browse(address, 1440):
        said = page.locator("#experiments-said")
        expect(said).to_contain_text(shipped)
        page.click("#experiments-run")
        expect(page.get_by_role("radio", name="runs on this server")).to_be_checked()
        expect(said).to_contain_text(own)
        expect(page.locator("#experiments-card-main")).to_contain_text(
            re.compile(r"Runs on this server: \d+ utterances? a row\.")
        )
        # Another source can be looked at while the run goes on.
        page.get_by_role("radio", name="shipped").check()
        expect(said).to_contain_text(shipped)
        done = int(page.locator("#experiments-status progress").get_attribute("value"))
        page.wait_for_function("n => document.querySelector('#experiments-status progress')?.value > n + 1", arg=done)
        page.wait_for_timeout(1000 * REDRAW_SECONDS)
        expect(said).to_contain_text(shipped)
        page.get_by_role("radio", name="runs on this server").check()
        expect(said).to_contain_text(own)
        page.click("#experiments-stop")
        expect(page.locator("#experiments-status")).to_contain_text("Stopped")
        other = page.context.browser.new_page()
        other.goto(address)
        other.get_by_role("tab", name="Experiments").click()
        expect(other.locator("#experiments-said")).to_contain_text(shipped)
    client = Client(address, verbose=False)
    assert client.predict(api_name="/experiments")[0]["records"] == 24
    ours = client.predict("own", api_name="/experiments")[0]
    assert (ours["source"], ours["records"] > 0) == ("own", True)


def test_an_empty_page_tells_what_to_do_and_a_run_can_be_stopped(empty_page: Page, empty_address: str) -> None:
    page, client = empty_page, Client(empty_address, verbose=False)
    expect(page.locator("#experiments-said")).to_contain_text("Choose an experiment and run it")
    expect(page.locator("#experiments-table-claims")).to_be_hidden()
    expect(page.locator("#experiments-contents a")).to_have_count(0)
    page.click("#experiments-run")
    expect(page.locator("#experiments-status progress")).to_be_visible()
    expect(page.locator("#experiments-status")).to_contain_text("left")
    page.click("#experiments-stop")
    expect(page.locator("#experiments-status")).to_contain_text("Stopped")
    # Partial results stay on the page.
    expect(page.locator("#experiments-table-main")).to_contain_text("AR")
    expect(page.locator("#experiments-said")).to_contain_text("Runs on this server")
    stored = client.predict(api_name="/experiments")[0]["records"]
    page.wait_for_timeout(4000)
    # The unit that it was at may still be finished; a run that went on would do ten and more.
    assert client.predict(api_name="/experiments")[0]["records"] <= stored + 1 < 84
    expect(page.locator("#experiments-status")).to_contain_text("Stopped")


def test_the_endpoints_plan_run_hear_and_report(empty_address: str, tmp_path: Path) -> None:
    file, client = tmp_path / "mine.yaml", Client(empty_address, verbose=False)
    file.write_text(GRID)
    # What other tests stored is there, too.
    before = client.predict(api_name="/experiments")[0]["records"]
    assert "4 units, 0 of them stored" in client.predict([], "quick", handle_file(file), api_name="/plan_experiments")
    first, *_, status = client.predict([], "quick", handle_file(file), api_name="/run_experiments")
    assert first["progress"] == {"done": 4, "total": 4, "seconds_left": 0.0, "notice": ""}
    # The unit that a stopped run was at may be finished meanwhile.
    assert first["records"] - before in (4, 5)
    assert first["source"] == "own"
    assert "embedded" in first["made"]["WER, CER"]
    assert "All done: 4 units." in status
    assert "4 units, 4 of them stored" in client.predict([], "quick", handle_file(file), api_name="/plan_experiments")
    heard = client.predict("coarse", api_name="/hear_condition")
    assert "Generated again from settings and seed" in heard[0]
    assert "differ" not in str(heard)
    report = client.predict(False, api_name="/experiment_report")
    files = report["value"] if isinstance(report, dict) else report
    assert sorted(Path(file).name for file in files) == ["report.html", "results.json"]


def test_the_endpoints_refuse_in_one_sentence(empty_address: str, tmp_path: Path) -> None:
    client, file = Client(empty_address, verbose=False), tmp_path / "bomb.yaml"
    file.write_text("a: &a [x]\nb: [*a, *a]\n")
    with pytest.raises(AppError, match=r"grid file is 'bomb\.yaml', but must be without aliases"):
        client.predict([], "quick", handle_file(file), api_name="/run_experiments")
    with pytest.raises(AppError, match="experiments is 'none'"):
        client.predict([], "quick", None, api_name="/run_experiments")
    with pytest.raises(AppError, match=r"one that was measured|There are no runs on this server yet"):
        client.predict("no such condition", api_name="/hear_condition")
