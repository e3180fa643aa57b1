"""Tables of results inside a markdown document: each stands between two marks that name it, and a command writes it there.

    <!-- table claims of assets/results -->
    <!-- end of table -->

The text around the marks is the author's, and stays as it is.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pcg.errors import AssetError, InputError, first_line
from pcg.experiments.results.tables.table import MISSING, Table
from pcg.files import check_checksums

MARKED = re.compile(r"(<!-- table (\S+) of (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
OVERVIEW = "overview"
DRAFTS, SEEDS = BESIDE = "drafts.json", "seeds.json"
"""Tables of runs of their own, in the folder of the others: of several drafts, and of several seeds."""


def fill(document: str, folder: str, results: Path) -> str:
    """`document` with every table that is marked as one of `folder`, read from the file `results` that the report writes, and
    from those BESIDE it; at least one of them is there.

    Besides the report's tables there is "overview": speed, acceptance and word errors of each setting in one row.
    """
    found = _read(results) if results.is_file() else {"tables": [], "summaries": []}
    more = [table.as_dict() for table in beside(results.parent)]
    tables = {table["name"]: table for table in (*found["tables"], *more)} | {OVERVIEW: _overview(found)}

    def filled(mark: re.Match[str]) -> str:
        begin, name, of, end = mark.groups()
        if of != folder:
            return mark[0]
        if name not in tables:
            raise InputError("table", name, "one of " + ", ".join(tables))
        return f"{begin}\n{_markdown(tables[name])}\n\n{end}"

    if folder not in folders(document):
        raise InputError("markdown", folder, "a folder that a mark in the document names: <!-- table NAME of FOLDER -->")
    return MARKED.sub(filled, document)


def beside(folder: Path) -> tuple[Table, ...]:
    """The tables in those files BESIDE others that are in `folder`. Raises AssetError for a damaged one."""
    files = [folder / name for name in BESIDE if (folder / name).is_file()]
    return tuple(table for file in files for table in read_tables(file))


def read_tables(file: Path) -> list[Table]:
    """The tables in a JSON file of results, as they were shown. Raises AssetError for a damaged or missing one."""
    try:
        return [Table.from_dict(table) for table in _read(file)["tables"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"The results in {file} are missing or damaged ({first_line(error)}).") from error


def folders(document: str) -> list[str]:
    """The folders of results that the marks of a document name, each once."""
    return list(dict.fromkeys(mark[3] for mark in MARKED.finditer(document)))


def _read(file: Path) -> Mapping:
    check_checksums(file)
    return json.loads(file.read_text(encoding="utf-8"))


def _markdown(table: Mapping) -> str:
    columns: Sequence[str] = table["columns"]
    lines = [columns, ["---"] * len(columns), *table["shown"]]
    body = ["| " + " | ".join(_plain(cell) for cell in line) + " |" for line in lines]
    return "\n".join([*body, "", table["note"], "", f"Computed by `{table['command']}`."])


def _plain(text: str) -> str:
    """A cell of a markdown table: one line, no bars, no markup."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")


def _overview(found: Mapping) -> dict:
    """The settings of the main table that were said: what they cost and what they lose, from three of the report's tables."""
    by_name = {table["name"]: table for table in found["tables"]}
    words, accepted, lost = (_rows(by_name.get(name)) for name in ("main", "acceptance", "differences"))
    tested = {s["condition"]["name"]: _accepted_of_tested(s) for s in found["summaries"]}
    shown = [
        [
            name,
            row["n"],
            row["speed-up"],
            accepted.get(name, {}).get("tokens per target call", "-"),
            tested.get(name, "-"),
            row["WER %"],
            lost.get(name, {}).get("WER, points", "-"),
        ]
        for name, row in words.items()
        if row["n"] != MISSING
    ]
    columns = ["method", "n", "speed-up", "tokens per target call", "accepted of tested %", "WER %", "WER, points over AR"]
    note = "Brackets: 95 % bootstrap interval over utterances. Speed-up: tokens per second of the decoding loop over AR."
    command = by_name["main"]["command"] if "main" in by_name else ""
    return {"columns": columns, "shown": shown, "note": note, "command": command}


def _rows(table: Mapping | None) -> dict[str, dict[str, str]]:
    """The rows of a table by their first cell."""
    return {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["shown"]} if table else {}


def _accepted_of_tested(summary: Mapping) -> str:
    """Of the drafted tokens that the rule tested, the share that it accepted."""
    share = summary["acceptance_of_tested"]
    return "-" if share is None else f"{100 * share:.0f}"
