"""What the page does with experiments, without the page: its grids, its results, its runs, and how they sound."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from explorers.experiments.actions import HEARD, Archive, HeardUnit, Study, hear, made, pairs, record_of, study
from explorers.experiments.findings import duration, heading_html, heard_html, progress_html, said_html, table_html
from explorers.experiments.grids import units_of
from explorers.experiments.layout import CARDS
from explorers.experiments.report import Findings
from pcg.errors import InputError, PCGError
from pcg.experiments.grid import Grid
from pcg.experiments.runner import Progress
from pcg.experiments.store import FILE, Store
from pcg.experiments.suites import ar, declared, pcg, sd, ssd
from pcg.experiments.unit import Condition, Record, Unit, Utterance
from pcg.experiments.worker import Sounding, WorkerSpec
from pcg.synthesis.synthesizer import Synthesizer
from tests.experiments.synthetic import CONTEXT, record

VOICE = "a voice and its judges"
MARKUP = "PCG <img src=x onerror=alert(1)>"
DRAFTING = {"rounds": 40, "drafted": 120, "accepted": 60, "tested": (40, 30, 20), "accepted_at": (30, 20, 10)}


@dataclass(frozen=True)
class QuickSpec:
    """A spec whose worker knows at once what comes of a unit."""

    voice_id: str = VOICE
    device: str = "cpu"
    threads: int = 1

    def load(self) -> "QuickWorker":
        return QuickWorker(self.voice_id)


class QuickWorker:
    def __init__(self, voice: str) -> None:
        self._voice = voice

    def record(self, unit: Unit, workers: int = 1) -> Record:
        figures = {} if unit.settings.method == "ar" else DRAFTING
        said = record(unit.condition, unit.utterance.text, context=CONTEXT | {"voice": self._voice}, **figures)
        return replace(said, unit=unit)


class Echo:
    """Says every unit with the tokens that the synthetic records hold, but for the one text that it garbles."""

    def __init__(self, garbled: str = "") -> None:
        self.said: list[Unit] = []
        self._garbled = garbled

    def sound(self, unit: Unit) -> Sounding:
        self.said.append(unit)
        tokens = (8,) if unit.utterance.text == self._garbled else (7,) * 100
        return Sounding(np.full(10, 0.5, dtype=np.float32), 24_000, tokens)


def keep(folder: Path, conditions: Sequence[Condition], utterances: int = 6, voice: str = VOICE) -> None:
    worker, store = QuickWorker(voice), Store(folder)
    for at in range(utterances):
        for condition in conditions:
            unit = Unit(Utterance(f"Sentence {at}.", "one"), condition, 0)
            store.add(unit.key(voice), worker.record(unit))


def archive_of(synthesizer: Synthesizer, results: Path, committed: Path | None = None) -> Archive:
    return Archive(synthesizer, QuickSpec(), results, committed)


@pytest.fixture
def full(synthesizer: Synthesizer, tmp_path: Path) -> Archive:
    """An archive with some results."""
    keep(tmp_path / "full", [ar(), sd(), ssd(0.3), pcg(0.5), pcg(0.4), replace(pcg(0.3), name=MARKUP)])
    return archive_of(synthesizer, tmp_path / "full")


def small_grid(utterances: int = 4) -> Grid:
    said = tuple(Utterance(f"Sentence {at}.", "one") for at in range(utterances))
    return Grid("small", "small", (ar(), sd(), pcg(0.4)), said, (0,))


# Results.


def test_what_the_command_line_stored_is_shown_and_read_again_when_it_grows(synthesizer: Synthesizer, tmp_path: Path) -> None:
    archive = archive_of(synthesizer, tmp_path)
    assert archive.findings() is None
    assert not (tmp_path / FILE).exists()
    keep(tmp_path, [ar(), sd()])
    found = archive.findings()
    assert found is not None
    assert found.records == 12
    assert archive.findings() is found
    keep(tmp_path, [pcg(0.4)])
    assert archive.findings().records == 18


def test_committed_results_are_shown_until_there_are_own(synthesizer: Synthesizer, tmp_path: Path) -> None:
    results, committed = tmp_path / "own", tmp_path / "committed"
    keep(committed, [ar(), sd()], voice="another voice")
    archive = archive_of(synthesizer, results, committed)
    assert (archive.result_set().own, archive.result_set().voice, archive.findings().records) == (False, "another voice", 12)
    keep(results, [ar()], voice="a third voice")
    assert archive.findings().records == 12
    keep(results, [ar()], utterances=3)
    assert (archive.result_set().own, archive.findings().records) == (True, 3)


def test_the_record_says_how_it_was_made_and_is_json(full: Archive) -> None:
    findings = full.findings()
    told = record_of(findings, Progress(3, 4, None))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert (told["progress"]["done"], told["records"]) == (3, 36)
    assert told["made"] == made(findings)
    assert told["made"]["WER"] == "a judge"
    assert told["made"]["Date"] == "2025-01-01"
    assert "a machine" in told["made"]["Machine"]
    verdicts = [row["verdict"] for table in told["tables"] if table["name"] == "claims" for row in table["rows"]]
    assert verdicts
    assert set(verdicts) <= {"holds", "contradicted", "open", "not comparable"}
    assert record_of(None)["tables"] == []


def test_the_report_is_written_from_what_is_shown(full: Archive, synthesizer: Synthesizer, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert full.report(out, None).records == 36
    assert "PCG &lt;img" in out.read_text(encoding="utf-8")
    with pytest.raises(PCGError, match="There are no results yet"):
        archive_of(synthesizer, tmp_path / "none").report(out, None)


# Runs.


def test_units_of_an_utterance_stand_side_by_side_over_all_grids() -> None:
    one, other = small_grid(), replace(small_grid(), conditions=(ssd(0.3), sd()))
    units = units_of([one, other])
    texts = [unit.utterance.text for unit in units]
    assert len(units) == 20
    assert texts == sorted(texts)


def test_a_run_tells_every_unit_and_does_what_is_missing_only(synthesizer: Synthesizer, tmp_path: Path) -> None:
    archive, units = archive_of(synthesizer, tmp_path), units_of([small_grid()])
    keep(tmp_path, [ar()], utterances=4)
    assert archive.count(units) == (4, 12)
    steps = list(study(archive, units))
    assert [step.progress.done for step in steps] == [4, *range(5, 13), 12]
    assert [step.over for step in steps] == [False] * 9 + [True]
    assert steps[-1].findings.records == 12
    assert [step.progress.done for step in study(archive, units)] == [12, 12]


@pytest.mark.parametrize(("seconds", "drawn"), [(1, [1, 5, 9, 12]), (10, [*range(1, 13), 12]), (0.1, [1, 12])])
def test_partial_results_are_drawn_every_few_seconds_and_at_the_end(
    seconds: float, drawn: list[int], synthesizer: Synthesizer, tmp_path: Path
) -> None:
    now, shown = [0.0], [None]
    for step in study(archive_of(synthesizer, tmp_path), units_of([small_grid()]), lambda: now[0]):
        if step.findings is not shown[-1]:
            shown.append(step.findings)
        now[0] += seconds
    assert [findings.records for findings in shown[1:]] == drawn


def test_a_closed_run_stops_and_what_is_done_stays(synthesizer: Synthesizer, tmp_path: Path) -> None:
    archive, units = archive_of(synthesizer, tmp_path), units_of([small_grid()])
    steps = study(archive, units)
    for _ in range(4):
        next(steps)
    steps.close()
    assert archive.count(units) == (3, 12)
    assert next(study(archive, units)).progress.done == 3


def test_a_first_run_is_not_mixed_with_results_of_another_voice(synthesizer: Synthesizer, tmp_path: Path) -> None:
    keep(tmp_path / "committed", [ar(), sd()], voice="another voice")
    archive = archive_of(synthesizer, tmp_path / "own", tmp_path / "committed")
    counts = [step.findings.records for step in study(archive, units_of([small_grid()]))]
    assert (counts[0], counts[1], counts[-1]) == (12, 1, 12)


def test_packed_results_are_shown_where_there_are_no_others(synthesizer: Synthesizer, tmp_path: Path) -> None:
    committed = tmp_path / "committed"
    keep(committed, (ar(), pcg(0.4)))
    Store(committed).pack()
    assert len(archive_of(synthesizer, tmp_path / "own", committed).result_set().records) == 12


@pytest.mark.slow
def test_a_run_on_a_real_voice_has_its_bound_and_is_heard_token_for_token(
    synthesizer: Synthesizer, tiny_voice_folder: Path, tmp_path: Path
) -> None:
    spec = WorkerSpec(str(tiny_voice_folder), "embedded", dnsmos=False, cache=tmp_path / "cache")
    archive = Archive(synthesizer, spec, tmp_path)
    grid = Grid("few", "few", (ar(), pcg(0.4)), (Utterance("hello", "one"), Utterance("yes", "two")), (0,))
    *_, last = study(archive, units_of([grid]))
    (coarse,) = [summary for summary in last.findings.summaries if summary.name == pcg(0.4).name]
    assert coarse.bound > 0
    # Another archive finds the costs that this one measured.
    assert Archive(synthesizer, spec, tmp_path).result_set().costs == archive.result_set().costs != {}
    found = list(hear(spec.load(), pairs(archive.result_set(), pcg(0.4).name)))
    assert [pair.chosen.same for pair in found] == [True, True]
    assert all(pair.alone.record.unit.utterance == pair.chosen.record.unit.utterance for pair in found)
    assert all(len(pair.chosen.samples) > 0 for pair in found)


# Hearing.


def test_a_condition_is_heard_beside_ar_over_the_same_utterances(full: Archive) -> None:
    speaker = Echo(garbled="Sentence 2.")
    found = list(hear(speaker, pairs(full.result_set(), pcg(0.4).name)))
    assert [pair.chosen.record.unit.utterance.text for pair in found] == ["Sentence 0.", "Sentence 2.", "Sentence 4."]
    assert [pair.alone.record.unit.condition.name for pair in found] == ["AR"] * HEARD
    assert [pair.chosen.same for pair in found] == [True, False, True]
    assert [unit.condition.name for unit in speaker.said[:2]] == [pcg(0.4).name, "AR"]


def test_other_utterances_come_next_and_ar_has_nothing_beside_it(full: Archive) -> None:
    result_set = full.result_set()
    texts = {r.unit.utterance.text for first in (0, 1) for r, _ in pairs(result_set, sd().name, first)}
    assert len(texts) == 6
    assert all(alone is None for _, alone in pairs(result_set, "AR"))
    assert len(pairs(result_set, "AR", 123_456, count=99)) == 6


def test_what_was_not_measured_cannot_be_heard(full: Archive, synthesizer: Synthesizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one that was measured"):
        pairs(full.result_set(), "PCG, theta 0.123")
    with pytest.raises(PCGError, match="There are no results yet"):
        pairs(archive_of(synthesizer, tmp_path / "none").result_set(), "AR")


# The words of the page.


def test_tables_stand_beside_the_papers_numbers_with_what_differs_and_who_judged(full: Archive) -> None:
    findings = full.findings()
    tables = {table.name: table for table in findings.tables}
    shown = table_html(tables["main"], made(findings))
    assert "paper: WER %" in shown
    assert "18.5 ± 1.9" in shown
    assert "Theirs (PCG)" in shown
    assert "n: 6 utterances a row; WER: a judge; Machine: a machine" in shown
    assert "python -m pcg experiment run main" in shown
    claims = table_html(tables["claims"], {})
    assert any(f'data-verdict="{verdict}"' in claims for verdict in ("holds", "contradicted", "open"))
    assert "Pareto front" in heading_html(tables["main"])


def test_hostile_names_stay_words(full: Archive) -> None:
    findings = full.findings()
    hostile = {"WER": MARKUP}
    pages = [table_html(table, hostile) + heading_html(table) for table in findings.tables]
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
    assert "<p>&lt;old&gt; 0 of 3 units" in progress_html(Study(Progress(0, 3, None, "<old>"), None))
    assert "All 4,190 units are done" in progress_html(Study(Progress(4190, 4190, 0.0), None, over=True))
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
