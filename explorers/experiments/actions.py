"""What the page does with experiments: what is asked for, how far it is, what all results say, and how they sound.

Knows nothing of gradio.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from time import perf_counter
from typing import Protocol

import numpy as np
import torch
import yaml

from explorers.experiments.report import Findings, write_report
from pcg.analysis.swap import same_size_theta
from pcg.bench.methods import step_costs
from pcg.errors import InputError, PCGError
from pcg.experiments.context import context
from pcg.experiments.grid import Grid, read_grid
from pcg.experiments.results.analysis import Results
from pcg.experiments.runner import Progress, run, with_progress
from pcg.experiments.store import FILE, Store
from pcg.experiments.suites import COUNTS, TITLES, declared
from pcg.experiments.testset import SECTIONS, offline_utterances
from pcg.experiments.unit import Record, Unit, Utterance
from pcg.experiments.worker import Sounding, WorkerSpec
from pcg.files import write_json
from pcg.metrics.bound import StepCosts
from pcg.metrics.sentences import read_sentences
from pcg.prompts.text import MAX_CHARACTERS
from pcg.synthesis.synthesizer import Synthesizer

SIZES = ("quick", "full")
# What a grid of one's own may be: read on a page that others use, too.
MOST_BYTES, DEEPEST, MOST_UNITS = 64 * 1024, 8, 10_000
GRID_KINDS = (".yaml", ".yml")
REDRAW_SECONDS = 4.0
# Drawing is given no more than this part of a run's time.
DRAWING_SHARE = 0.1
HEARD = 3
COSTS = "steps.json"
# What has to be as it was, or the costs of steps now say nothing about the times then.
MACHINE = ("processor", "device", "torch", "threads")
UNMEASURED = "Nothing has been measured yet: choose an experiment, and run it."


class Speaker(Protocol):
    """Whoever says units again (`pcg.experiments.worker.Worker`)."""

    def sound(self, unit: Unit) -> Sounding: ...


def chosen_grids(synthesizer: Synthesizer, names: Sequence[str], size: str, file: Path | None = None) -> list[Grid]:
    """The declared grids `names`, at `size`, and the one in a YAML `file`. Raises InputError if there is none, or for anything
    that cannot be said by this voice."""
    if size not in SIZES:
        raise InputError("size", size, "one of " + ", ".join(SIZES))
    if not names and file is None:
        raise InputError("experiments", "none", "at least one of " + ", ".join(TITLES) + ", or a grid in a YAML file")
    own = [] if file is None else [own_grid(file, tuple(synthesizer.voice.references))]
    voices, most = list(synthesizer.voice.references), max(full for full, _ in COUNTS.values())

    def theta_for(similarity: str, theta: float) -> float:
        return same_size_theta(synthesizer.library, theta, similarity)

    utterances = offline_utterances(most, voices)
    grids = [declared(name, utterances, size == "quick", theta_for) for name in dict.fromkeys(names)] + own
    return [grid.for_draft(synthesizer.voice.draft_kind, synthesizer.voice.draft_speaks_alone) for grid in grids]


def own_grid(file: Path, voices: Sequence[str]) -> Grid:
    """A user's grid for `voices`; raise PCGError, before anything large is built, for a file that is not small and plain."""
    _check_yaml(file)
    try:
        grid = read_grid(file)
    except InputError as error:
        # The name alone: the path is the server's. What it quotes may be as long as the file.
        raise PCGError(_shortened(str(error).replace(str(file), file.name))) from error
    for utterance in grid.utterances:
        if utterance.voice not in voices:
            raise InputError("voices", utterance.voice[:60], "some of " + ", ".join(voices))
    return grid


def units_of(grids: Sequence[Grid]) -> list[Unit]:
    """Those of an utterance and a seed side by side, whatever grid they are of: times are compared between them."""
    together: dict[tuple[Utterance, int], list[Unit]] = {}
    for unit in (unit for grid in grids for unit in grid.units()):
        together.setdefault((unit.utterance, unit.seed), []).append(unit)
    return [unit for of_one in together.values() for unit in of_one]


