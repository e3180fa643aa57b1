"""Tables of MSpoofTTS, and what its detectors say of relaxed acceptance."""

from collections.abc import Mapping, Sequence

from pcg.experiments.results import papers
from pcg.experiments.results.analysis import Results, Summary, alike, is_usual, summary
from pcg.experiments.results.claims import points
from pcg.experiments.results.comparisons import curve, difference, schemes
from pcg.experiments.results.condition_names import CONTROL
from pcg.experiments.results.papers import DIFFERS, Quoted
from pcg.experiments.results.tables.table import (
    BRACKETS,
    DNSMOS,
    RUN,
    SPEAKER,
    SPOOF,
    SPOOF_CHANGE,
    WER,
    WER_CHANGE,
    Cell,
    Column,
    N,
    Table,
)
from pcg.experiments.unit import Condition
from pcg.metrics.estimate import Estimate

TWISTERS = "twisters"
TABLE_1 = (papers.MSPOOF_TABLE_1_LIBRISPEECH, papers.MSPOOF_TABLE_1_LIBRITTS)
PAPER_COLUMNS = {"wer": "paper: WER %", "similarity": "paper: SIM", "nisqa": "paper: NISQA", "mosnet": "paper: MOSNet"}
COST = "Computed: tokens that the target read for each that was said, pruned beams included. RTF: work per second of audio."
SCALE = "Spoof: 1 - P(real) by M50, the mean over windows of 50 tokens."
CHOOSY = "HierRAS and HierEAS choose by these same detectors, so a low spoof of theirs proves nothing about the sound."


def sampling_tables(results: Results) -> list[Table]:
    """MSpoofTTS Tables 1 and 2: tongue twisters in the second, all other sentences in the first; in each those that all of its
    schemes said."""
    said = schemes(results)
    sections = {record.unit.utterance.section for condition in said.values() for record in results.of(condition)}
    ordinary = results.within(said.values(), sections - {TWISTERS})
    twisting = results.within(said.values(), {TWISTERS})
    return [
        _sampling_table("sampling", "Samplers (MSpoofTTS Table 1)", ordinary, said, TABLE_1),
        _sampling_table(
            "twisters", "Samplers on tongue twisters (MSpoofTTS Table 2)", twisting, said, (papers.MSPOOF_TABLE_2,)
        ),
    ]


def _sampling_table(
    name: str, title: str, results: Results, said: Mapping[str, Condition], quoted: Sequence[Mapping[str, Quoted]]
) -> Table:
    columns = (
        Column("method"), N, WER, SPEAKER, DNSMOS, Column("computed", 2), Column("RTF", 2), SPOOF,
        *map(Column, PAPER_COLUMNS.values()),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    said = {scheme: condition for scheme, condition in said.items() if condition in results}
    results = results.alike([*said.values()]) if said else results
    for scheme, condition in said.items():
        if condition in results:
            row = summary(results, condition, {})
            ours = (scheme, row.utterances, row.wer, row.similarity, row.dnsmos, row.computed, row.rtf, row.spoof)
            rows.append((*ours, *_quoted_cells(scheme, quoted)))
    both = " Two numbers of the paper: LibriSpeech / LibriTTS." if len(quoted) > 1 else ""
    note = f"{BRACKETS} {COST} {SCALE} {CHOOSY}{_control(results, said)}{both} {DIFFERS['sampling']}"
    return Table(name, title, columns, tuple(rows), note, f"{RUN} mspoof").without(SPOOF)


def _quoted_cells(scheme: str, quoted: Sequence[Mapping[str, Quoted]]) -> list[Cell]:
    """What the paper's tables say of a scheme; nothing of a control of ours."""
    if scheme == CONTROL:
        return [None] * len(PAPER_COLUMNS)
    return [" / ".join(f"{of[scheme].values[key]:g}" for of in quoted) for key in PAPER_COLUMNS]


def _control(results: Results, said: Mapping[str, Condition]) -> str:
    """How many words EAS saves beyond its top-p, if both were said."""
    pair = [said[name] for name in ("EAS", CONTROL) if name in said and said[name] in results]
    if len(pair) < 2:
        return ""
    lost = difference(results, *pair)
    return (
        f" {CONTROL} is Original with the top-p of RAS and EAS, a control of ours: EAS less {CONTROL} is {points(lost.wer)} of "
        f"WER over {lost.utterances} utterances."
    )


def relax_table(results: Results, summaries: Sequence[Summary]) -> Table:
    """PCG less SD, which is where its curve begins, as theta falls: does spoof rise before words are lost?"""
    columns = (Column("setting"), Column("theta", 2), N, SPOOF, SPOOF_CHANGE, WER_CHANGE, Column("moved", words=True))
    rows: list[tuple[Cell, ...]] = []
    results, shown = _relaxed(results, summaries)
    for row in shown[1:]:
        changed = difference(results, row.condition, shown[0].condition)
        moved = {"spoof": _rose(changed.spoof), "WER": _rose(changed.wer)}
        ours = (row.name, row.condition.settings.theta, changed.utterances, row.spoof, changed.spoof, changed.wer)
        rows.append((*ours, " and ".join(name for name, rose in moved.items() if rose) or "nothing"))
    note = (
        f"{BRACKETS} Changes are to SD, utterance by utterance. {SCALE} {_first(rows)} A figure moved where "
        f"the interval of its change lies above zero, so the one with the narrower interval is seen to move first. "
        f"{DIFFERS['relax']}"
    )
    title = "Does spoof rise before words are lost?"
    return Table("relax", title, columns, tuple(rows), note, f"{RUN} relax")


def _relaxed(results: Results, summaries: Sequence[Summary]) -> tuple[Results, list[Summary]]:
    """The SD that PCG's curve by cosine groups begins with, and of that curve those that were judged, theta falling; all on the
    same utterances. Nothing without SD."""
    usual = next((row.condition for row in summaries if row.method == "PCG cosine" and is_usual(row)), None)
    along = curve(results, "PCG cosine", usual) if usual else []
    if not along or along[0].settings.method != "sd":
        return results, []
    by_condition = {row.condition: row for row in summaries if row.spoof or row.condition == along[0]}
    return alike(results, [by_condition[condition] for condition in along if condition in by_condition])


def _rose(change: Estimate | None) -> bool:
    return change is not None and change.low > 0


def _first(rows: Sequence[tuple[Cell, ...]]) -> str:
    """At which theta each figure first moved, `rows` having falling thetas."""
    firsts = {name: next((row[1] for row in rows if name in str(row[-1])), None) for name in ("spoof", "WER")}
    said = [
        f"{name} is clearly above SD's first at theta {theta:g}" if theta else f"{name} is at no theta clearly above SD's"
        for name, theta in firsts.items()
    ]
    return f"As theta falls, {' and '.join(said)}."
