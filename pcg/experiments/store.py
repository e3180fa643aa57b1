"""Results on disk: one SQLite file that many runs fill, each record by itself, and that no kill can damage; and a packed file,
a twentieth of its size, in which results are published."""

import hashlib
import json
import lzma
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pcg.errors import AssetError, first_line
from pcg.experiments.unit import FORMAT, Record, Result, Unit
from pcg.files import replacing

FILE, PACKED = "results.sqlite", "results.jsonl.xz"
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
        self._path, self._packed_path = folder / FILE, folder / PACKED

    @property
    def exists(self) -> bool:
        return self._path.is_file() or self._packed_path.is_file()

    def known(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` that have a record."""
        wanted = set(keys)
        return wanted & self._packed.keys() | self._read(lambda found: {key for key in wanted if _find(found, key)}, set())

    def add(self, key: str, record: Record) -> None:
        """Keep `record`; it takes the place of an earlier one."""
        row = (key, _sealed(key, json.dumps(_value(record)).encode()))
        self._ask(lambda results: results.execute(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?)", row))

    def records(self, units: Sequence[Unit], voice: str) -> list[Record]:
        """The records of those of `units` that were done, in their order, each with the unit that was asked for: the record may
        have been made for another grid, where the condition had another name."""
        keys = [unit.key(voice) for unit in units]
        later = self._read(lambda results: {key: _find(results, key) for key in dict.fromkeys(keys)}, {})
        values = [later.get(key) or self._packed.get(key) for key in keys]
        return [_record(value, unit) for unit, value in zip(units, values, strict=True) if value]

    def all(self) -> list[Record]:
        """Every record, of whatever voice, the packed ones first, in the order of storing."""
        return [_record(value, Unit.from_dict(value["unit"])) for value in self._everything().values()]

    def pack(self) -> Path:
        """Write every record into the packed file, and remove the SQLite file."""
        lines = "".join(json.dumps(pair, separators=(",", ":")) + "\n" for pair in self._everything().items())
        with replacing(self._packed_path) as temporary:
            temporary.write_bytes(lzma.compress(lines.encode()))
        self._path.unlink(missing_ok=True)
        return self._packed_path

    def _everything(self) -> dict[str, dict[str, dict]]:
        query = f"SELECT key, value FROM {_TABLE} ORDER BY rowid"
        return self._packed | self._read(lambda results: dict(_whole(results.execute(query))), {})

    @cached_property
    def _packed(self) -> dict[str, dict[str, dict]]:
        if not self._packed_path.is_file():
            return {}
        try:
            lines = lzma.decompress(self._packed_path.read_bytes()).decode().splitlines()
            return dict(json.loads(line) for line in lines)
        except (OSError, lzma.LZMAError, ValueError) as error:
            raise AssetError(f"The results in {self._packed_path} are damaged ({first_line(error)}).") from error

    def _read(self, act: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        """`act` on the SQLite file; `nothing` where there is none, which reading does not make."""
        return self._ask(act) if self._path.exists() or self._path.parent.is_file() else nothing

    def _ask(self, act: Callable[[sqlite3.Connection], T]) -> T:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=PATIENCE_SECONDS)) as results, results:
                results.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE} (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
                return act(results)
        except (sqlite3.Error, OSError) as error:
            raise AssetError(f"The results in {self._path} cannot be read or written ({error}).") from error


def _find(results: sqlite3.Connection, key: str) -> dict[str, dict] | None:
    found = _whole(results.execute(f"SELECT key, value FROM {_TABLE} WHERE key = ?", (key,)))
    return next((value for _, value in found), None)


def _whole(rows: Iterable[tuple[object, object]]) -> Iterator[tuple[str, dict[str, dict]]]:
    """Keys and values of the rows whose digest fits."""
    for key, value in rows:
        if isinstance(key, str) and isinstance(value, bytes) and value == _sealed(key, value[_DIGEST_BYTES:]):
            yield key, json.loads(value[_DIGEST_BYTES:])
        else:
            warnings.warn("A stored result is damaged; it counts as not done.", stacklevel=5)


def _sealed(key: str, value: bytes) -> bytes:
    return hashlib.sha256(key.encode() + value).digest()[:_DIGEST_BYTES] + value


def _value(record: Record) -> dict[str, object]:
    return {"unit": record.unit.as_dict(), "result": record.result.as_dict(), "context": record.context}


def _record(value: dict[str, dict], unit: Unit) -> Record:
    return Record(unit, Result.from_dict(value["result"]), value["context"])
