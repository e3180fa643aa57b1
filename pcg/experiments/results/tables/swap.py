"""What it costs to put members of a group in each other's place."""

from collections.abc import Callable, Sequence

from pcg.experiments.results import papers
from pcg.experiments.results.analysis import Results, Summary, alike, is_usual
from pcg.experiments.results.comparisons import difference
from pcg.experiments.results.condition_names import acceptance_name, knob
from pcg.experiments.results.papers import DIFFERS
from pcg.experiments.results.tables.table import BRACKETS, RUN, WER_CHANGE, Cell, Column, N, Table
from pcg.metrics.estimate import Estimate

MeanSize = Callable[[str, float], float]
GROUPED = ("PCG cosine", "PCG Mel", "PCG FSQ", "PCG both")
SWAPS = {
    "swap cosine": "cosine group",
    "swap Mel": "Mel group",
    "swap FSQ": "FSQ group",
    "swap both": "group of both",
    "random swap": "any code (control)",
}


def swap_table(results: Results, summaries: Sequence[Summary], mean_size: MeanSize | None = None) -> Table:
    """PCG Table 2, with the control of random codes at the same places."""
    columns = (
        Column("replaced by"), Column("theta", 3), Column("mean |G|", 1), Column("swapped %", 1, 100), N,
        WER_CHANGE, Column("CER, points", 1, 100, signed=True),
        Column("speaker, to before", 3), Column("DNSMOS", 2, signed=True), Column("mel distance, dB", 1),
        Column("speed-up with PCG", 2, suffix="x"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    swaps = [s for s in summaries if s.condition.swap]
    spoken = [s for s in summaries if s.method in GROUPED and is_usual(s)]
    spoken = [s for s in spoken if any(results.covers(s.condition, each.condition) for each in swaps)]
    results, shown = alike(results, [*swaps, *spoken])
    swaps = [s for s in shown if s.condition.swap]
    for row in sorted(swaps, key=lambda s: ([*SWAPS].index(acceptance_name(s.condition)), knob(s.condition))):
        swap, baseline = row.condition.swap, results.baseline(row.condition)
        size = mean_size(swap.similarity, swap.theta) if mean_size else None
        lost = difference(results, row.condition, baseline) if baseline else None
        losses = (lost.utterances, lost.wer, lost.cer) if lost else (row.utterances, None, None)
        sound = (row.similarity, lost.dnsmos if lost else None, row.mel_distance)
        speed = _speed_at(shown, swap.similarity, swap.theta) if swap.replacement == "group" else None
        rows.append((SWAPS[acceptance_name(row.condition)], swap.theta, size, row.swapped, *losses, *sound, speed))
    if rows:
        rows += [_quoted_swap(quoted.values) for quoted in papers.PCG_TABLE_2]
    note = (
        f"{BRACKETS} Differences to the same utterances before the swap. Speed-up: where PCG with these groups said all of "
        f"them. {DIFFERS['swap']}"
    )
    return Table("swap", "Members of a group in each other's place (PCG Table 2)", columns, tuple(rows), note, f"{RUN} swap")


def _quoted_swap(values: dict[str, float]) -> tuple[Cell, ...]:
    losses = (None, values["wer"], None, f"{values['similarity']:+.3f} to the reference", None, None)
    return ("the paper: cosine group", None, values["mean_size"], values["swapped"] / 100, *losses, values["speedup"])


def _speed_at(summaries: Sequence[Summary], similarity: str, theta: float) -> Estimate | None:
    """The speed-up of PCG with these groups."""
    for row in summaries:
        if row.method in GROUPED and (row.condition.settings.similarity, row.condition.settings.theta) == (similarity, theta):
            return row.speedup
    return None
