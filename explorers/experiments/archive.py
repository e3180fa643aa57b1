"""The stored results that the Experiments panel may show: those shipped with the project, and those of own runs, apart.

Knows nothing of gradio.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path

import numpy as np

from explorers.experiments.report import Findings, write_report
from pcg.errors import InputError, PCGError
from pcg.experiments.results import Results
from pcg.experiments.store import FILE, PACKED, Store
from pcg.experiments.tables import MeanSize
from pcg.experiments.unit import Record, Unit
from pcg.experiments.worker import WorkerSpec
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import BFLOAT16, FLOAT32

SHIPPED, OWN = "shipped", "own"
SOURCES = {SHIPPED: "shipped with this project", OWN: "runs on this server"}
SHIPPED_JUDGES = "whisper,embedded"
NO_RESULTS = "There are no runs on this server yet. Choose an experiment and run it."


def shipped_ids(spec: WorkerSpec) -> frozenset[str]:
    """The identity of the page's voice and judge, and that of the same voice, in any precision, before the judges of the
    shipped results."""
    if not isinstance(spec, WorkerSpec):
        return frozenset((spec.voice_id,))
    judged = [replace(spec, judge=SHIPPED_JUDGES, precision=precision) for precision in (FLOAT32, BFLOAT16)]
    return frozenset(each.voice_id for each in (spec, *judged))


@dataclass(frozen=True, eq=False)
class ResultSet:
    """Results of one voice and its judges in `folder`. source: one of `SOURCES`. same_voice: whether voice and judges are the
    page's; those of shipped results may be others."""

    folder: Path
    source: str
    voice: str
    same_voice: bool
    records: tuple[Record, ...] = ()

    @cached_property
    def results(self) -> Results:
        return Results(self.records)


class Archive:
    """Results by their source: own runs, which the page and the command line keep in `results`, and those that are shipped, in
    `committed`, which nothing changes. What was read once is read again when its file changes."""

    def __init__(self, synthesizer: Synthesizer, spec: WorkerSpec, results: Path, committed: Path | None = None) -> None:
        self.spec, self.store, self._synthesizer = spec, Store(results), synthesizer
        self._folders = {OWN: results} if committed is None else {SHIPPED: committed, OWN: results}
        # For each source by itself: during a run the own results change all the time, and would push the others out.
        self._read = {source: lru_cache(1)(partial(self._read_now, source)) for source in self._folders}
        self._found = {source: lru_cache(1)(self._found_now) for source in self._folders}

    @property
    def sources(self) -> tuple[str, ...]:
        """Those of `SOURCES` that can be shown, the first of them at first; own runs may have nothing yet."""
        return tuple(source for source, folder in self._folders.items() if source == OWN or _stamp(folder))

    def result_set(self, source: str = "") -> ResultSet:
        """The results of `source`, by default of the first; maybe none. A run continues from the own ones, which are of this
        voice and its judges. Raises AssetError if a file of results is damaged."""
        source = source or self.sources[0]
        if source not in self.sources:
            raise InputError("source", source, "one of " + ", ".join(self.sources))
        stamp = _stamp(self._folders[source])
        if stamp is None:
            return ResultSet(self._folders[source], source, self.spec.voice_id, True)
        return self._read[source](stamp)

    def count(self, units: Sequence[Unit]) -> tuple[int, int]:
        """How many of `units` are stored, and how many there are, where units that mean the same work are one."""
        keys = {unit.key(self.spec.voice_id) for unit in units}
        return len(self.store.known(keys)), len(keys)

    def findings(self, source: str = "") -> Findings | None:
        """The findings of all results of `source`, None if there are none."""
        result_set = self.result_set(source)
        return self._found[result_set.source](result_set) if result_set.records else None

    def findings_of(self, result_set: ResultSet, records: Sequence[Record]) -> Findings | None:
        """The same of other `records` of that result_set's voice, as they come in a run."""
        if not records:
            return None
        return Findings.of(records, self._sizes(result_set))

    def report(self, out: Path, sound: Callable[[Unit], tuple[np.ndarray, int]] | None, source: str = "") -> Findings:
        """Write everything of `source` as the page `out` (`explorers.experiments.report.write_report`)."""
        result_set = self.result_set(source)
        if not result_set.records:
            raise PCGError(NO_RESULTS)
        return write_report(
            result_set.folder, out, self._sizes(result_set), sound, voice=result_set.voice
        )  # fmt: skip

    def _sizes(self, result_set: ResultSet) -> MeanSize | None:
        """Mean sizes of groups, which are known of this voice only."""
        if not result_set.same_voice:
            return None
        return lambda similarity, theta: self._synthesizer.library.neighbours(similarity).mean_size_at(theta)

    def _read_now(self, source: str, _stamp: object) -> ResultSet:
        folder, voice = self._folders[source], self.spec.voice_id
        records = Store(folder).all()
        if source == SHIPPED and records and not any(r.context["voice"] == voice for r in records):
            voice = str(records[0].context["voice"])
        kept = tuple(record for record in records if record.context["voice"] == voice)
        same = voice in (shipped_ids(self.spec) if source == SHIPPED else (self.spec.voice_id,))
        return ResultSet(folder, source, voice, same, kept)

    def _found_now(self, result_set: ResultSet) -> Findings | None:
        return self.findings_of(result_set, result_set.records)


def _stamp(folder: Path) -> object:
    """Another one whenever the results change; None without any."""
    if not any((folder / name).is_file() for name in (FILE, PACKED)):
        return None
    files = [path.stat() for name in (FILE, PACKED) if (path := folder / name).is_file()]
    return tuple((stat.st_mtime_ns, stat.st_size) for stat in files)
