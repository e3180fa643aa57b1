"""The Results tab: the verdict, the tables, and own runs."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import gradio as gr
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from playwright.sync_api import Page, expect

from explorers.results.report import RESULTS, write_report
from explorers.results.results import (
    NO_RESULTS,
    OTHER_VOICE,
    OWN,
    SHIPPED,
    TABLES,
    card_html,
    create_results,
    read_results,
    run_units,
    units_of,
    verdict_html,
)
from explorers.theme import launch_options
from pcg.errors import AssetError, InputError
from pcg.experiments.grids import EXPERIMENTS, ar, pcg, sd, ssd
from pcg.experiments.store import Store
from pcg.experiments.unit import Condition, Record, Unit, Utterance
from pcg.synthesis.synthesizer import Synthesizer
from tests.experiments.synthetic import CONTEXT, record
from tests.explorers.chromium import NEEDS_CHROMIUM
from tests.explorers.hostile import MARKUP
from tests.explorers.results.test_report import DRAFTING
from tests.explorers.served import serve


@dataclass(frozen=True)
class QuickSpec:
    """A spec whose worker knows at once what comes of a unit."""

    voice_id: str = "a voice and its judges"
    device: str = "cpu"
    threads: int = 1

    def load(self) -> "QuickSpec":
        return self

    def record(self, unit: Unit, workers: int = 1) -> Record:
        figures = {} if unit.settings.method == "ar" else DRAFTING
        made = record(unit.condition, unit.utterance.text, context=CONTEXT | {"voice": self.voice_id}, **figures)
        return replace(made, unit=unit)


def units(*conditions: Condition, utterances: int = 6) -> list[Unit]:
    return [Unit(Utterance(f"Sentence {at}.", "one"), condition, 0) for at in range(utterances) for condition in conditions]


CONDITIONS = (ar(), sd(), ssd(0.3), pcg(0.5), pcg(0.4), replace(pcg(0.3), name=f"PCG {MARKUP}"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shipped")
    store = Store(folder)
    for unit in units(*CONDITIONS):
        store.add(unit.key("another voice"), QuickSpec("another voice").record(unit))
    write_report(folder, folder / "report.html")
    return folder


def test_verdict_and_tables_say_whose_results_and_how_many_and_names_stay_words(folder: Path) -> None:
    results = read_results(folder)
    page = verdict_html(results, SHIPPED, same_voice=False)
    assert "36 units shipped with this project, up to 6 utterances a setting" in page
    assert OTHER_VOICE in page
    assert OTHER_VOICE not in verdict_html(results, OWN, same_voice=True)
    assert NO_RESULTS in verdict_html(None, OWN, same_voice=True)
    cards = {table["name"]: card_html(table) for table in results["tables"]}
    sentence = cards["claims"].partition("<table")[0]
    counts = [int(count) for count in re.findall(r"(\d+) (?:claim|hold|are|divide|were)", sentence)]
    assert counts[0] == sum(counts[1:]) > 0
    assert all("<img" not in page for page in cards.values())
    assert any("&lt;img" in page for page in cards.values())


def test_damaged_results_are_one_sentence(tmp_path: Path) -> None:
    assert read_results(tmp_path) is None
    (tmp_path / RESULTS).write_text("{")
    with pytest.raises(AssetError, match="damaged"):
        read_results(tmp_path)


def test_a_run_does_what_is_missing_and_writes_the_report(tmp_path: Path) -> None:
    wanted = units(ar(), sd(), pcg(0.4), utterances=2)
    steps = run_units(wanted, QuickSpec(), tmp_path)
    assert [next(steps), next(steps)] == ["0 of 6 units: preparing.", "1 of 6 units."]
    steps.close()
    assert len(Store(tmp_path).all()) == 1
    first, *_, last = run_units(wanted, QuickSpec(), tmp_path)
    assert (first, last) == ("1 of 6 units: preparing.", "All done: 6 units.")
    assert read_results(tmp_path)["records"] == 6


def test_the_units_of_one_utterance_stand_together_and_unknown_experiments_are_refused(synthesizer: Synthesizer) -> None:
    together = [(unit.utterance, unit.seed) for unit in units_of(synthesizer, ["main", "tradeoff"], quick=True)]
    assert together == sorted(together, key=list(dict.fromkeys(together)).index)
    for told, names in {"at least one of main": [], "is '<b>'": ["<b>"]}.items():
        with pytest.raises(InputError, match=told):
            units_of(synthesizer, names, quick=True)


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with gr.Blocks() as app:
        folders = {SHIPPED: folder, OWN: tmp_path_factory.mktemp("runs") / "results"}
        create_results(app, synthesizer, QuickSpec(), frozenset(), folders)
    yield from serve(app, **launch_options())


def test_programs_get_the_tables(address: str) -> None:
    client = Client(address, verbose=False)
    record, *_ = client.predict(SHIPPED, api_name="/experiments")
    assert {table["name"] for table in record["tables"]} >= {"main", "claims"}
    assert json.loads(json.dumps(record)) == record
    with pytest.raises(AppError, match="nowhere"):
        client.predict("nowhere", api_name="/experiments")


@NEEDS_CHROMIUM
@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1440], indirect=True)
def test_a_person_reads_the_verdict_first_and_opens_the_tables(page: Page, complaints: list[str]) -> None:
    expect(page.locator(".results-verdict li").first).to_contain_text(" won: ")
    expect(page.locator("#results-figure-main .js-plotly-plot")).to_be_visible()
    top = page.locator(".results-verdict").bounding_box()["y"]
    assert top < page.locator("#results-card-main").bounding_box()["y"]
    for name in TABLES[1:]:
        card = page.locator(f"#results-card-{name}")
        if card.is_visible():
            card.locator("button").first.click()
            expect(card.locator("table")).to_be_visible()
    drawn = "[...document.querySelectorAll('.js-plotly-plot')].map((e) => [e, e.querySelector('.main-svg')])"
    page.wait_for_function(f"{drawn}.every(([e, svg]) => Math.abs(e.clientWidth - svg.clientWidth) < 9)")
    assert page.locator("#results-run").is_hidden()
    page.get_by_role("button", name="Run experiments on this server").click()
    expect(page.locator("#results-names")).to_contain_text(EXPERIMENTS["main"].title)
    page.locator("#results-run").click()
    expect(page.locator("#results-status")).to_contain_text("All done: ", timeout=30_000)
    expect(page.locator("#results-verdict")).to_contain_text("units run on this server")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert complaints == []
