"""Results on disk: an SQLite file while runs fill it, and the parquet file in which they are published."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pcg.errors import AssetError, InputError, first_line
from pcg.experiments.unit import FORMAT, Record, Unit
from pcg.files import check_checksums, replacing, write_checksums

FILE, PACKED = "results.sqlite", "units.parquet"
TABLE = f"units_{FORMAT}"
PATIENCE_SECONDS = 30.0

T = TypeVar("T")


class Store:
    """Records by `Unit.key(voice)` in `folder`, for any number of threads and processes.

    A record is there, whole and for good, once `add` returns. A file that cannot be read raises AssetError and is left alone.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._packed_path = folder / FILE, folder / PACKED

    @property
    def exists(self) -> bool:
        return self._path.is_file() or self._packed_path.is_file()

    def known(self, keys: Iterable[str]) -> set[str]:
        """Return the keys that have a record."""
        return set(keys) & self._everything().keys()

    def add(self, key: str, record: Record) -> None:
        """Keep `record`; it takes the place of an earlier one."""
        value = json.dumps(record.as_dict())
        self._ask(lambda table: table.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?)", (key, value)))  # nosec B608

    def records(self, units: Sequence[Unit], voice: str) -> list[Record]:
        """Return the records of the units that were done, in their order, each with the unit that was asked for."""
        stored = self._everything()
        pairs = [(stored.get(unit.key(voice)), unit) for unit in units]
        return [replace(_record(value), unit=unit) for value, unit in pairs if value]

    def all(self) -> list[Record]:
        """Return every record of every voice, the packed ones first, in the order of storing."""
        return [_record(value) for value in self._everything().values()]

    def pack(self) -> Path:
        """Write every record into the parquet file, remove the SQLite file, and list what lies there now with its checksums. No
        run may add records meanwhile. A row is a unit: its `key`, the structs `unit` and `result`, and `context` as JSON."""
        import pyarrow as pa
        from pyarrow import parquet

        rows = [{"key": key} | value | {"context": json.dumps(value["context"])} for key, value in self._everything().items()]
        with replacing(self._packed_path) as temporary:
            parquet.write_table(pa.Table.from_pylist(rows), temporary, compression="zstd", compression_level=19)
        self._path.unlink(missing_ok=True)
        write_checksums(self._packed_path.parent)
        return self._packed_path

    def _everything(self) -> dict[str, dict[str, dict]]:
        if not self._path.is_file() and not self._path.parent.is_file():
            return self._packed
        query = f"SELECT key, value FROM {TABLE} ORDER BY rowid"  # nosec B608
        return self._packed | self._ask(lambda table: {key: json.loads(value) for key, value in table.execute(query)})

    @cached_property
    def _packed(self) -> dict[str, dict[str, dict]]:
        check_checksums(self._packed_path.parent)
        if not self._packed_path.is_file():
            return {}
        from pyarrow import parquet

        try:
            rows = parquet.read_table(self._packed_path).to_pylist()
            return {row.pop("key"): row | {"context": json.loads(row["context"])} for row in rows}
        except (OSError, ValueError, TypeError, KeyError) as error:  # what pyarrow raises is a ValueError
            raise AssetError(f"The results in {self._packed_path} are damaged ({first_line(error)}).") from error

    def _ask(self, act: Callable[[sqlite3.Connection], T]) -> T:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=PATIENCE_SECONDS)) as table, table:
                table.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
                return act(table)
        except (sqlite3.Error, OSError, ValueError) as error:
            raise AssetError(f"The results in {self._path} cannot be read or written ({error}).") from error


def _record(value: object) -> Record:
    try:
        return Record.from_dict(value)
    except (ValueError, InputError) as error:
        raise AssetError(f"The results hold something that is no record ({first_line(error)}).") from error
