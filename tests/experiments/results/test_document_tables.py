"""The tables of docs/results.md are those of the results that the project ships, and the README's are among them."""

import json
import shutil

import pytest

from pcg.cli import main
from pcg.errors import AssetError, InputError
from pcg.experiments.results.analysis import Results
from pcg.experiments.results.document import DRAFTS, beside, fill, folders
from pcg.experiments.results.tables.drafts import draft_table, pair_table
from pcg.experiments.suites import ar, pcg, sd, ssd
from pcg.experiments.unit import Hearing
from pcg.places import PROJECT
from pcg.spoof.detectors import RESOLUTIONS
from tests.experiments.synthetic import record

DOCUMENT = PROJECT / "docs" / "results.md"
README = PROJECT / "README.md"
RESULTS = PROJECT / "assets" / "results"
MARKS = "<!-- table {} of {} -->\n{}<!-- end of table -->\n"


@pytest.fixture
def copy(tmp_path):
    """The document without what stands between its marks, which the command has to write anew."""
    text, path = DOCUMENT.read_text(encoding="utf-8"), tmp_path / "results.md"
    begin, end = "-->\n", "<!-- end of table -->"
    for part in text.split(end)[:-1]:
        text = text.replace(part[part.rindex(begin) + len(begin) :] + end, end)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_command_writes_the_document_as_it_stands(copy, capsys):
    assert len(copy.read_text(encoding="utf-8")) < DOCUMENT.stat().st_size / 2
    for folder in (RESULTS, *(RESULTS.parent / name for name in ("recognition", "recognition/deeper"))):
        assert main(["report", str(folder), "--markdown", str(copy)]) == 0
    assert copy.read_text(encoding="utf-8") == DOCUMENT.read_text(encoding="utf-8")
    assert "assets/results" in capsys.readouterr().out


SHOWN = [
    "claims", "main", "tradeoff", "work", "judges", "sections", "differences", "factors", "drift", "acceptance", "swap",
    "sampling", "relax",
]  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_the_document_shows_what_was_measured(name):
    """Every row of the table, by a reading of the JSON that is not the command's."""
    tables = json.loads((RESULTS / "results.json").read_text(encoding="utf-8"))["tables"]
    (table,) = [table for table in tables if table["name"] == name]
    lines = _lines(DOCUMENT)
    for row in table["shown"]:
        assert [cell.replace("<", "&lt;") for cell in row] in lines


def test_the_readme_shows_rows_of_the_document():
    lines, overview = _lines(README), _lines(DOCUMENT)
    (head,) = [i for i, line in enumerate(lines) if line[:3] == ["method", "n", "speed-up"]]
    rows = lines[head : head + 9]
    methods = ["AR", "SD", "PCG, theta 0.4", "PCG, theta 0.3", "SSD, beta 0.3", "target's top 50", "typical acceptance"]
    assert [row[0] for row in rows[2:]] == methods
    assert [row for row in [rows[0], *rows[2:]] if row not in overview] == []
    summaries = json.loads((RESULTS / "results.json").read_text(encoding="utf-8"))["summaries"]
    by_name = {summary["condition"]["name"]: summary for summary in summaries}
    for name, n, speedup, tokens, _, wer, _ in rows[3:]:
        assert by_name[name]["n"] == int(n) == 200
        assert float(speedup.split("x")[0]) == pytest.approx(by_name[name]["speedup"]["value"], abs=0.005)
        assert float(tokens.split()[0]) == pytest.approx(by_name[name]["mean_acceptance_length"]["value"], abs=0.005)
        assert float(wer.split()[0]) == pytest.approx(100 * by_name[name]["wer"]["value"], abs=0.05)


def test_the_document_shows_what_the_detectors_were_found_to_be():
    figures = json.loads((PROJECT / "assets" / "detectors" / "figures.json").read_text(encoding="utf-8"))
    lines = _lines(DOCUMENT)
    for name in (resolution.name for resolution in RESOLUTIONS):
        found = figures[name]
        low, high = found["auc_interval"]
        own = [f"{found['auc']:.3f} [{low:.3f}, {high:.3f}]", f"{found['accuracy']:.3f}", f"{found['macro_f1']:.3f}"]
        assert any(line[:4] == [name.replace("<", "&lt;"), *own] for line in lines)


