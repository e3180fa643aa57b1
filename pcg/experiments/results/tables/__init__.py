"""The papers' tables from our records, ours beside theirs.

A table whose conditions were not measured is left out, and so is a row. Rows that are compared share their utterances, which
`n` counts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from pcg.experiments.results import papers
from pcg.experiments.results.analysis import Results, Summary, alike, is_usual, most_heard, of_one_temperature
from pcg.experiments.results.claims import claims, lookaheads_by_knob
from pcg.experiments.results.comparisons import SPEED, WORK, curve, difference, matched
from pcg.experiments.results.condition_names import knob
from pcg.experiments.results.papers import DIFFERS, PCG_SSD_BETA
from pcg.experiments.results.statistics import estimate, speedup
from pcg.experiments.results.tables.equal import equal_table
from pcg.experiments.results.tables.settings import (
    condition_table,
    difference_table,
    judge_table,
    section_table,
    seed_table,
    temperature_table,
    tradeoff_table,
    voice_table,
)
from pcg.experiments.results.tables.spoof import relax_table, sampling_tables
from pcg.experiments.results.tables.swap import MeanSize, swap_table
from pcg.experiments.results.tables.table import (
    BRACKETS,
    CALLS,
    CER,
    DNSMOS,
    RUN,
    SPEAKER,
    SPEEDUP,
    SPOOF,
    WER,
    Cell,
    Column,
    N,
    P,
    Table,
    quoted_cells,
)
from pcg.experiments.results.tables.tokens import drift_table, factor_table
from pcg.experiments.unit import Condition

BOUND = Column("bound", 2, suffix="x")
VARIANTS = ("PCG weighted", "PCG partition", "PCG adaptive", "PCG block")


def tables(results: Results, summaries: Sequence[Summary], mean_size: MeanSize | None = None) -> list[Table]:
    """All tables that have rows. mean_size(similarity, theta): the mean group size over tokens, where the voice is at hand."""
    last = [temperature_table(results, summaries), condition_table(summaries)]
    results, summaries = of_one_temperature(results, summaries)
    made = [
        claim_table(results, summaries),
        main_table(results, summaries),
        tradeoff_table(results, summaries),
        equal_table(results, summaries, SPEED),
        equal_table(results, summaries, WORK),
        swap_table(results, summaries, mean_size),
        ssd_table(results, summaries),
        lookahead_table(results, summaries),
        acceptance_table(results, summaries),
        factor_table(results, summaries),
        drift_table(results, summaries),
        ablation_table(results, summaries),
        relax_table(results, summaries),
        *sampling_tables(results),
        judge_table(results, summaries),
        section_table(results, summaries),
        voice_table(results, summaries),
        seed_table(results, summaries),
        difference_table(results, summaries),
        *last,
    ]
    return [table for table in made if table.rows]


UNSAID = "A dash: the paper does not print it; it has no row for AR, and a rating by people, which nothing here replaces."
THEIRS = {
    "speedup": Column("paper: speed-up", 2, suffix="x"),
    "wer": Column("paper: WER %"),
    "cer": Column("paper: CER %"),
    "similarity": Column("paper: speaker"),
    "mos": Column("paper: MOS"),
    "lm_rtf": Column("paper: LM-RTF", 3),
}


def claim_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """What the papers say, and what our records say to it, by each judge."""
    judges = [f"ours, by {judge}" for judge in results.judges]
    columns = tuple(Column(title, words=True) for title in ("claim", "verdict", "ours", *judges, "the paper", "where"))
    rows = [(c.text, c.stated, c.ours, *c.others, c.paper, c.source, c.n) for c in claims(results, summaries)]
    return Table("claims", "The papers' claims", (*columns, N), tuple(rows), DIFFERS["claims"], f"{RUN} all")


def main_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """PCG Table 1. The paper's PCG, chosen for the speed of SSD, stands beside our curve at just that speed."""
    wanted = ("original", "codec", "draft", "AR", "SD", "SSD", "PCG cosine", "membership", "typical")
    figures = (SPEEDUP, CALLS, WER, CER, SPEAKER, DNSMOS, SPOOF)
    columns = (Column("method"), N, *figures, *(THEIRS[k] for k in _PCG_KEYS))
    rows: list[tuple[Cell, ...]] = []
    results, shown = alike(results, most_heard(_usual(summaries, *wanted)))
    for row in shown:
        named = row.method if row.method != "SSD" or row.condition.settings.beta == PCG_SSD_BETA else ""
        quoted = papers.PCG_TABLE_1.get(named)
        rows.append((row.name, row.utterances, *_figures(row), *quoted_cells(quoted, *_PCG_KEYS)))
        if named == "SSD":
            rows.append(_at_the_speed_of(row, results))
    if rows and not any(row.method == "draft" for row in shown):
        rows.insert(0, _unsaid_draft(summaries))
    note = f"{BRACKETS} Speed-up: tokens per second of the decoding loop over AR. {UNSAID} {DIFFERS['main']}"
    title = "Words, speaker, sound and speed (PCG Table 1)"
    return Table("main", title, columns, tuple(rows), note, f"{RUN} main").without(SPOOF)


