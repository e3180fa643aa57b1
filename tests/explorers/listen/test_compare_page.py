"""The Compare panel with several takes, a preset and judges: as a program and as a person use it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import gradio as gr
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from playwright.sync_api import Page, expect

from explorers.listen.archive import FIGURES
from explorers.listen.form import offer_presets
from explorers.listen.layout import create_compare
from explorers.session import CARDS, Session
from explorers.settings.presets import create_presets
from explorers.theme import launch_options
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.presets import PAPERS
from pcg.takes.stored import Origin
from tests.explorers.chromium import ARGUMENTS, CHROMIUM, patient_page, slow_down, watch
from tests.explorers.hostile import MARKUP
from tests.explorers.listen.test_judging import new_judges
from tests.explorers.served import serve

pytestmark = pytest.mark.slow

TEXT = "Hello, is this one sentence?"
PATIENCE_MS = 90_000


@pytest.fixture(scope="module")
def address(judged: Synthesizer) -> Iterator[str]:
    judges, *_ = new_judges(MARKUP)
    with gr.Blocks() as app:
        view = create_compare(app, judged, Origin.of(judged.voice), gr.State(Session()), load_judges=lambda: judges)
        controls = view.controls
        # What SD says anyway: two cards then show one sound.
        own = gr.BrowserState([{"name": "<i>mine</i>", "settings": {"method": "sd"}}])
        offer_presets(app, own, controls["preset"])
        create_presets(app, own, [controls])
    yield from serve(app, **launch_options())


@pytest.fixture
def client(address: str) -> Client:
    return Client(address, verbose=False)


def test_a_program_gets_every_take_the_verdicts_and_the_zip(client: Client, tmp_path: Path) -> None:
    with pytest.raises(AppError, match="There are no takes to judge yet"):
        client.predict(api_name="/judge_takes")
    *_, answer = client.submit(text=TEXT, seed=3, takes=2, preset=PAPERS[3].name, recording=None, api_name="/generate")
    assert "10 takes in" in answer[0]
    assert [len(card["takes"]) for card in answer[-1]["cards"].values()] == [2] * len(CARDS)
    _, readout, _ = client.predict(2, api_name="/show_preset_take")
    assert "seed 4" in readout
    with pytest.raises(AppError):
        client.predict(3, api_name="/show_preset_take")
    figures, *_ = client.predict(api_name="/judge_takes")
    assert list(figures["cards"]) == list(CARDS)
    assert figures["judges"]["WER, CER"].startswith("a parrot")
    takes = [take for card in figures["cards"].values() for take in card["takes"]]
    assert [take["settings"]["seed"] for take in takes] == [3, 4] * len(CARDS)
    assert all((take["judged"] is None) == (take["file"] is None) for take in takes)
    file = client.predict(api_name="/save_takes")
    with ZipFile(file["value"] if isinstance(file, dict) else file) as archive:
        assert set(archive.namelist()) == {FIGURES, *(take["file"] for take in takes if take["file"])}
        assert json.loads(archive.read(FIGURES)) == figures


@pytest.fixture(params=[390, pytest.param(1440, marks=pytest.mark.slow)])
def page(address: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this computer")
    with patient_page(request.param, ARGUMENTS, PATIENCE_MS) as page:
        page.goto(address)
        yield page


SEEN = """() => {
  const words = (id) => document.querySelector(id).textContent;
  window.seen = [];
  const pictures = () => document.querySelectorAll("#mel-ar img").length;
  new MutationObserver(() => seen.push([words("#readout-ar"), words("#judged-ar"), pictures()])).observe(
    document.querySelector("#details"), { subtree: true, childList: true, characterData: true });
}"""


def test_a_new_take_never_stands_above_what_was_found_out_of_the_one_before(page: Page) -> None:
    page.locator("#details > button").click()
    page.fill("#text textarea", TEXT)
    page.click("#run")
    expect(page.locator("#judging-status")).to_contain_text("Judged:")
    expect(page.locator("#judged-ar q")).to_have_text(MARKUP)
    open_knobs(page)
    page.fill("#seed input", "9")
    close_knobs(page)
    page.evaluate(SEEN)
    page.click("#run")
    expect(page.locator("#readout-ar")).to_contain_text("seed 9")
    first = next(rest for readout, *rest in page.evaluate("seen") if "seed 9" in readout)
    assert (first[0].strip(), first[1]) == ("", 0)
    expect(page.locator("#judged-ar q")).to_have_text(MARKUP)
    expect(page.locator("#mel-ar img")).to_have_count(1)


def open_knobs(page: Page) -> None:
    """On a narrow screen they lie in a sheet, which covers what is below it."""
    page.evaluate("document.querySelector('#knobs > button:not(.open)')?.click()")
    expect(page.locator("#theta")).to_be_visible()


def close_knobs(page: Page) -> None:
    if page.viewport_size["width"] < 760:
        page.locator("#knobs > button").click()


def test_a_person_compares_takes_and_a_preset_and_takes_all_away(
    page: Page, address: str, complaints: list[str], tmp_path: Path
) -> None:
    watch(page, address, complaints)
    expect(page.locator("#card-preset")).to_be_hidden()
    page.locator("#details > button").click()
    open_knobs(page)
    page.locator("#more-settings > button").click()
    page.fill("#text textarea", TEXT)
    page.locator("#takes input[type=number]").fill("2")
    page.locator("#takes input[type=number]").press("Tab")
    page.click("#compare-preset input")
    page.get_by_role("option", name="<i>mine</i>").click()
    close_knobs(page)
    page.click("#run")

    expect(page.locator("#status")).to_contain_text("10 takes in")
    expect(page.locator("#card-preset h2")).to_contain_text("<i>mine</i>")
    expect(page.locator("#judging-status")).to_contain_text("Judged:")
    expect(page.locator("#judged-ar")).to_contain_text("Mean of n = 2 takes")
    expect(page.locator("#judged-ar q")).to_have_text(MARKUP)
    expect(page.locator("#mel-ar img")).to_have_count(1)
    curve = page.locator("#curves-ar polyline").first
    first = curve.get_attribute("points")
    expect(page.locator("#curves-preset .spoof-plane")).to_have_attribute("aria-label", re.compile("means: M50 "))

    page.locator("#take-ar label").nth(1).click()
    expect(page.locator("#readout-ar")).to_contain_text("seed 1")
    expect(curve).not_to_have_attribute("points", first)
    expect(page.locator("#readout-sd")).to_contain_text("seed 0")

    with page.expect_download() as download:
        page.click("#save-all")
    download.value.save_as(tmp_path / "all.zip")
    with ZipFile(tmp_path / "all.zip") as archive:
        assert FIGURES in archive.namelist()

    open_knobs(page)
    page.locator("#takes input[type=number]").fill("1")
    page.locator("#takes input[type=number]").press("Tab")
    page.locator("#theta input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#status")).to_contain_text("PCG in")
    expect(page.locator("#take-pcg")).to_be_hidden()
    expect(page.locator("#judging-status")).to_contain_text("Judged:")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert page.evaluate("window.hacked") is None
    assert complaints == []


def test_a_slow_device_offers_every_take_of_every_method(page: Page) -> None:
    page.locator("#details > button").click()
    open_knobs(page)
    page.locator("#more-settings > button").click()
    page.fill("#text textarea", TEXT)
    page.click("#compare-preset input")
    page.get_by_role("option", name="<i>mine</i>").click()
    page.locator("#takes input[type=number]").fill("2")
    page.locator("#takes input[type=number]").press("Tab")
    close_knobs(page)
    slow_down(page, 10)
    page.click("#run")
    expect(page.locator("#status")).to_contain_text("10 takes in")
    for key in CARDS:
        expect(page.locator(f"#take-{key} label")).to_have_count(2)
        expect(page.locator(f"#take-{key}")).to_be_visible()
