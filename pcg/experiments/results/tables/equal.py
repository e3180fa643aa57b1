"""PCG with cosine groups beside every other setting of the same speed, and of the same work."""

from collections.abc import Iterable, Sequence

from pcg.experiments.results import papers
from pcg.experiments.results.analysis import Results, Summary, is_usual
from pcg.experiments.results.comparisons import SPEED, WORK, Axis, curve, matched
from pcg.experiments.results.condition_names import knob
from pcg.experiments.results.papers import DIFFERS, PCG_SSD_BETA
from pcg.experiments.results.tables.table import BRACKETS, CALLS, RUN, SPEEDUP, WER, Cell, Column, N, P, Table, quoted_cells

RIVALS = ("SSD", "PCG Mel", "PCG FSQ", "PCG both", "membership", "typical")
PCG = "PCG cosine"
NAMES = {SPEED.name: "equal", WORK.name: "work"}
TITLES = {SPEED.name: "Word errors at equal speed (PCG Tables 1 and 3)", WORK.name: "Word errors at equal work"}
PLACES = {SPEED.name: SPEEDUP, WORK.name: CALLS}


def equal_table(results: Results, summaries: Sequence[Summary], axis: Axis) -> Table:
    """The comparison of PCG Tables 1 and 3, at equal speed as there, or at as many tokens for each call of the target; once
    with PCG's curve, and once with that setting of it which comes nearest, by the paper's t-test (section 4)."""
    place = PLACES[axis.name]
    columns = (
        Column("setting"), N, place, WER, Column(f"WER %, PCG cosine at this {axis.name}", 1, 100),
        Column("difference, points", 1, 100, signed=True), Column("met %", 0, 100), Column("nearest PCG", words=True),
        Column(f"its {place.title}", 2, suffix=place.suffix), Column("it less the setting, points", 1, 100, signed=True), P,
        Column("remark", words=True), Column("paper: its WER %"), Column("paper: PCG's WER %"),
    )  # fmt: skip
    rows = tuple(_row(results, row, axis) for row in _rivals(summaries))
    note = (
        f"{BRACKETS} A difference below zero means fewer errors by PCG. Met: share of resamplings in which the two met. "
        "p: Student's paired t-test of the two settings' utterances. Rows of different n are not to be compared. "
        f"{DIFFERS['equal']}"
    )
    return Table(NAMES[axis.name], TITLES[axis.name], columns, rows, note, f"{RUN} tradeoff")


def _rivals(summaries: Sequence[Summary]) -> Iterable[Summary]:
    wanted = [s for s in summaries if s.method in RIVALS and is_usual(s)]
    return sorted(wanted, key=lambda s: (RIVALS.index(s.method), knob(s.condition)))


def _row(results: Results, row: Summary, axis: Axis) -> tuple[Cell, ...]:
    found = matched(results, axis, PCG, curve(results, PCG, row.condition), row.condition)
    near = found.nearest
    pair = (near.condition.name, found.nearest_at, near.wer, near.p) if near else (None,) * 4
    ours = (row.name, found.utterances, found.at, found.point_wer, found.curve_wer, found.difference, found.met)
    return (*ours, *pair, f"not comparable: {found.reason}" if found.reason else "", *_quoted(row))


def _quoted(row: Summary) -> list[Cell]:
    theirs = {
        "SSD": (papers.PCG_TABLE_1["SSD"], papers.PCG_TABLE_1["PCG"]),
        "PCG Mel": (papers.PCG_TABLE_3["PCG Mel"], papers.PCG_TABLE_3["PCG cosine"]),
    }
    alike = row.method != "SSD" or row.condition.settings.beta == PCG_SSD_BETA
    quoted = theirs.get(row.method) if alike else None
    return [quoted_cells(q, "wer")[0] for q in quoted] if quoted else [None, None]