def _at_the_speed_of(row: Summary, results: Results) -> tuple[Cell, ...]:
    """The paper's row of PCG, with what our curve has there, or why it has nothing."""
    point = matched(results, SPEED, "PCG cosine", curve(results, "PCG cosine", row.condition), row.condition)
    name = f"PCG at the speed of {row.name}" + (f": not comparable, {point.reason}" if point.reason else "")
    ours = (name, point.utterances or None, point.at, None, point.curve_wer)
    return (*ours, *[None] * 4, *quoted_cells(papers.PCG_TABLE_1["PCG"], *_PCG_KEYS))


def _unsaid_draft(summaries: Sequence[Summary]) -> tuple[Cell, ...]:
    """The paper's row of the draft, and why ours is not there."""
    said = next((row.utterances for row in summaries if row.method == "draft"), 0)
    why = f"said {said} utterances, see the trade-off" if said else "not measured; a feature draft cannot speak alone"
    quoted = quoted_cells(papers.PCG_TABLE_1["draft"], *_PCG_KEYS)
    return (f"draft alone: {why}", *[None] * 8, *quoted)


def ssd_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """SSD Tables 1 and 3; SSD at beta 0 is SD."""
    columns = (
        Column("method"), N, SPEEDUP, CALLS, WER, DNSMOS, SPEAKER, Column("LM-RTF", 3),
        *(THEIRS[key] for key in ("wer", "mos", "similarity", "lm_rtf")),
    )  # fmt: skip
    rows = []
    for row in alike(results, _usual(summaries, "draft", "AR", "SD", "SSD"))[1]:
        beta = 0.0 if row.method == "SD" else row.condition.settings.beta
        quoted = papers.SSD_TABLE_1.get(row.method) if row.method in ("draft", "AR") else papers.SSD_TABLE_3.get(beta)
        cost = (row.speedup, row.mean_acceptance_length)
        ours = (row.name, row.utterances, *cost, row.wer, row.dnsmos, row.similarity, row.lm_rtf)
        rows.append((*ours, *quoted_cells(quoted, "wer", "mos", "similarity", "lm_rtf")))
    note = f"{BRACKETS} LM-RTF: seconds of the decoding loop per second of audio. {DIFFERS['ssd']}"
    return Table("ssd", "The tolerance of SSD (SSD Tables 1 and 3)", columns, tuple(rows), note, f"{RUN} tradeoff")


