"""What the Experiments panel does: stored results, runs and their progress, findings, and the takes behind them.

Knows nothing of gradio.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from time import perf_counter
from typing import Protocol

import numpy as np
import torch

from explorers.experiments.report import Findings, write_report
from pcg.bench.methods import step_costs
from pcg.errors import InputError, PCGError, first_line
from pcg.experiments.context import context
from pcg.experiments.results.analysis import Results
from pcg.experiments.runner import Progress, run, with_progress
from pcg.experiments.store import FILE, PACKED, Store
from pcg.experiments.unit import Record, Unit, Utterance
from pcg.experiments.worker import Sounding, WorkerSpec
from pcg.files import write_json
from pcg.metrics.bound import StepCosts
from pcg.synthesis.synthesizer import Synthesizer

REDRAW_SECONDS = 4.0
# Drawing is given no more than this part of a run's time.
DRAWING_SHARE = 0.1
HEARD = 3
COSTS = "steps.json"
# What has to be unchanged, or the costs of steps now do not fit the times then.
MACHINE = ("processor", "device", "torch", "threads")
NO_RESULTS = "There are no results yet. Choose an experiment and run it."


class SpeakingWorker(Protocol):
    """What generates units again (`pcg.experiments.worker.Worker`)."""

    def sound(self, unit: Unit) -> Sounding: ...


@dataclass(frozen=True, eq=False)
class ResultSet:
    """Results of one voice and its judges in `folder`. own: whether these are the page's; records that came with the project
    may be another's. costs: of single steps by lookahead, if they were timed."""

    folder: Path
    voice: str
    own: bool
    records: tuple[Record, ...] = ()
    costs: Mapping[int, StepCosts] | None = None

    @cached_property
    def results(self) -> Results:
        return Results(self.records)


class Archive:
    """All results that the page may show: those that it and the command line keep in `results`, or else, as long as these have
    nothing of this voice, those in `committed`. What was read once is read again when its file changes."""

    def __init__(self, synthesizer: Synthesizer, spec: WorkerSpec, results: Path, committed: Path | None = None) -> None:
        self.spec, self.store, self._synthesizer, self._results = spec, Store(results), synthesizer, results
        self._folders = [results] if committed is None else [results, committed]
        self._read = lru_cache(2)(self._read_now)
        self._found = lru_cache(1)(self._found_now)

    def result_set(self) -> ResultSet:
        """Raises AssetError if a file of results is damaged."""
        for folder in self._folders:
            if (stamp := _stamp(folder)) and (found := self._read(folder, stamp)).records:
                return found
        return self.own_result_set()

    def own_result_set(self) -> ResultSet:
        """The results of this voice and its judges, from which a run continues; maybe none."""
        stamp = _stamp(self._results)
        return self._read(self._results, stamp) if stamp else ResultSet(self._results, self.spec.voice_id, True)

    def count(self, units: Sequence[Unit]) -> tuple[int, int]:
        """How many of `units` are stored, and how many there are, where units that mean the same work are one."""
        keys = {unit.key(self.spec.voice_id) for unit in units}
        return len(self.store.known(keys)), len(keys)

    def findings(self) -> Findings | None:
        """The findings of all results, None if there are none."""
        result_set = self.result_set()
        return self._found(result_set) if result_set.records else None

    def findings_of(self, result_set: ResultSet, records: Sequence[Record]) -> Findings | None:
        """The same of other `records` of that result_set's voice, as they come in a run."""
        return Findings.of(records, result_set.costs, self._mean_size if result_set.own else None) if records else None

    def report(self, out: Path, sound: Callable[[Unit], tuple[np.ndarray, int]] | None) -> Findings:
        """Write everything as the page `out` (`explorers.experiments.report.write_report`)."""
        result_set = self.result_set()
        if not result_set.records:
            raise PCGError(NO_RESULTS)
        sizes = self._mean_size if result_set.own else None
        return write_report(result_set.folder, out, result_set.costs, sizes, sound, voice=result_set.voice)

    def time_steps(self) -> None:
        """Keep what single steps cost, for the bound on speed, where all results are of this machine."""
        result_set = self.result_set()
        here = context(self.spec.device, self.spec.threads, 1, {})
        drafting = {r.unit.settings.lookahead: r for r in result_set.records if r.result.drafted}
        if (
            not result_set.own
            or drafting.keys() <= (result_set.costs or {}).keys()
            or not _same_machine(result_set.records, here)
        ):
            return
        costs = {str(lookahead): asdict(self._timed(record)) for lookahead, record in sorted(drafting.items())}
        machine = {name: here[name] for name in MACHINE}
        _keep_costs(result_set.folder, {"voice": result_set.voice, "machine": machine, "milliseconds": costs})

    def _timed(self, record: Record) -> StepCosts:
        voice, settings = self._synthesizer.voice, record.unit.settings
        reference = voice.reference(next(iter(voice.references)))
        prompt = voice.reader.prompt(self._synthesizer.chunks(record.unit.utterance.text)[0], reference)
        threads = torch.get_num_threads()
        torch.set_num_threads(self.spec.threads)
        try:
            return step_costs(voice, prompt, settings.lookahead, settings.temperature)
        finally:
            torch.set_num_threads(threads)

    def _mean_size(self, similarity: str, theta: float) -> float:
        return self._synthesizer.library.neighbours(similarity).mean_size_at(theta)

    def _read_now(self, folder: Path, _stamp: object) -> ResultSet:
        records, voice = Store(folder).all(), self.spec.voice_id
        if folder != self._results and records and not any(r.context["voice"] == voice for r in records):
            voice = str(records[0].context["voice"])
        kept = tuple(record for record in records if record.context["voice"] == voice)
        return ResultSet(folder, voice, voice == self.spec.voice_id, kept, _read_costs(folder, voice, kept))

    def _found_now(self, result_set: ResultSet) -> Findings | None:
        return self.findings_of(result_set, result_set.records)


