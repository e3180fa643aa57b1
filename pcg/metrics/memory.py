"""A cache of judgements by the content of the sound and the name of judge or metric."""

import hashlib
import json
import sqlite3
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from pcg.files import SealedTable
from pcg.metrics.intelligibility import Judge
from pcg.metrics.recording import Metric, Sample, fingerprint
from pcg.places import CACHE

# Raise it when a measure changes and its name does not.
FORMAT = 1
_DAMAGED = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

V = TypeVar("V", float, str)
T = TypeVar("T")


class JudgementMemory:
    """Values by key in one file of `folder`, for any number of threads and processes.

    A file that is no database any more is begun anew, with a warning. Where nothing can be stored, nothing is remembered, and
    work goes on.
    """

    def __init__(self, folder: Path = CACHE) -> None:
        self._table = SealedTable(folder / f"judgements-{FORMAT}.sqlite", "judgements")

    def complete(self, keys: Sequence[str], make: Callable[[list[int]], Sequence[V]]) -> list[V]:
        """The values of `keys`, in their order. `make` gets the indices of those that are not remembered, each key once and
        all in one call, and returns their values, which are then remembered."""
        known: dict[str, V] = self._ask(lambda: self._table.find(keys)) or {}
        missing: dict[str, int] = {}
        for index, key in enumerate(keys):
            if key not in known:
                missing.setdefault(key, index)
        if missing:
            made = dict(zip(missing, make(list(missing.values())), strict=True))
            self._ask(lambda: self._table.add(made))
            known |= made
        return [known[key] for key in keys]

    def _ask(self, act: Callable[[], T]) -> T | None:
        """`act` on the table, on a new one if it is damaged; None where there can be none."""
        path = self._table.path
        try:
            try:
                return act()
            except sqlite3.DatabaseError as error:
                # The low byte is the kind of an error, the others are its details.
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                    raise
                warnings.warn(f"{path.name} in the cache is damaged ({error}); it is begun anew.", stacklevel=4)
            for file in path.parent.glob(f"{path.name}*"):  # SQLite's journals lie beside the file
                file.unlink(missing_ok=True)
            return act()
        except (sqlite3.Error, OSError) as error:
            warnings.warn(f"Judgements cannot be remembered in {path} ({error}).", stacklevel=4)
            return None


class RememberedMetric:
    """Any `Metric`, which measures only samples that `memory` does not know by their audio, text and reference."""

    def __init__(self, metric: Metric, memory: JudgementMemory) -> None:
        self.key, self.name = metric.key, metric.name
        self._metric, self._memory = metric, memory

    def measure(self, batch: Sequence[Sample]) -> list[float]:
        def make(missing: list[int]) -> list[float]:
            return [float(value) for value in self._metric.measure([batch[i] for i in missing])]

        return self._memory.complete([self._key(sample) for sample in batch], make)

    def _key(self, sample: Sample) -> str:
        reference = sample.reference.fingerprint if sample.reference else None
        return _key(self.key, self.name, sample.fingerprint, sample.text, reference)


class RememberedJudge:
    """Any `Judge`, which hears only recordings that `memory` does not know."""

    def __init__(self, judge: Judge, memory: JudgementMemory) -> None:
        self.name = judge.name
        self._judge, self._memory = judge, memory

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        def make(missing: list[int]) -> list[str]:
            return self._judge.transcribe([recordings[i] for i in missing], sample_rate)

        keys = [_key("transcript", self.name, fingerprint(r, sample_rate)) for r in recordings]
        return self._memory.complete(keys, make)


def _key(*parts: str | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
