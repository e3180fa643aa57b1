"""Every setting beside AR: words against speed, differences, and all that was measured."""

from collections.abc import Sequence

from pcg.experiments.results.analysis import Results, Summary, alike, is_usual, most_heard
from pcg.experiments.results.comparisons import difference
from pcg.experiments.results.papers import DIFFERS
from pcg.experiments.results.table import (
    BRACKETS,
    CER,
    DNSMOS,
    RUN,
    SPEAKER,
    SPEEDUP,
    SPOOF,
    SPOOF_CHANGE,
    WER,
    WER_CHANGE,
    Cell,
    Column,
    N,
    Table,
)


def tradeoff_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Every rule at every setting, fewer utterances than in the main table, but the same ones in each row."""
    columns = (Column("method"), N, SPEEDUP, Column("tokens per target call", 2), WER, WER_CHANGE, Column("p", 3))
    results, shown = alike(results, (s for s in summaries if s.speedup and s.condition.swap is None and is_usual(s)))
    rows: list[tuple[Cell, ...]] = []
    for row in sorted(shown if len(shown) > 1 else (), key=lambda s: s.speedup.value if s.speedup else 0.0):
        baseline = results.baseline(row.condition)
        lost = difference(results, row.condition, baseline) if baseline not in (None, row.condition) else None
        losses = (lost.wer, lost.p) if lost else (None, None)
        rows.append((row.name, row.utterances, row.speedup, row.mean_acceptance_length, row.wer, *losses))
    note = f"{BRACKETS} Points: less AR on the same utterances; p: Student's paired t-test. Tokens per call need no timing."
    return Table("tradeoff", "Words against speed, every rule and setting", columns, tuple(rows), note, f"{RUN} tradeoff")


def difference_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Every setting less AR by the same sampler, over the same utterances."""
    columns = (
        Column("setting"), N, WER_CHANGE, Column("CER, points", 1, 100, signed=True), Column("speaker", 3, signed=True),
        Column("DNSMOS", 2, signed=True), SPOOF_CHANGE, Column("p (WER)", 3),
    )  # fmt: skip
    rows = []
    results, shown = alike(results, most_heard(s for s in summaries if s.condition.swap is None and is_usual(s)))
    for row in shown:
        baseline = results.baseline(row.condition)
        if baseline not in (None, row.condition):
            lost = difference(results, row.condition, baseline)
            rows.append((row.name, lost.utterances, lost.wer, lost.cer, lost.similarity, lost.dnsmos, lost.spoof, lost.p))
    note = f"{BRACKETS} p: Student's paired t-test, without correction for the number of rows. {DIFFERS['differences']}"
    title = "Differences to AR, utterance by utterance"
    return Table("differences", title, columns, tuple(rows), note, f"{RUN} main").without(SPOOF_CHANGE)


def condition_table(summaries: Sequence[Summary]) -> Table:
    """Everything that was measured."""
    columns = (
        Column("setting"), N, WER, CER, SPEAKER, DNSMOS, SPOOF, SPEEDUP, Column("text to audio", 2, suffix="x"),
        Column("tokens/s", 0), Column("at the limit %", 1, 100),
    )  # fmt: skip
    rows = [
        (
            row.name, row.utterances, row.wer, row.cer, row.similarity, row.dnsmos, row.spoof, row.speedup,
            row.wall_speedup, row.tokens_per_second, row.hit_limit,
        )
        for row in summaries
    ]  # fmt: skip
    note = (
        f"{BRACKETS} Speed-ups over AR: of the decoding loop, and from text to audio. Speaker of a swap: to before the swap. "
        "Rows of different n are not to be compared."
    )
    return Table("conditions", "Every setting", columns, tuple(rows), note, f"{RUN} all").without(SPOOF)
