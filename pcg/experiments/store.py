"""Results on disk: one SQLite file that many runs fill, each record by itself, and that no kill can damage."""

import hashlib
import json
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from pcg.errors import AssetError
from pcg.experiments.unit import FORMAT, Record, Result, Unit

FILE = "results.sqlite"
PATIENCE_SECONDS = 30.0
_TABLE = f"records_{FORMAT}"
_DIGEST_BYTES = 16

T = TypeVar("T")


class Store:
    """Records by `Unit.key(voice)` in `folder`, for any number of threads and processes.

    A record is there, whole and for good, once `add` returns. Each is stored with a digest of itself and its key: one that
    does not fit counts as not done, with a warning. A file that is no database any more raises AssetError and is left alone,
    for results cost hours. Records of another `FORMAT` stay in the file, unseen.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def known(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` that have a record."""
        return self._ask(lambda results: {key for key in keys if _find(results, key)})

    def add(self, key: str, record: Record) -> None:
        """Keep `record`; it takes the place of an earlier one."""
        value = {"unit": record.unit.as_dict(), "result": record.result.as_dict(), "context": record.context}
        row = (key, _sealed(key, json.dumps(value).encode()))
        self._ask(lambda results: results.execute(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?)", row))

    def records(self, units: Sequence[Unit], voice: str) -> list[Record]:
        """The records of those of `units` that were done, in their order, each with the unit that was asked for: the record may
        have been made for another grid, where the condition had another name."""
        keys = [unit.key(voice) for unit in units]
        found = self._ask(lambda results: {key: _find(results, key) for key in dict.fromkeys(keys)})
        return [_record(value, unit) for unit, key in zip(units, keys, strict=True) if (value := found[key])]

    def all(self) -> list[Record]:
        """Every record, of whatever voice, in the order of storing."""
        found = self._ask(lambda results: list(_whole(results.execute(f"SELECT key, value FROM {_TABLE} ORDER BY rowid"))))
        return [_record(value, Unit.from_dict(value["unit"])) for value in found]

    def _ask(self, act: Callable[[sqlite3.Connection], T]) -> T:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=PATIENCE_SECONDS)) as results, results:
                results.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE} (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
                return act(results)
        except (sqlite3.Error, OSError) as error:
            raise AssetError(f"The results in {self._path} cannot be read or written ({error}).") from error


def _find(results: sqlite3.Connection, key: str) -> dict[str, dict] | None:
    return next(_whole(results.execute(f"SELECT key, value FROM {_TABLE} WHERE key = ?", (key,))), None)


def _whole(rows: Iterable[tuple[object, object]]) -> Iterator[dict[str, dict]]:
    """The values of the rows whose digest fits."""
    for key, value in rows:
        if isinstance(key, str) and isinstance(value, bytes) and value == _sealed(key, value[_DIGEST_BYTES:]):
            yield json.loads(value[_DIGEST_BYTES:])
        else:
            warnings.warn("A stored result is damaged; it counts as not done.", stacklevel=5)


def _sealed(key: str, value: bytes) -> bytes:
    return hashlib.sha256(key.encode() + value).digest()[:_DIGEST_BYTES] + value


def _record(value: dict[str, dict], unit: Unit) -> Record:
    return Record(unit, Result.from_dict(value["result"]), value["context"])
