"""Does what a rule gains outlast a better draft? (PCG measures with one draft, SSD with another.)"""

from collections.abc import Mapping, Sequence

from pcg.experiments.results.analysis import Results, Summary, is_usual, most_heard, summarise
from pcg.experiments.results.comparisons import difference
from pcg.experiments.results.condition_names import acceptance_name
from pcg.experiments.results.statistics import estimate, speedup, wer
from pcg.experiments.results.tables.table import BRACKETS, CALLS, SPEEDUP, WER, WER_CHANGE, Cell, Column, N, Table


def draft_table(by_draft: Mapping[str, Results]) -> Table:
    """The rules with each draft, by its name; all drafts on the same utterances, by the judges that heard all of them."""
    by_draft = _alike(by_draft)
    first, *others = by_draft.values()
    judges = [judge for judge in first.by_judge() if not judge or all(judge in of.judges for of in others)]
    columns = (
        Column("draft"), Column("method", words=True), N, CALLS,
        Column("accepted of tested %", 0, 100), SPEEDUP, Column("over SD", 2, suffix="x"),
        *(column.by(judge) for judge in judges for column in (WER, WER_CHANGE)),
    )  # fmt: skip
    rows = [row for name, results in by_draft.items() for row in _rows(name, results, judges)]
    note = (
        f"{BRACKETS} Over SD: speed with the same draft over that of SD, which is exact. Points: less AR on the same "
        "utterances. A relaxed rule has most to gain from a poor draft, whose tokens SD rejects."
    )
    title = "Every rule with every draft"
    return Table("drafts", title, columns, tuple(rows), note, "python -m pcg experiment drafts DRAFT ...")


def _alike(by_draft: Mapping[str, Results]) -> dict[str, Results]:
    """Of each draft the settings that were said most often, on what all of them said with every draft."""
    found = {}
    for name, results in by_draft.items():
        shown = most_heard(s for s in summarise(results) if s.condition.swap is None and is_usual(s))
        found[name] = results.alike([row.condition for row in shown])
    said = [{(r.unit.utterance, r.unit.seed) for c in of.conditions[:1] for r in of.of(c)} for of in found.values()]
    shared = set.intersection(*said)
    return {name: of.where(lambda unit: (unit.utterance, unit.seed) in shared) for name, of in found.items()}


def _rows(draft: str, results: Results, judges: Sequence[str]) -> list[tuple[Cell, ...]]:
    shown, by_judge = summarise(results), results.by_judge()
    exact = next((row for row in shown if acceptance_name(row.condition) == "SD"), None)
    heard = [by_judge[judge] for judge in judges]
    return [_row(draft, heard, row, exact) for row in shown if row.condition.settings.method != "ar"]


def _row(draft: str, heard: Sequence[Results], row: Summary, exact: Summary | None) -> tuple[Cell, ...]:
    """heard: what each judge heard, the first one first."""
    results, words = heard[0], []
    for by_one in heard:
        baseline = by_one.baseline(row.condition)
        lost = difference(by_one, row.condition, baseline).wer if baseline else None
        words += [estimate(wer, *by_one.sums(row.condition)), lost]
    over = estimate(speedup, *results.sums(row.condition, exact.condition, timed=True)) if exact not in (None, row) else None
    return (draft, row.name, row.utterances, row.mean_acceptance_length, row.acceptance_of_tested, row.speedup, over, *words)
