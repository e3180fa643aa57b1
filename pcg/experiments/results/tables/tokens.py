"""What the traces of tokens tell: where acceptance fails, and what relaxed acceptance does to what follows."""

from collections.abc import Sequence

from pcg.experiments.results.acceptance_factors import FACTORS, acceptance_by
from pcg.experiments.results.analysis import Results, Summary, alike, is_usual
from pcg.experiments.results.comparisons import difference
from pcg.experiments.results.condition_names import knob
from pcg.experiments.results.drift import BEHIND, drift
from pcg.experiments.results.tables.table import BRACKETS, RUN, WER_CHANGE, Cell, Column, N, Table
from pcg.experiments.unit import OWN_COINS

METHODS = ("SD", "SSD", "PCG cosine", "membership", "typical")
# With fewer tests of a level an interval over utterances means little.
FEWEST_TESTS = 100
SHARED_COINS = (
    "All utterances of a seed share its coins, which the intervals do not know: SD, which is exact, shows how much that makes."
)


def chosen_by_method(summaries: Sequence[Summary], methods: Sequence[str] = ("SD", "SSD", "PCG cosine")) -> list[Summary]:
    """Of each method the setting that was said most often; of several of them the one in the middle of its knob."""
    chosen = []
    for name in methods:
        rows = [s for s in summaries if s.method == name and is_usual(s)]
        rows = sorted((s for s in rows if s.n == max(each.n for each in rows)), key=lambda s: knob(s.condition))
        chosen += rows[(len(rows) - 1) // 2 :][:1]
    return chosen


def factor_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Where acceptance fails."""
    shared, shown = alike(results, chosen_by_method(summaries))
    columns = [Column("by"), Column("level", words=True), Column("tests %", 0, 100)]
    loose = [at for at, row in enumerate(shown) if row.method != "SD"]
    columns += [Column(f"{row.name}: accepted of tested %", 1, 100) for row in shown]
    columns += [Column(f"{row.name}: relaxed %", 1, 100) for row in (shown[at] for at in loose)]
    rows: list[tuple[Cell, ...]] = []
    for factor in FACTORS:
        found = [acceptance_by(shared, row.condition, factor) for row in shown]
        for level in factor.levels:
            at = [of.get(level) for of in found]
            if any(at):
                at = [each if each and each.tests >= FEWEST_TESTS else None for each in at]
                cells = [each and each.accepted for each in at] + [at[place] and at[place].relaxed for place in loose]
                rows.append((factor.name, level, at[0] and at[0].share.value, *cells))
    note = (
        f"{BRACKETS} Tests: share of the first method's. Accepted: of the tests at this level; relaxed: those of them that SD "
        f"would have rejected by the same coin; neither where there are fewer than {FEWEST_TESTS} tests. A token's phone is "
        "the one that its code is heard in most."
    )
    return Table("factors", "Where acceptance fails", tuple(columns), tuple(rows), note, f"{RUN} main")


def drift_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """How far relaxed texts drift from the target."""
    columns = (
        Column("method"), N, Column("relaxed %", 1, 100), Column("surprisal to AR, nats", 2, signed=True),
        Column("first fifth", 2, signed=True), Column("last fifth", 2, signed=True),
        Column("behind a relaxed token, nats", 2, signed=True), WER_CHANGE,
    )  # fmt: skip
    shared, shown = alike(results, (s for s in summaries if s.method in METHODS and is_usual(s)))
    rows: list[tuple[Cell, ...]] = []
    for row in sorted(shown, key=lambda s: (METHODS.index(s.method), knob(s.condition))):
        baseline = shared.baseline(row.condition)
        if baseline and (found := drift(shared, row.condition, baseline)):
            lost = difference(shared, row.condition, baseline).wer
            along = (found.surprisal, found.early, found.late, found.behind)
            rows.append((row.name, found.utterances, found.relaxed, *along, lost))
    note = (
        f"{BRACKETS} Relaxed: share of the tokens that only the group or the tolerance accepted. Surprisal: -log of a token's "
        "probability under the target, less AR's on the same utterances, of all tokens and of the first and the last fifth of "
        f"each utterance. Behind a relaxed token: surprisal less entropy of the next {BEHIND} tokens, less that of the others."
    )
    if any(record.context.get("format", OWN_COINS) < OWN_COINS for row in shown for record in shared.of(row.condition)):
        note += f" {SHARED_COINS}"
    return Table("drift", "How far relaxed texts drift from the target", columns, tuple(rows), note, f"{RUN} tradeoff")
