"""Every setting: beside AR, by each judge, by kind of sentence, by voice, by seed, and all that was measured.

A claim about words is worth what all judges make of it.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean, stdev

from pcg.experiments.results.analysis import Results, Summary, alike, is_usual, most_heard, summary
from pcg.experiments.results.comparisons import difference, pareto
from pcg.experiments.results.condition_names import sampler_name
from pcg.experiments.results.papers import DIFFERS
from pcg.experiments.results.statistics import estimate, wer
from pcg.experiments.results.tables.table import (
    BRACKETS,
    CALLS,
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
    P,
    Table,
)
from pcg.experiments.unit import DEFAULTS, Condition
from pcg.metrics.estimate import Estimate

ALL = "all voices"


def tradeoff_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Every rule at every setting, fewer utterances than in the main table, but the same ones in each row. Samplers have tables
    of their own."""
    columns = (
        Column("method"), N, SPEEDUP, CALLS, WER, WER_CHANGE, P, Column("best here", words=True),
    )  # fmt: skip
    plain = (s for s in summaries if s.speedup and s.condition.swap is None and not sampler_name(s.condition.settings))
    results, shown = alike(results, (s for s in plain if is_usual(s)))
    rows: list[tuple[Cell, ...]] = []
    front = {row.name for row in pareto(shown)}
    for row in sorted(shown if len(shown) > 1 else (), key=lambda s: s.speedup.value if s.speedup else 0.0):
        baseline = results.baseline(row.condition)
        lost = difference(results, row.condition, baseline) if baseline not in (None, row.condition) else None
        losses = (lost.wer, lost.p) if lost else (None, None)
        ours = (row.name, row.utterances, row.speedup, row.mean_acceptance_length, row.wer)
        rows.append((*ours, *losses, "best" if row.name in front else ""))
    note = (
        f"{BRACKETS} Points: less AR on the same utterances; p: Student's paired t-test. Tokens per call need no timing. Best: "
        "no other setting is at least as fast with as few word errors."
    )
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


def judge_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Word errors of every setting, and how many more than AR's on the same utterances, by the first judge and each other."""
    results, summaries = alike(results, most_heard(s for s in summaries if s.condition.swap is None))
    judges = results.by_judge()
    columns = [Column("setting"), N, *(column.by(judge) for judge in judges for column in (WER, WER_CHANGE, P))]
    rows: list[tuple[Cell, ...]] = []
    for row in summaries if len(judges) > 1 else ():
        cells: list[Cell] = [row.name, row.utterances]
        for heard in judges.values():
            baseline = heard.baseline(row.condition)
            lost = difference(heard, row.condition, baseline) if baseline not in (None, row.condition) else None
            cells += [estimate(wer, *heard.sums(row.condition)), lost.wer if lost else None, lost.p if lost else None]
        rows.append(tuple(cells))
    note = (
        f"{BRACKETS} Points: less AR on the same utterances; p: Student's paired t-test. What names no judge is by the first."
    )
    return Table("judges", "Word errors by each judge", tuple(columns), tuple(rows), note, f"{RUN} main --judge A,B")