def test_a_table_is_filled_in_place_and_the_rest_stays(tmp_path):
    found = {
        "tables": [
            {"name": "one", "columns": ["a", "b|c"], "shown": [["<1>", "2\n3"]], "note": "A note.", "command": "make it"}
        ],
        "summaries": [],
    }
    (tmp_path / "results.json").write_text(json.dumps(found))
    before = "Words.\n" + MARKS.format("one", "here", "old\n") + MARKS.format("one", "there", "kept\n")
    after = fill(before, "here", tmp_path / "results.json")
    table = "\n| a | b\\|c |\n| --- | --- |\n| &lt;1> | 2 3 |\n\nA note.\n\nComputed by `make it`.\n\n"
    assert after == "Words.\n" + MARKS.format("one", "here", table) + MARKS.format("one", "there", "kept\n")
    assert fill(after, "here", tmp_path / "results.json") == after
    assert folders(after) == ["here", "there"]
    with pytest.raises(InputError, match="a folder that a mark in the document names"):
        fill(before, "elsewhere", tmp_path / "results.json")
    with pytest.raises(InputError, match="one of one"):
        fill(MARKS.format("two", "here", ""), "here", tmp_path / "results.json")


def test_the_table_of_drafts_lies_beside_the_report(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({"tables": [], "summaries": []}))
    marked = MARKS.format("drafts", "here", "")
    with pytest.raises(InputError, match="one of overview"):
        fill(marked, "here", tmp_path / "results.json")
    other = (Hearing("another", "what it heard", (3, 20), (3, 100)),)
    heard = {"also_heard": other, "rounds": 40, "drafted": 120, "accepted": 60}
    by_draft = {
        name: Results([record(c, i, errors, 20, **heard) for c in (ar(), sd()) for i in range(count)])
        for name, errors, count in (("poor", 2, 9), ("better", 1, 6))
    }
    table = draft_table(by_draft)
    (tmp_path / DRAFTS).write_text(json.dumps({"tables": [table.as_dict()], "summaries": []}))
    filled = fill(marked, "here", tmp_path / "results.json")
    for row in ("| poor | SD | 6 | 2.50", "| better | SD | 6 | 2.50", "WER, points, another"):
        assert row in filled
    assert table.rows[0][-2].value == pytest.approx(3 / 20)
    (tmp_path / "results.json").unlink()
    assert fill(marked, "here", tmp_path / "results.json") == filled
    (again,) = beside(tmp_path)
    assert (again.title, again.shown(), again.command) == (table.title, table.shown(), table.command)
    assert beside(tmp_path / "elsewhere") == ()
    (tmp_path / DRAFTS).write_text('{"tables": [{"name": "drafts"}]}')
    with pytest.raises(AssetError, match="are missing or damaged"):
        beside(tmp_path)


def test_pcg_and_ssd_are_paired_at_equal_work_with_every_draft():
    heard = {"also_heard": (Hearing("another", "what it heard", (1, 20), (3, 100)),), "rounds": 40, "drafted": 120}
    said = [(ar(), 1, 0), (ssd(0.3), 6, 60), (pcg(0.4), 2, 59), (pcg(0.2), 5, 70)]
    poor = [record(c, i, errors + i % 2, 20, accepted=accepted, **heard) for c, errors, accepted in said for i in range(8)]
    ((draft, setting, n, _, near, _, lost, p, other, none),) = pair_table({"poor": Results(poor)}).rows
    assert (draft, setting, n, near) == ("poor", "SSD, beta 0.3", 8, "PCG, theta 0.4")
    assert (lost.value, other.value) == pytest.approx((-4 / 20, 0))
    assert (p, none) == (None, None)  # every difference is the same, so no test can be made


def test_what_is_not_there_is_said_in_one_sentence(tmp_path, capsys):
    shutil.copy(DOCUMENT, tmp_path / "results.md")
    assert main(["report", str(tmp_path / "none"), "--markdown", str(tmp_path / "results.md")]) == 2
    assert main(["report", str(RESULTS), "--markdown", str(tmp_path / "none.md")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "results.json" in first
    assert "a document with marks" in second


def _lines(path):
    """The cells of every line of a table."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
