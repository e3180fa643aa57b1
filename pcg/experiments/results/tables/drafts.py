"""Does what a rule gains outlast a better draft? (PCG measures with one draft, SSD with another.)"""

from collections.abc import Mapping

from pcg.experiments.results.analysis import Results, Summary, alike, is_usual, most_heard, summarise
from pcg.experiments.results.comparisons import difference
from pcg.experiments.results.condition_names import acceptance_name
from pcg.experiments.results.statistics import estimate, speedup
from pcg.experiments.results.tables.table import BRACKETS, CALLS, SPEEDUP, WER, WER_CHANGE, Cell, Column, N, Table


def draft_table(by_draft: Mapping[str, Results]) -> Table:
    """The rules with each draft, by its name; all drafts on the same utterances."""
    columns = (
        Column("draft"), Column("method", words=True), N, CALLS,
        Column("accepted of tested %", 0, 100), SPEEDUP, Column("over SD", 2, suffix="x"), WER, WER_CHANGE,
    )  # fmt: skip
    rows = [row for name, results in by_draft.items() for row in _rows(name, results)]
    note = (
        f"{BRACKETS} Over SD: speed with the same draft over that of SD, which is exact. Points: less AR on the same "
        "utterances. A relaxed rule has most to gain from a poor draft, whose tokens SD rejects."
    )
    title = "Every rule with every draft"
    return Table("drafts", title, columns, tuple(rows), note, "python -m pcg experiment drafts DRAFT ...")


def _rows(draft: str, results: Results) -> list[tuple[Cell, ...]]:
    shared, shown = alike(results, most_heard(s for s in summarise(results) if s.condition.swap is None and is_usual(s)))
    exact = next((row for row in shown if acceptance_name(row.condition) == "SD"), None)
    return [_row(draft, shared, row, exact) for row in shown if row.condition.settings.method != "ar"]


def _row(draft: str, results: Results, row: Summary, exact: Summary | None) -> tuple[Cell, ...]:
    baseline = results.baseline(row.condition)
    lost = difference(results, row.condition, baseline).wer if baseline else None
    over = estimate(speedup, *results.sums(row.condition, exact.condition, timed=True)) if exact not in (None, row) else None
    words = (row.wer, lost)
    return (draft, row.name, row.utterances, row.mean_acceptance_length, row.acceptance_of_tested, row.speedup, over, *words)
