"""Word errors by each judge, by kind of sentence and by seed: a claim about words is worth what all of them make of it."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean, stdev

from pcg.experiments.results.analysis import Results, Summary, alike, most_heard, summary
from pcg.experiments.results.comparisons import difference
from pcg.experiments.results.statistics import estimate, wer
from pcg.experiments.results.table import BRACKETS, RUN, WER, WER_CHANGE, Cell, Column, N, Table

P = Column("p", 3)


def judge_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Word errors of every setting, and how many more than AR's on the same utterances, by the first judge and each other."""
    results, summaries = alike(results, most_heard(s for s in summaries if s.condition.swap is None))
    judges = {"": results, **{judge: results.heard_by(judge) for judge in results.judges}}
    columns = [Column("setting"), N, *(_by(judge, column) for judge in judges for column in (WER, WER_CHANGE, P))]
    rows: list[tuple[Cell, ...]] = []
    for row in summaries if len(judges) > 1 else ():
        cells: list[Cell] = [row.name, row.utterances]
        for heard in judges.values():
            baseline = heard.baseline(row.condition)
            lost = difference(heard, row.condition, baseline) if baseline not in (None, row.condition) else None
            cells += [estimate(wer, *heard.sums(row.condition)), lost.wer if lost else None, lost.p if lost else None]
        rows.append(tuple(cells))
    note = f"{BRACKETS} Points: less AR on the same utterances; p: Student's paired t-test. Other tables: by the first judge."
    return Table("judges", "Word errors by each judge", tuple(columns), tuple(rows), note, f"{RUN} main --judge A,B")


def section_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Word errors by kind of sentence."""
    results, summaries = alike(results, most_heard(s for s in summaries if s.condition.swap is None))
    sections = results.sections
    columns = (Column("setting"), *(column for name in sections for column in (Column(f"{name}, n"), _by(name, WER))))
    rows = []
    for row in summaries if len(sections) > 1 else ():
        cells: list[Cell] = [row.name]
        for section in sections:
            within = results.within([row.condition], [section])
            sums = within.sums(row.condition)
            cells += [len(sums[0]), estimate(wer, *sums)]
        rows.append(tuple(cells))
    return Table("sections", "Word errors by kind of sentence", columns, tuple(rows), BRACKETS, f"{RUN} main")


def seed_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Mean and standard deviation over seeds, as the papers print them."""
    columns = (Column("setting"), N, Column("seeds"), Column("WER %", words=True), Column("speed-up", words=True))
    results, summaries = alike(results, most_heard(s for s in summaries if s.condition.swap is None))
    rows: list[tuple[Cell, ...]] = []
    by_seed = [results.of_seed(seed) for seed in results.seeds] if len(results.seeds) > 1 else []
    for row in summaries if by_seed else ():
        each = [summary(of, row.condition, {}) for of in by_seed]
        rates, speeds = [s.wer for s in each if s.wer], [s.speedup for s in each if s.speedup]
        spread = (_spread([100 * r.value for r in rates], 1), _spread([s.value for s in speeds], 2))
        rows.append((row.name, row.utterances, len(each), *spread))
    note = "Mean and standard deviation over seeds, each seed over all utterances."
    return Table("seeds", "Figures by seed", columns, tuple(rows), note, f"{RUN} main --seeds 0 1 2")


def _spread(values: Sequence[float], digits: int) -> str | None:
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}" if len(values) > 1 else None


def _by(name: str, column: Column) -> Column:
    return replace(column, title=f"{column.title}, {name}") if name else column
