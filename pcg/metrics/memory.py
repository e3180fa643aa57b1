"""What was judged once is not judged again: numbers and transcripts by the content of what was heard.

The names of judges and metrics are part of what is looked up, so a new version starts with nothing.
"""

import hashlib
import json
import sqlite3
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np

from pcg.files import CACHE
from pcg.metrics.intelligibility import Judge
from pcg.metrics.metric import Metric, Sample
from pcg.metrics.recording import fingerprint

# Raise it when a measure changes and its name does not.
FORMAT = 1
PATIENCE_SECONDS = 30.0
_DIGEST_BYTES = 16
_DAMAGED = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

Value = float | str
V = TypeVar("V", float, str)
T = TypeVar("T")


class Memory:
    """Values by key in one SQLite file of `folder`, for any number of threads and processes.

    Each value is stored with a digest of itself and its key: one that does not fit is forgotten, a file that is no database
    any more is begun anew, both with a warning. Where nothing can be stored, nothing is remembered, and work goes on.
    """

    def __init__(self, folder: Path = CACHE) -> None:
        self._path = folder / f"judgements-{FORMAT}.sqlite"

    def complete(self, keys: Sequence[str], make: Callable[[list[int]], Sequence[V]]) -> list[V]:
        """The values of `keys`, in their order. `make` gets the indices of those that are not remembered, each key once and
        all in one call, and returns their values, which are then remembered."""
        known = self._ask(lambda store: _read(store, keys), {})
        missing: dict[str, int] = {}
        for index, key in enumerate(keys):
            if key not in known:
                missing.setdefault(key, index)
        if missing:
            made = dict(zip(missing, make(list(missing.values())), strict=True))
            self._ask(lambda store: _write(store, made), None)
            known |= made
        return [known[key] for key in keys]

    def _ask(self, act: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """`act` on the store, on a new one if it is damaged; `otherwise` where there can be none."""
        try:
            return self._try(act)
        except sqlite3.DatabaseError as error:
            # The low byte is the kind of an error, the others are its details.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                return self._do_without(error, otherwise)
            warnings.warn(f"{self._path.name} in the cache is damaged ({error}); it is begun anew.", stacklevel=4)
        except OSError as error:
            return self._do_without(error, otherwise)
        try:
            for path in self._path.parent.glob(f"{self._path.name}*"):  # SQLite's journals lie beside the file
                path.unlink(missing_ok=True)
            return self._try(act)
        except (sqlite3.DatabaseError, OSError) as error:
            return self._do_without(error, otherwise)

    def _try(self, act: Callable[[sqlite3.Connection], T]) -> T:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._path, timeout=PATIENCE_SECONDS)) as store, store:
            store.execute("CREATE TABLE IF NOT EXISTS judgements (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
            return act(store)

    def _do_without(self, error: Exception, otherwise: T) -> T:
        warnings.warn(f"Judgements cannot be remembered in {self._path} ({error}).", stacklevel=5)
        return otherwise


class RememberedMetric:
    """Any `Metric`, which measures only samples that `memory` does not know by their audio, text and reference."""

    def __init__(self, metric: Metric, memory: Memory) -> None:
        self.key, self.name, self.higher_is_better = metric.key, metric.name, metric.higher_is_better
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

    def __init__(self, judge: Judge, memory: Memory) -> None:
        self.name = judge.name
        self._judge, self._memory = judge, memory

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        def make(missing: list[int]) -> list[str]:
            return self._judge.transcribe([recordings[i] for i in missing], sample_rate)

        keys = [_key("transcript", self.name, fingerprint(r, sample_rate)) for r in recordings]
        return self._memory.complete(keys, make)


def _key(*parts: str | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read(store: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for key in dict.fromkeys(keys):
        row = store.execute("SELECT value FROM judgements WHERE key = ?", (key,)).fetchone()
        if row is None:
            continue
        if not isinstance(row[0], bytes) or row[0] != _sealed(key, row[0][_DIGEST_BYTES:]):
            warnings.warn("A judgement in the cache is damaged; it is made again.", stacklevel=5)
            continue
        found[key] = json.loads(row[0][_DIGEST_BYTES:])
    return found


def _write(store: sqlite3.Connection, values: Mapping[str, Value]) -> None:
    rows = [(key, _sealed(key, json.dumps(value).encode())) for key, value in values.items()]
    store.executemany("INSERT OR REPLACE INTO judgements VALUES (?, ?)", rows)


def _sealed(key: str, value: bytes) -> bytes:
    return hashlib.sha256(key.encode() + value).digest()[:_DIGEST_BYTES] + value