@dataclass(frozen=True, eq=False)
class Shelf:
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

    def shelf(self) -> Shelf:
        """Raises AssetError if a file of results is damaged."""
        for folder in self._folders:
            if (stamp := _stamp(folder)) and (found := self._read(folder, stamp)).records:
                return found
        return self.own_shelf()

    def own_shelf(self) -> Shelf:
        """What this voice and its judges did themselves, which a run goes on from; maybe nothing."""
        stamp = _stamp(self._results)
        return self._read(self._results, stamp) if stamp else Shelf(self._results, self.spec.voice_id, True)

    def count(self, units: Sequence[Unit]) -> tuple[int, int]:
        """How many of `units` are stored, and how many there are, where units that mean the same work are one."""
        keys = {unit.key(self.spec.voice_id) for unit in units}
        return len(self.store.known(keys)), len(keys)

    def findings(self) -> Findings | None:
        """What they say, None if there are none."""
        shelf = self.shelf()
        return self._found(shelf) if shelf.records else None

    def findings_of(self, shelf: Shelf, records: Sequence[Record]) -> Findings | None:
        """The same of other `records` of that shelf's voice, as they come in a run."""
        return Findings.of(records, shelf.costs, self._mean_size if shelf.own else None) if records else None

    def report(self, out: Path, sound: Callable[[Unit], tuple[np.ndarray, int]] | None) -> Findings:
        """Write everything as the page `out` (`explorers.experiments.report.write_report`)."""
        shelf = self.shelf()
        if not shelf.records:
            raise PCGError(UNMEASURED)
        sizes = self._mean_size if shelf.own else None
        return write_report(shelf.folder, out, shelf.costs, sizes, sound, voice=shelf.voice)

    def time_steps(self) -> None:
        """Keep what single steps cost, for the bound on speed, where all results are of this machine."""
        shelf = self.shelf()
        here = context(self.spec.device, self.spec.threads, 1, {})
        drafting = {r.unit.settings.lookahead: r for r in shelf.records if r.result.drafted}
        if not shelf.own or drafting.keys() <= (shelf.costs or {}).keys() or not _same_machine(shelf.records, here):
            return
        costs = {lookahead: asdict(self._timed(record)) for lookahead, record in sorted(drafting.items())}
        machine = {name: here[name] for name in MACHINE}
        write_json(shelf.folder / COSTS, {"voice": shelf.voice, "machine": machine, "milliseconds": costs})

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

    def _read_now(self, folder: Path, _stamp: object) -> Shelf:
        records, voice = Store(folder).all(), self.spec.voice_id
        if folder != self._results and records and not any(r.context["voice"] == voice for r in records):
            voice = str(records[0].context["voice"])
        kept = tuple(record for record in records if record.context["voice"] == voice)
        return Shelf(folder, voice, voice == self.spec.voice_id, kept, _read_costs(folder, voice, kept))

    def _found_now(self, shelf: Shelf) -> Findings | None:
        return self.findings_of(shelf, shelf.records)


@dataclass(frozen=True, eq=False)
class Study:
    """How far a run has come. findings: what all stored results of this voice say, another object whenever there is news."""

    progress: Progress
    findings: Findings | None
    over: bool = False


def study(archive: Archive, units: Sequence[Unit], clock: Callable[[], float] = perf_counter) -> Iterator[Study]:
    """Do those of `units` that are not stored; tell how far that is after each, and what follows every few seconds.

    Closing the generator stops the work; finished units stay stored.
    """
    spec, shelf = archive.spec, archive.own_shelf()
    known, total = archive.count(units)
    records = list(shelf.records)
    state = Study(Progress(known, total, None), archive.findings())
    yield state
    due = clock()
    with closing(with_progress(run(units, spec, archive.store), total, known)) as steps:
        for record, progress in steps:
            records.append(record)
            state = replace(state, progress=progress)
            if clock() >= due:
                begun = clock()
                state = replace(state, findings=archive.findings_of(shelf, records))
                due = clock() + max(REDRAW_SECONDS, (clock() - begun) / DRAWING_SHARE)
            yield state
    archive.time_steps()
    yield Study(Progress(total, total, 0.0), archive.findings(), over=True)


@dataclass(frozen=True, eq=False)
class Heard:
    """A result to be listened to: `samples [N]` at `sample_rate`. same: whether it was said again token for token."""

    record: Record
    samples: np.ndarray
    sample_rate: int
    same: bool


@dataclass(frozen=True, eq=False)
class Pair:
    """An utterance in the condition that was asked for, and by AR with the same seed: None if that is the same, or missing."""

    chosen: Heard
    alone: Heard | None


def pairs(shelf: Shelf, name: str, first: int = 0, count: int = HEARD) -> list[tuple[Record, Record | None]]:
    """`count` records of the condition `name`, spread evenly over all of them from the `first` on, each with AR's."""
    if not shelf.records:
        raise PCGError(UNMEASURED)
    results = shelf.results
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


def hear(speaker: Speaker, chosen: Sequence[tuple[Record, Record | None]]) -> Iterator[Pair]:
    """Say each again, from settings and seed."""
    for record, alone in chosen:
        yield Pair(_again(speaker, record), _again(speaker, alone) if alone else None)


