"""report: pages, numbers, single tables, and one sentence for bad input."""

import json
import sys

import pytest

from pcg.cli import main
from pcg.experiments.results.document import beside


def test_report_writes_a_page_and_its_numbers(where, grid, calls, tmp_path, capsys):
    results, out = tmp_path / "results", tmp_path / "page.html"
    main(["experiment", "run", str(grid), *where])
    assert main(["report", str(results)]) == 0
    assert "<audio" not in (results / "report.html").read_text()
    assert main(["report", str(results), "--out", str(out), "--model", where[1]]) == 0
    assert "<audio" in out.read_text()
    assert "6 units" in capsys.readouterr().out
    (acceptance,) = [t for t in json.loads((tmp_path / "results.json").read_text())["tables"] if t["name"] == "acceptance"]
    assert [row["bound"] > 0 for row in acceptance["rows"]] == [True]


def test_report_writes_one_table_alone_and_reads_again_what_steps_cost(where, grid, calls, tmp_path, capsys, monkeypatch):
    results = tmp_path / "results"
    main(["experiment", "run", str(grid), *where])
    assert main(["report", str(results), "--only", "conditions", "--out", str(results / "seeds.json")]) == 0
    assert not (results / "report.html").exists()
    assert [table.name for table in beside(results)] == ["conditions"]
    for wrong in (["--only", "conditions"], ["--only", "nothing", "--out", str(tmp_path / "one.json")]):
        assert main(["report", str(results), *wrong]) == 2
    assert main(["report", str(results), "--model", where[1]]) == 0
    first = (results / "results.json").read_bytes()
    monkeypatch.setattr("pcg.synthesis.costs.step_costs", None)
    assert main(["report", str(results), "--model", where[1]]) == 0
    assert (results / "results.json").read_bytes() == first


def test_report_does_not_mix_judges(where, grid, calls, tmp_path, capsys):
    results = str(tmp_path / "results")
    for judge in ("whisper", "embedded"):
        assert main(["experiment", "run", str(grid), "--judge", judge, *where]) == 0
    assert len(calls) == 12
    assert main(["report", results]) == 2
    assert "several" in capsys.readouterr().err
    assert main(["report", results, "--model", where[1], "--judge", "embedded"]) == 0
    assert ": 6 units" in capsys.readouterr().out
    assert main(["report", results, "--model", where[1], "--judge", "hubert"]) == 2


@pytest.fixture
def installed(monkeypatch):
    """As where pip has installed the library alone."""
    monkeypatch.setitem(sys.modules, "explorers", None)


@pytest.mark.parametrize("more", [[], ["--markdown", "results.md"]])
def test_without_a_checkout_one_sentence_says_where_reports_are_written(tmp_path, installed, capsys, more):
    assert main(["report", str(tmp_path), *more]) == 2
    said = "pcg: Reports are written in a checkout of the project: git clone URL, then run python -m pcg report in it.\n"
    assert capsys.readouterr().err == said


def test_without_a_checkout_results_are_packed_and_no_report_is_recommended(where, grid, calls, tmp_path, capsys, request):
    assert main(["experiment", "run", str(grid), *where]) == 0
    assert "python -m pcg report" in capsys.readouterr().err
    request.getfixturevalue("installed")
    assert main(["experiment", "run", str(grid), *where]) == 0
    assert "report" not in capsys.readouterr().err
    assert main(["report", str(tmp_path / "results"), "--pack"]) == 0
    assert capsys.readouterr().out.endswith(": 6 units\n")


def test_report_makes_no_folder_of_a_wrong_name(tmp_path, capsys):
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert not (tmp_path / "nowhere").exists()
    assert "results is" in capsys.readouterr().err
