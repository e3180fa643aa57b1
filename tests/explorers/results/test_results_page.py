"""The Results tab: the verdict, the tables, the report."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
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
    verdict_html,
)
from explorers.theme import launch_options
from pcg.errors import AssetError
from pcg.experiments.grids import ar, pcg, sd, ssd
from pcg.experiments.store import Store
from pcg.experiments.unit import Condition, Unit, Utterance
from tests.experiments.synthetic import CONTEXT, record
from tests.explorers.chromium import NEEDS_CHROMIUM
from tests.explorers.hostile import MARKUP
from tests.explorers.results.test_report import DRAFTING
from tests.explorers.served import serve


def units(*conditions: Condition, utterances: int = 6) -> list[Unit]:
    return [Unit(Utterance(f"Sentence {at}.", "one"), condition, 0) for at in range(utterances) for condition in conditions]


CONDITIONS = (ar(), sd(), ssd(0.3), pcg(0.5), pcg(0.4), replace(pcg(0.3), name=f"PCG {MARKUP}"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shipped")
    store = Store(folder)
    for unit in units(*CONDITIONS):
        figures = {} if unit.settings.method == "ar" else DRAFTING
        made = record(unit.condition, unit.utterance.text, context=CONTEXT | {"voice": "another voice"}, **figures)
        store.add(unit.key("another voice"), replace(made, unit=unit))
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


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with gr.Blocks() as app:
        create_results(app, frozenset(), {SHIPPED: folder})
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
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert complaints == []
