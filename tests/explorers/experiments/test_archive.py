"""Which stored results the page shows: shipped ones and own runs, apart."""

import json
from pathlib import Path

import pytest

from explorers.experiments.actions import made, record_of, study
from explorers.experiments.archive import OWN, SHIPPED, Archive
from explorers.experiments.grids import units_of
from pcg.errors import InputError, PCGError
from pcg.experiments.grids import ar, pcg, sd
from pcg.experiments.runner import Progress
from pcg.experiments.store import FILE, Store
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.experiments.quick import archive_of, keep, small_grid


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


def test_own_runs_never_take_the_place_of_shipped_results(both: Archive, tmp_path: Path) -> None:
    shipped = both.result_set()
    assert (both.sources, shipped.source, shipped.same_voice, shipped.voice) == (
        (SHIPPED, OWN),
        SHIPPED,
        False,
        "another voice",
    )
    assert both.findings(OWN) is None
    before = {path: path.read_bytes() for path in (tmp_path / "committed").iterdir()}
    steps = study(both, units_of([small_grid()]))
    for _ in range(3):
        next(steps)
    steps.close()
    assert {path: path.read_bytes() for path in (tmp_path / "committed").iterdir()} == before
    for archive in (both, archive_of(both._synthesizer, tmp_path / "own", tmp_path / "committed")):
        assert (archive.result_set().source, archive.findings().records) == (SHIPPED, 12)
        assert (archive.result_set(OWN).same_voice, archive.findings(OWN).records) == (True, 2)


def test_shipped_results_are_not_read_again_while_own_ones_grow(both: Archive, tmp_path: Path) -> None:
    shipped = both.findings(SHIPPED)
    for utterances in range(1, 5):
        keep(tmp_path / "own", [ar()], utterances)
        assert both.findings(OWN).records == utterances
        assert both.findings(SHIPPED) is shipped


def test_own_runs_are_of_this_voice(both: Archive, tmp_path: Path) -> None:
    keep(tmp_path / "own", [ar()], voice="a third voice")
    assert both.findings(OWN) is None
    keep(tmp_path / "own", [ar()], utterances=3)
    assert both.findings(OWN).records == 3


def test_without_shipped_results_there_are_own_runs_only(synthesizer: Synthesizer, tmp_path: Path) -> None:
    archive = archive_of(synthesizer, tmp_path / "own", tmp_path / "nothing")
    assert (archive.sources, archive.result_set().source) == ((OWN,), OWN)
    with pytest.raises(InputError, match="source is 'shipped', but must be one of own"):
        archive.findings(SHIPPED)


def test_the_record_says_how_it_was_made_and_is_json(full: Archive) -> None:
    findings = full.findings()
    told = record_of(SHIPPED, findings, Progress(3, 4, None))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert (told["progress"]["done"], told["records"]) == (3, 36)
    assert told["made"] == made(findings)
    assert told["made"]["WER"] == "a judge"
    assert told["made"]["Date"] == "2025-01-01"
    assert "a machine" in told["made"]["Machine"]
    verdicts = [row["verdict"] for table in told["tables"] if table["name"] == "claims" for row in table["rows"]]
    assert verdicts
    assert {verdict.partition(",")[0] for verdict in verdicts} <= {"holds", "contradicted", "open", "not comparable"}
    assert record_of(OWN, None)["tables"] == []


def test_the_report_is_written_from_what_is_shown(full: Archive, synthesizer: Synthesizer, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert full.report(out, None).records == 36
    assert "PCG &lt;img" in out.read_text(encoding="utf-8")
    with pytest.raises(PCGError, match="There are no runs on this server yet"):
        archive_of(synthesizer, tmp_path / "none").report(out, None)


def test_packed_results_are_shown_where_there_are_no_others(synthesizer: Synthesizer, tmp_path: Path) -> None:
    committed = tmp_path / "committed"
    keep(committed, (ar(), pcg(0.4)))
    Store(committed).pack()
    assert len(archive_of(synthesizer, tmp_path / "own", committed).result_set().records) == 12