def lookahead_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Speed by lookahead, with the bound beside it where the costs of steps are known; last, where each is highest."""
    measured = (found for name in ("SD", "SSD", "PCG cosine") for found in lookaheads_by_knob(summaries, name))
    families = [found for found in measured if len(found) > 1]
    _, shared = alike(results, (row for found in families for row in found.values()))
    again = {row.condition: row for row in shared}
    families = families if shared else []
    families = [{at: again[row.condition] for at, row in found.items()} for found in families]
    columns = [Column("lookahead")]
    for found in families:
        name = next(iter(found.values())).name.partition(", lookahead")[0]
        columns += [replace(each, title=f"{name}: {each.title}") for each in (SPEEDUP, BOUND, CALLS)]
    rows = []
    for lookahead in sorted({at for found in families for at in found}):
        cells: list[Cell] = [str(lookahead)]
        for found in families:
            row = found.get(lookahead)
            cells += [row.speedup, row.bound, row.mean_acceptance_length] if row else [None] * 3
        rows.append(tuple(cells))
    if families:
        best = [(_highest(found, _speed), _highest(found, lambda row: row.bound), None) for found in families]
        rows.append(("highest at", *chain(*best)))
    timed = min((row.timed for found in families for row in found.values()), default=0)
    note = f"{BRACKETS} n = {timed}. Bound: by acceptance and the costs of single steps (Leviathan et al., Theorem 3.8). "
    return Table(
        "lookahead", "Speed by lookahead (PCG Fig. 4, SSD Fig. 3)", tuple(columns), tuple(rows),
        note + DIFFERS["lookahead"], f"{RUN} lookahead",
    )  # fmt: skip


def _speed(row: Summary) -> float | None:
    return row.speedup and row.speedup.value


def _highest(found: Mapping[int, Summary], value: Callable[[Summary], float | None]) -> str | None:
    """The lookahead of the highest value."""
    there = {at: value(row) for at, row in found.items() if value(row) is not None}
    return str(max(there, key=there.get)) if there else None


def acceptance_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """How much of what was drafted was accepted, and what speed that allows."""
    columns = (
        Column("setting"), N, Column("accepted of drafted %", 1, 100), CALLS,
        Column("by position %", words=True), Column("by position, if tested %", words=True),
        Column("trials per rejection", 2), Column("at the limit %", 1, 100), SPEEDUP, BOUND,
        Column("reached %", 0, 100),
    )  # fmt: skip
    rows = [
        (
            row.name, row.utterances, row.acceptance_rate, row.mean_acceptance_length, _percents(row.acceptance),
            _percents(row.conditional), row.trials_per_rejection, row.hit_limit, row.speedup, row.bound,
            row.speedup.value / row.bound if row.speedup and row.bound else None,
        )
        for row in alike(results, most_heard(s for s in summaries if s.acceptance_rate and is_usual(s)))[1]
    ]  # fmt: skip
    note = f"{BRACKETS} By position: share of rounds that accepted there; if tested: share of the tests there. "
    return Table("acceptance", "Acceptance", columns, tuple(rows), note + DIFFERS["acceptance"], f"{RUN} main")


def ablation_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Variants of PCG against plain PCG at the same theta, over the utterances that all of them said."""
    columns = (
        Column("variant"), Column("theta", 2), N, SPEEDUP, CALLS, Column("over plain PCG", 2, suffix="x"), WER,
        Column("WER to plain PCG, points", 1, 100, signed=True), P, Column("accepted of drafted %", 1, 100),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    variants = list(_usual(summaries, *VARIANTS))
    plain_ones = {_plain(row.condition) for row in variants}
    results, shown = alike(results, [*variants, *(s for s in summaries if replace(s.condition, name="") in plain_ones)])
    for row in shown[: len(variants)]:
        plain = _plain(row.condition)
        ours = (row.name, plain.settings.theta, row.utterances, row.speedup, row.mean_acceptance_length)
        if plain in results:
            lost, pair = difference(results, row.condition, plain), results.sums(row.condition, plain, timed=True)
            rows.append((*ours, estimate(speedup, *pair), row.wer, lost.wer, lost.p, row.acceptance_rate))
        else:
            rows.append((*ours, None, row.wer, None, None, row.acceptance_rate))
    note = f"{BRACKETS} p: Student's paired t-test. {DIFFERS['ablations']}"
    return Table("ablations", "Variants of groups, drafting and verification", columns, tuple(rows), note, f"{RUN} ablations")


def _plain(variant: Condition) -> Condition:
    """PCG of the same theta."""
    return Condition("", variant.settings.with_(adaptive=False, verification="token"))


_PCG_KEYS = ("speedup", "wer", "cer", "similarity", "mos")


def _usual(summaries: Sequence[Summary], *methods: str) -> Iterable[Summary]:
    """Those of `methods`, in their order and by knob, that were said with the papers' lookahead; AR has none."""
    wanted = [s for s in summaries if s.method in methods and is_usual(s)]
    return sorted(wanted, key=lambda s: (methods.index(s.method), knob(s.condition)))


def _figures(row: Summary) -> tuple[Cell, ...]:
    return row.speedup, row.mean_acceptance_length, row.wer, row.cer, row.similarity, row.dnsmos, row.spoof


def _percents(shares: Sequence[float]) -> str:
    return " ".join(f"{100 * share:.0f}" for share in shares)
