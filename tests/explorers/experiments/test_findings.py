"""The words and tables of the page, as HTML."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from explorers.experiments.actions import HeardUnit, Study, condition_names, hear, made, pairs, record_of
from explorers.experiments.archive import OWN, SHIPPED, Archive
from explorers.experiments.cards import CARDS, contents_html
from explorers.experiments.findings import duration, heading_html, heard_html, progress_html, said_html, source_html, table_html
from explorers.experiments.report import Findings
from pcg.experiments.grids import ar, declared, pcg, sd, ssd
from pcg.experiments.runner import Progress
from pcg.experiments.unit import Condition, Record, Utterance
from pcg.synthesis.synthesizer import Synthesizer
from tests.experiments.synthetic import record
from tests.explorers.experiments.quick import DRAFTING, MARKUP, Echo, archive_of, keep


def test_whatever_is_shown_says_whose_it_is_and_over_how_many_utterances(both: Archive, tmp_path: Path) -> None:
    assert "There are no runs on this server yet" in source_html(OWN, None)
    keep(tmp_path / "own", [ar(), sd()], utterances=2)
    said = {SHIPPED: ("Shipped with this project", 12, "6 utterances"), OWN: ("Runs on this server", 4, "2 utterances")}
    for source, (whose, units, utterances) in said.items():
        findings = both.findings(source)
        summary = source_html(source, findings, both.result_set(source).same_voice)
        assert f"{whose}: {units} units, up to {utterances} in each setting." in summary
        assert ("with another voice" in summary) == (source == SHIPPED)
        assert findings.tables
        assert all(f"{whose}: {utterances} a row." in heading_html(table, source) for table in findings.tables)
        assert record_of(source, findings)["source"] == source


def test_tables_stand_beside_the_papers_numbers_with_what_differs_and_who_judged(full: Archive) -> None:
    findings = full.findings()
    tables = {table.name: table for table in findings.tables}
    shown = table_html(tables["main"], made(findings))
    assert "Theirs (PCG)" in shown
    assert "WER: a judge; Machine: a machine" in shown
    assert "python -m pcg experiment run main" in shown
    claims = table_html(tables["claims"], {})
    assert any(f'data-verdict="{verdict}"' in claims for verdict in ("holds", "contradicted", "open"))
    assert "Pareto front" in heading_html(tables["main"], OWN)


def test_the_papers_numbers_stand_below_ours_in_the_same_columns(full: Archive) -> None:
    (main,) = [table for table in full.findings().tables if table.name == "main"]
    rows = re.findall(r"<tr.*?</tr>", table_html(main, {}))
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    heads = [re.sub("<.*?>", "", cell) for cell in cells[0]]
    assert heads == ["method", "n", "speed-up", "tokens per target call", "WER %", "CER %", "speaker", "DNSMOS"]
    at = next(i for i, row in enumerate(cells) if ssd(0.3).name in row[0])
    assert cells[at + 1] == ["the paper", "", "1.40x", "", "18.5 ± 1.9", "11.6 ± 1.7", "42.5 ± 0.4", "MOS 3.78 ± 1.21"]
    # What the paper does not have gets no row.
    at = next(i for i, row in enumerate(cells) if pcg(0.5).name in row[0])
    assert cells[at + 1][0] != "the paper"


def test_the_contents_link_to_every_card_that_is_shown_and_to_no_other(full: Archive) -> None:
    tables = full.findings().tables
    linked = re.findall(r'href="#experiments-card-(\w+)"', contents_html(tables))
    assert linked == [name for name in CARDS if name in {table.name for table in tables}]
    assert len(linked) < len(CARDS)
    assert contents_html([]) == ""


def test_conditions_are_listed_by_method(synthesizer: Synthesizer, tmp_path: Path) -> None:
    keep(tmp_path, [ar(), pcg(0.4), sd(), pcg(0.5, lookahead=1), sd(lookahead=2), pcg(0.5)])
    names = condition_names(archive_of(synthesizer, tmp_path).findings())
    assert [name.partition(",")[0] for name in names] == ["AR", "PCG", "PCG", "PCG", "SD", "SD"]
    assert condition_names(None) == []


def test_hostile_names_stay_words(full: Archive) -> None:
    findings = full.findings()
    hostile = {"WER": MARKUP}
    pages = [table_html(table, hostile) + heading_html(table, OWN) for table in findings.tables]
    said = findings.results.of(pcg(0.3))[0]
    unit = replace(said.unit, utterance=Utterance(MARKUP, MARKUP))
    heard = HeardUnit(replace(said, unit=unit, result=replace(said.result, heard=MARKUP)), np.zeros(3), 24_000, same=False)
    pages += [heard_html(heard), said_html(heard)]
    assert all("<img" not in page for page in pages)
    assert sum("&lt;img" in page for page in pages) > 3


def test_a_take_that_is_not_as_it_was_is_called_so(full: Archive) -> None:
    (first, *_), again = zip(*pairs(full.result_set(), "AR"), strict=True), Echo()
    (pair,) = hear(again, [(first[0], None)])
    assert "differ" not in heard_html(pair.chosen)
    assert "WER 10 % (1 of 10)" in heard_html(pair.chosen)
    assert "differ" in heard_html(replace(pair.chosen, same=False))


def test_progress_tells_units_and_time() -> None:
    shown = progress_html(Study(Progress(1200, 4190, 3725.0), None))
    assert "1,200 of 4,190 units" in shown
    assert "about 1 h 2 min left" in shown
    assert 'value="1200"' in shown
    assert "0 of 1 unit " in progress_html(Study(Progress(0, 1, None), None))
    assert "All done: 1 unit." in progress_html(Study(Progress(1, 1, 0.0), None, over=True))
    assert "<p>&lt;old&gt; 0 of 3 units" in progress_html(Study(Progress(0, 3, None, "<old>"), None))
    assert "All done: 4,190 units." in progress_html(Study(Progress(4190, 4190, 0.0), None, over=True))
    assert [duration(seconds) for seconds in (8.4, 61, 3600)] == ["8 s", "1 min 1 s", "1 h 0 min"]


def in_section(condition: Condition, section: str) -> list[Record]:
    made = [record(condition, f"{section} {i}.", spoof=0.5, **DRAFTING) for i in range(6)]
    return [replace(r, unit=replace(r.unit, utterance=replace(r.unit.utterance, section=section))) for r in made]


def test_every_table_that_has_rows_has_a_card() -> None:
    schemes = declared("mspoof", (Utterance("Sentence 0.", "one", "twisters"),), False, lambda similarity, theta: theta)
    conditions = (ar(), sd(), ssd(0.3), pcg(0.5), pcg(0.4), *schemes.conditions)
    findings = Findings.of([r for c in conditions for section in ("everyday", "twisters") for r in in_section(c, section)])
    names = {table.name for table in findings.tables}
    assert {"relax", "sampling", "twisters"} <= names <= set(CARDS)
