"""The README's tables of experiments are those of the results that the project ships."""

import json

import pytest

from pcg.files import PROJECT

ROOT = PROJECT
RESULTS = ROOT / "assets" / "results" / "results.json"


@pytest.mark.parametrize("name", ["claims", "main", "swap", "sampling", "relax"])
def test_the_readme_shows_what_was_measured(name: str) -> None:
    """Every row of the table stands there, with as many of its columns as the README has."""
    (table,) = [table for table in json.loads(RESULTS.read_text(encoding="utf-8"))["tables"] if table["name"] == name]
    lines = [_cells(line) for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    (head,) = [line for line in lines if set(line) <= set(table["columns"]) and table["columns"][0] in line]
    columns = [table["columns"].index(title) for title in head]
    for row in table["shown"]:
        assert [row[column] for column in columns] in lines


def test_the_readme_shows_what_the_detectors_were_found_to_be() -> None:
    figures = json.loads((ROOT / "assets" / "detectors" / "figures.json").read_text(encoding="utf-8"))
    lines = [_cells(line) for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    for name, found in figures.items():
        if isinstance(found, dict):
            low, high = found["auc_interval"]
            own = [f"{found['auc']:.3f} [{low:.3f}, {high:.3f}]", f"{found['accuracy']:.3f}", f"{found['macro_f1']:.3f}"]
            assert any(line[:4] == [name.replace("<", "&lt;"), *own] for line in lines)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
