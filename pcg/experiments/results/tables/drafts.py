"""Does what a rule gains outlast a better draft? (PCG measures with one draft, SSD with another.)"""

from collections.abc import Mapping, Sequence

from pcg.experiments.results.analysis import Results, Summary, is_usual, most_heard, summarise
from pcg.experiments.results.comparisons import difference
from pcg.experiments.results.condition_names import acceptance_name
from pcg.experiments.results.statistics import estimate, speedup, wer
from pcg.experiments.results.tables.table import (
    BRACKETS,
    CALLS,
    SPEEDUP,
    WER,
    WER_CHANGE,
    Cell,
    Column,
    N,
    P,
    Table,
)

COMMAND = "python -m pcg experiment drafts DRAFT ..."


def draft_table(by_draft: Mapping[str, Results]) -> Table:
    """The rules with each draft, by its name; all drafts on the same utterances, by the judges that heard all of them."""
    by_draft = _alike(by_draft)
    judges = _judges(by_draft)
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
    return Table("drafts", title, columns, tuple(rows), note, COMMAND)


def pair_table(by_draft: Mapping[str, Results]) -> Table:
    """Each SSD and the PCG with most nearly as many tokens for each call of the target, with each draft: whose relaxed tokens
    cost fewer words? By the paper's t-test (PCG section 4)."""
    by_draft = _alike(by_draft)
    judges = _judges(by_draft)
    less = Column("PCG less SSD, points", 1, 100, signed=True)
    columns = (
        Column("draft"), Column("SSD", words=True), N, CALLS, Column("PCG", words=True),
        Column(f"its {CALLS.title}", CALLS.digits), *(column.by(judge) for judge in judges for column in (less, P)),
    )  # fmt: skip
    rows = [row for name, results in by_draft.items() for row in _pairs(name, results, judges)]
    note = f"{BRACKETS} Below zero: fewer word errors by PCG. p: Student's paired t-test on the utterances."
    return Table("pairs", "PCG and SSD at equal work, with every draft", columns, tuple(rows), note, COMMAND)


def _judges(by_draft: Mapping[str, Results]) -> list[str]:
    """Those who heard the takes of all drafts, the first one first, as ""."""
    first, *others = by_draft.values()
    return [judge for judge in first.by_judge() if not judge or all(judge in of.judges for of in others)]


def _pairs(draft: str, results: Results, judges: Sequence[str]) -> list[tuple[Cell, ...]]:
    rows, by_judge = summarise(results), results.by_judge()
    groups = [row for row in rows if row.method == "PCG cosine"]
    found: list[tuple[Cell, ...]] = []
    for row in (row for row in rows if row.method == "SSD" and groups):
        near = min(groups, key=lambda other: abs(other.mean_acceptance_length.value - row.mean_acceptance_length.value))
        lost = [difference(by_judge[judge], near.condition, row.condition) for judge in judges]
        work = (row.mean_acceptance_length, near.name, near.mean_acceptance_length)
        found.append((draft, row.name, row.utterances, *work, *(cell for each in lost for cell in (each.wer, each.p))))
    return found


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