def made(findings: Findings) -> dict[str, str]:
    """Who judged, on what machine, and when: one line in parts."""
    told = {name: " and ".join(values) for name, values in findings.contexts.items()}
    judges = {name.removeprefix("judges: "): said for name, said in told.items() if name.startswith("judges: ")}
    workers = f"workers {told.get('workers', '?')}, threads of each {told.get('threads', '?')}"
    machine = ", ".join(part for part in (told.get("processor"), told.get("device"), workers) if part)
    # To the day; a span keeps both its ends.
    date = " to ".join(dict.fromkeys(part[:10] for part in " to ".join(findings.contexts.get("date", [])).split(" to ")))
    return judges | {"Machine": machine, "Model": told.get("model", "?"), "Date": date}


def record_of(findings: Findings | None, progress: Progress | None = None) -> dict[str, object]:
    """Ready for JSON: every table, how it was made, and how far a run is."""
    told: dict[str, object] = {"progress": progress and asdict(progress), "records": 0, "made": {}, "tables": []}
    if findings is None:
        return told
    tables = [table.as_dict() for table in findings.tables]
    return told | {"records": findings.records, "made": made(findings), "tables": tables}


def _check_yaml(file: Path) -> None:
    """Refuse what is large, deep, refers to itself, or multiplies to more units than a page should do."""
    if file.suffix.lower() not in GRID_KINDS:
        raise InputError("grid file", file.name, "a file with a name that ends in .yaml")
    if file.stat().st_size > MOST_BYTES:
        raise InputError("grid file", file.name, f"at most {MOST_BYTES // 1024} KiB")
    try:
        depth = 0
        # Events come one by one, so that nothing is built of what is refused.
        for event in yaml.parse(file.read_text(encoding="utf-8"), yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            _check_event(file.name, event, depth)
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (see line {mark.line + 1})" if mark else ""
        raise InputError("grid file", file.name, f"YAML in UTF-8{where}") from error
    if isinstance(values, dict) and (units := _most_units(values)) > MOST_UNITS:
        raise InputError("grid file", file.name, f"one of at most {MOST_UNITS:,} units, not {units:,}")


def _check_event(name: str, event: yaml.Event, depth: int) -> None:
    where = f"(see line {event.start_mark.line + 1})"
    if isinstance(event, yaml.AliasEvent):
        raise InputError("grid file", name, f"without aliases {where}")
    if depth > DEEPEST:
        raise InputError("grid file", name, f"at most {DEEPEST} levels deep {where}")
    if isinstance(event, yaml.ScalarEvent) and len(event.value) > MAX_CHARACTERS:
        raise InputError("grid file", name, f"of values of at most {MAX_CHARACTERS} characters {where}")


def _most_units(values: Mapping[str, object]) -> int:
    """As many as there can be; what is no list is left to `read_grid`."""
    lengths = {name: len(value) for name, value in values.items() if isinstance(value, list)}
    count = values.get("count")
    longest = sum(len(read_sentences(*parts)) for parts in SECTIONS.values()) if "sections" in lengths else 1
    said = lengths.get("texts", 0) + lengths.get("sections", 0) * (count if isinstance(count, int) else longest)
    return said * lengths.get("voices", 1) * lengths.get("seeds", 1) * lengths.get("conditions", 1)


def _shortened(sentence: str, ends: int = 160) -> str:
    return sentence if len(sentence) <= 2 * ends else f"{sentence[:ends]} … {sentence[-ends:]}"


def _stamp(folder: Path) -> object:
    """Another one whenever the results change; None without any."""
    files = [path.stat() for name in (FILE, COSTS) if (path := folder / name).is_file()]
    return tuple((stat.st_mtime_ns, stat.st_size) for stat in files) if (folder / FILE).is_file() else None


def _read_costs(folder: Path, voice: str, records: Sequence[Record]) -> dict[int, StepCosts] | None:
    """What `Archive.time_steps` kept, if it was for these records."""
    try:
        kept = json.loads((folder / COSTS).read_text(encoding="utf-8"))
        if kept["voice"] != voice or not _same_machine(records, kept["machine"]):
            return None
        return {int(lookahead): StepCosts(**costs) for lookahead, costs in kept["milliseconds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _same_machine(records: Sequence[Record], machine: Mapping[str, object]) -> bool:
    return all(record.context.get(name) == machine[name] for record in records for name in MACHINE)


def _said(record: Record) -> tuple[Utterance, int]:
    return replace(record.unit.utterance, section=""), record.unit.seed


def _again(speaker: Speaker, record: Record) -> Heard:
    sounding = speaker.sound(record.unit)
    return Heard(record, sounding.samples, sounding.sample_rate, sounding.tokens == record.result.tokens)