def section_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Word errors by kind of sentence, by each judge."""
    results, summaries = alike(results, most_heard(s for s in summaries if s.condition.swap is None))
    sections = results.sections if len(results.sections) > 1 else ()
    columns, judges = [Column("setting")], results.by_judge()
    for section in sections:
        columns += [Column(f"{section}, n"), *(WER.by(section).by(judge) for judge in judges)]
    rows: list[tuple[Cell, ...]] = []
    for row in summaries if sections else ():
        cells: list[Cell] = [row.name]
        for section in sections:
            sums = [heard.within([row.condition], [section]).sums(row.condition) for heard in judges.values()]
            cells += [len(sums[0][0]), *(estimate(wer, *each) for each in sums)]
        rows.append(tuple(cells))
    return Table("sections", "Word errors by kind of sentence", tuple(columns), tuple(rows), BRACKETS, f"{RUN} main")


def voice_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Word errors by voice, of the recordings, of these through the codec, and of AR, by each judge: what the codec costs."""
    found = {name: s for name in ("original", "codec", "AR") for s in summaries if s.method == name}
    results, shown = alike(results, found.values() if {"original", "codec"} <= found.keys() else ())
    said, judges = {row.method: row.condition for row in shown}, results.by_judge()
    columns = [Column("voice"), N]
    for judge in judges:
        columns += [replace(WER, title=f"{name}: {WER.title}").by(judge) for name in said]
        columns.append(replace(WER_CHANGE, title="codec over original, points").by(judge))
    rows: list[tuple[Cell, ...]] = []
    voices = dict.fromkeys(record.unit.utterance.voice for record in results.of(said["codec"])) if said else ()
    for voice in (*voices, ALL) if len(voices) > 1 else voices:
        cells: list[Cell] = []
        for heard in judges.values():
            spoken = heard.where(lambda unit, voice=voice: voice in (unit.utterance.voice, ALL))
            sums = dict(zip(said, spoken.sums(*said.values()), strict=True))
            over = estimate(lambda codec, original: wer(codec) - wer(original), sums["codec"], sums["original"])
            cells += [*(estimate(wer, each) for each in sums.values()), over]
        rows.append((voice, len(sums["codec"]), *cells))
    note = f"{BRACKETS} Each row is of its own utterances, the same ones in all of its columns."
    return Table("voices", "What the codec costs each voice", tuple(columns), tuple(rows), note, f"{RUN} main originals")


def seed_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """Mean and standard deviation over seeds, as the papers print them."""
    shown = ("WER %", "CER %", "speaker", "speed-up")
    columns = (Column("setting"), N, Column("seeds"), *(Column(title, words=True) for title in shown))
    results, summaries = alike(results, most_heard(s for s in summaries if s.condition.swap is None))
    rows: list[tuple[Cell, ...]] = []
    by_seed = [results.where(lambda unit, seed=seed: unit.seed == seed) for seed in results.seeds]
    for row in summaries if len(by_seed) > 1 else ():
        each = [summary(of, row.condition, {}) for of in by_seed]
        rates = [_spread([getattr(s, field) for s in each], 1, 100) for field in ("wer", "cer")]
        others = _spread([s.similarity for s in each], 3), _spread([s.speedup for s in each], 2)
        rows.append((row.name, row.utterances, len(each), *rates, *others))
    note = "Mean and standard deviation over seeds, each seed over all utterances."
    return Table("seeds", "Figures by seed", columns, tuple(rows), note, f"{RUN} main --seeds 0 1 2")


def temperature_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """The settings that were said at several temperatures."""
    columns = (
        Column("setting"), Column("temperature", 1), N, SPEEDUP, CALLS, Column("accepted of tested %", 0, 100), WER,
        WER_CHANGE, P,
    )  # fmt: skip
    plain = [s for s in summaries if s.condition.swap is None and s.condition.model == "target" and is_usual(s)]
    at: dict[Condition, list[Summary]] = {}
    for row in plain:
        family = Condition("", row.condition.settings.with_(temperature=DEFAULTS.temperature), rule=row.condition.rule)
        at.setdefault(family, []).append(row)
    several = [row for family in at.values() if len(family) > 1 for row in family if not sampler_name(row.condition.settings)]
    results, shown = alike(results, several)
    rows: list[tuple[Cell, ...]] = []
    for row in sorted(shown, key=lambda s: s.condition.settings.temperature):
        baseline = results.baseline(row.condition)
        lost = difference(results, row.condition, baseline) if baseline not in (None, row.condition) else None
        ours = (row.name, row.condition.settings.temperature, row.utterances, row.speedup, row.mean_acceptance_length)
        rows.append((*ours, row.acceptance_of_tested, row.wer, *((lost.wer, lost.p) if lost else (None, None))))
    note = f"{BRACKETS} Speed-up and points: over AR at the same temperature. p: Student's paired t-test."
    title = "Speed and words by temperature"
    return Table("temperature", title, columns, tuple(rows), note, f"{RUN} temperature")


def _spread(estimates: Sequence[Estimate | None], digits: int, scale: float = 1.0) -> str | None:
    values = [scale * each.value for each in estimates if each]
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}" if len(values) > 1 else None