@dataclass(frozen=True, eq=False)
class Study:
    """The progress of a run. findings: of all stored results of this voice, a new object whenever they change."""

    progress: Progress
    findings: Findings | None
    over: bool = False


def study(archive: Archive, units: Sequence[Unit], clock: Callable[[], float] = perf_counter) -> Iterator[Study]:
    """Do those of `units` that are not stored; yield the progress after each, and new findings every few seconds.

    Closing the generator stops the work; finished units stay stored.
    """
    spec, result_set = archive.spec, archive.own_result_set()
    known, total = archive.count(units)
    notice = archive.store.notice
    records = list(result_set.records)
    state = Study(Progress(known, total, None, notice), archive.findings())
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
    archive.time_steps()
    yield Study(Progress(total, total, 0.0), archive.findings(), over=True)


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


def made(findings: Findings) -> dict[str, str]:
    """Judges, machine, model and date, by name."""
    facts = {name: " and ".join(values) for name, values in findings.contexts.items()}
    judges = {name.removeprefix("judges: "): said for name, said in facts.items() if name.startswith("judges: ")}
    workers = f"workers {facts.get('workers', '?')}, threads of each {facts.get('threads', '?')}"
    machine = ", ".join(part for part in (facts.get("processor"), facts.get("device"), workers) if part)
    # To the day; a span keeps both its ends.
    date = " to ".join(dict.fromkeys(part[:10] for part in " to ".join(findings.contexts.get("date", [])).split(" to ")))
    return judges | {"Machine": machine, "Model": facts.get("model", "?"), "Date": date}


def record_of(findings: Findings | None, progress: Progress | None = None) -> dict[str, object]:
    """Ready for JSON: every table, how it was made, and how far a run is."""
    found: dict[str, object] = {"progress": progress and asdict(progress), "records": 0, "made": {}, "tables": []}
    if findings is None:
        return found
    tables = [table.as_dict() for table in findings.tables]
    return found | {"records": findings.records, "made": made(findings), "tables": tables}


def _stamp(folder: Path) -> object:
    """Another one whenever the results change; None without any."""
    if not any((folder / name).is_file() for name in (FILE, PACKED)):
        return None
    files = [path.stat() for name in (FILE, PACKED, COSTS) if (path := folder / name).is_file()]
    return tuple((stat.st_mtime_ns, stat.st_size) for stat in files)


def _keep_costs(folder: Path, costs: Mapping[str, object]) -> None:
    try:
        write_json(folder / COSTS, {"digest": _digest(costs), "costs": costs})
    except PCGError as error:
        warnings.warn(f"{first_line(error)}: the work goes on without it.", stacklevel=3)


def _read_costs(folder: Path, voice: str, records: Sequence[Record]) -> dict[int, StepCosts] | None:
    """What `Archive.time_steps` kept, if it was for these records."""
    try:
        kept = json.loads((folder / COSTS).read_text(encoding="utf-8"))
        if kept["digest"] != _digest(kept["costs"]):
            raise ValueError("they do not fit their digest")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        warnings.warn(f"The costs of single steps in {folder} cannot be used ({first_line(error)}).", stacklevel=3)
        return None
    costs = kept["costs"]
    if costs["voice"] != voice or not _same_machine(records, costs["machine"]):
        return None
    return {int(lookahead): StepCosts(**each) for lookahead, each in costs["milliseconds"].items()}


def _digest(costs: object) -> str:
    """Of values as JSON has them."""
    return hashlib.sha256(json.dumps(costs, sort_keys=True).encode()).hexdigest()


def _same_machine(records: Sequence[Record], machine: Mapping[str, object]) -> bool:
    return all(record.context.get(name) == machine[name] for record in records for name in MACHINE)


def _said(record: Record) -> tuple[Utterance, int]:
    return replace(record.unit.utterance, section=""), record.unit.seed


def _again(speaker: SpeakingWorker, record: Record) -> HeardUnit:
    sounding = speaker.sound(record.unit)
    return HeardUnit(record, sounding.samples, sounding.sample_rate, sounding.tokens == record.result.tokens)
