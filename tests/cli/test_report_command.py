"""report: pages, numbers, tables in documents, and one sentence for bad input."""

import json
import sys

from pcg.cli import main


def test_report_writes_a_page_and_its_numbers(where, grid, calls, tmp_path, capsys):
    results, out = tmp_path / "results", tmp_path / "page.html"
    main(["experiment", "run", str(grid), *where])
    assert main(["report", str(results)]) == 0
    assert "<audio" not in (results / "report.html").read_text()
    assert main(["report", str(results), "--out", str(out), "--model", where[1]]) == 0
    assert "<audio" in out.read_text()
    assert "6 units" in capsys.readouterr().out
    assert {"acceptance", "conditions"} <= {
        table["name"] for table in json.loads((tmp_path / "results.json").read_text())["tables"]
    }


def test_tables_are_written_into_a_document_at_its_marks(where, grid, calls, tmp_path, capsys):
    main(["experiment", "run", str(grid), *where])
    results, document = (tmp_path / "results").resolve(), tmp_path / "a.md"
    document.write_text(f"Before.\n<!-- table conditions of {results} -->\n<!-- end of table -->\nAfter.\n")
    assert main(["report", str(results), "--markdown", str(document)]) == 0
    lines = document.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("Before.", "After.")
    assert [line.split(" | ")[0] for line in lines if line.startswith("| ")] == ["| setting", "| ---", "| AR", "| SD"]
    assert main(["report", str(results), "--markdown", str(tmp_path / "none.md")]) == 2
    assert main(["report", str(tmp_path / "nowhere"), "--markdown", str(document)]) == 2
    assert not (tmp_path / "nowhere").exists()
    assert "results is" in capsys.readouterr().err


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


def test_without_a_checkout_results_are_packed_and_one_sentence_says_where_reports_are_written(
    where, grid, calls, tmp_path, capsys, monkeypatch
):
    assert main(["experiment", "run", str(grid), *where]) == 0
    assert "python -m pcg report" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "explorers", None)  # as where pip has installed the library alone
    assert main(["experiment", "run", str(grid), *where]) == 0
    assert "report" not in capsys.readouterr().err
    assert main(["report", str(tmp_path / "results"), "--pack"]) == 0
    assert capsys.readouterr().out.endswith(": 6 units\n")
    assert main(["report", str(tmp_path)]) == 2
    said = "pcg: Reports are written in a checkout of the project: git clone URL, then run python -m pcg report in it.\n"
    assert capsys.readouterr().err == said
