"""What the Experiments panel does: runs and their progress, findings, and the takes behind them.

Knows nothing of gradio.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Protocol

import numpy as np

from explorers.experiments.archive import NO_RESULTS, OWN, Archive, ResultSet
from explorers.experiments.report import Findings
from pcg.errors import InputError, PCGError
from pcg.experiments.results import method
from pcg.experiments.runner import Progress, run, with_progress
from pcg.experiments.unit import Record, Unit, Utterance
from pcg.experiments.worker import Sounding

REDRAW_SECONDS = 4.0
# Drawing is given no more than this part of a run's time.
DRAWING_SHARE = 0.1
HEARD = 3


class View:
    """Which results one visitor's page shows: a run goes on beside it, and draws only where its own results are looked at."""

    def __init__(self, source: str) -> None:
        self.source = source


class SpeakingWorker(Protocol):
    """What generates units again (`pcg.experiments.worker.Worker`)."""

    def sound(self, unit: Unit) -> Sounding: ...


@dataclass(frozen=True, eq=False)
class Study:
    """The progress of a run. findings: of all own results, a new object whenever they change."""

    progress: Progress
    findings: Findings | None
    over: bool = False


def study(archive: Archive, units: Sequence[Unit], clock: Callable[[], float] = perf_counter) -> Iterator[Study]:
    """Do those of `units` that are not stored; yield the progress after each, and new findings every few seconds.

    Closing the generator stops the work; finished units stay stored.
    """
    spec, result_set = archive.spec, archive.result_set(OWN)
    known, total = archive.count(units)
    notice = archive.store.notice
    records = list(result_set.records)
    state = Study(Progress(known, total, None, notice), archive.findings(OWN))
    yield state
    due = clock()
    with closing(with_progress(run(units, spec, archive.store), total, known, notice=notice)) as steps:
        for record, progress in steps:
            records.append(record)
            state = replace(state, progress=progress)
            if clock() >= due:
                begun = clock()
                state = replace(state, findings=archive.findings_of(result_set, records))
                due = clock() + max(REDRAW_SECONDS, (clock() - begun) / DRAWING_SHARE)
            yield state
    yield Study(Progress(total, total, 0.0), archive.findings(OWN), over=True)


@dataclass(frozen=True, eq=False)
class HeardUnit:
    """A result to be listened to: `samples [N]` at `sample_rate`. same: whether its tokens equal the stored ones."""

    record: Record
    samples: np.ndarray
    sample_rate: int
    same: bool


@dataclass(frozen=True, eq=False)
class HeardPair:
    """An utterance in the condition that was asked for, and by AR with the same seed: None if that is the same, or missing."""

    chosen: HeardUnit
    alone: HeardUnit | None


def pairs(result_set: ResultSet, name: str, first: int = 0, count: int = HEARD) -> list[tuple[Record, Record | None]]:
    """`count` records of the condition `name`, spread evenly over all of them from the `first` on, each with AR's."""
    if not result_set.records:
        raise PCGError(NO_RESULTS)
    results = result_set.results
    condition = next((c for c in results.conditions if c.name == name), None)
    if condition is None:
        raise InputError("condition", name, "one that was measured")
    baseline = results.baseline(condition)
    alone = {_said(r): r for r in results.of(baseline)} if baseline and baseline != condition else {}
    records = results.of(condition)
    # The same utterances for every condition, as far as possible, so that conditions compare, too.
    records = [r for r in records if _said(r) in alone] or records
    places = dict.fromkeys((first + i * len(records) // count) % len(records) for i in range(count))
    return [(records[at], alone.get(_said(records[at]))) for at in places]


def hear(speaker: SpeakingWorker, chosen: Sequence[tuple[Record, Record | None]]) -> Iterator[HeardPair]:
    """Generate each again, from settings and seed."""
    for record, alone in chosen:
        yield HeardPair(_again(speaker, record), _again(speaker, alone) if alone else None)


def condition_names(findings: Findings | None) -> list[str]:
    """What can be heard: those of a method beside one another, methods and conditions in the order of their measuring."""
    conditions = findings.results.conditions if findings else ()
    methods = list(dict.fromkeys(method(condition) for condition in conditions))
    return [c.name for c in sorted(conditions, key=lambda c: methods.index(method(c)))]


def made(findings: Findings) -> dict[str, str]:
    """Judges, machine, model and date, by name."""
    facts = {name: " and ".join(values) for name, values in findings.contexts.items()}
    judges = {name.removeprefix("judges: "): said for name, said in facts.items() if name.startswith("judges: ")}
    workers = f"workers {facts.get('workers', '?')}, threads of each {facts.get('threads', '?')}"
    machine = ", ".join(part for part in (facts.get("processor"), facts.get("device"), workers) if part)
    # To the day; a span keeps both its ends.
    date = " to ".join(dict.fromkeys(part[:10] for part in " to ".join(findings.contexts.get("date", [])).split(" to ")))
    return judges | {"Machine": machine, "Model": facts.get("model", "?"), "Date": date}


def record_of(source: str, findings: Findings | None, progress: Progress | None = None) -> dict[str, object]:
    """Ready for JSON: whose results, every table, how it was made, and how far a run is."""
    found: dict[str, object] = {"source": source, "progress": progress and asdict(progress)}
    if findings is None:
        return found | {"records": 0, "made": {}, "tables": []}
    tables = [table.as_dict() for table in findings.tables]
    return found | {"records": findings.records, "made": made(findings), "tables": tables}


def _said(record: Record) -> tuple[Utterance, int]:
    return replace(record.unit.utterance, section=""), record.unit.seed


def _again(speaker: SpeakingWorker, record: Record) -> HeardUnit:
    sounding = speaker.sound(record.unit)
    return HeardUnit(record, sounding.samples, sounding.sample_rate, sounding.tokens == record.result.tokens)
