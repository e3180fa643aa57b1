"""Results on disk: one SQLite file that many runs fill, each record by itself, and that no kill can damage; and a packed file,
a twentieth of its size, in which results are published."""

import json
import lzma
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pcg.errors import AssetError, InputError, first_line
from pcg.experiments.unit import FORMAT, Record, Unit
from pcg.files import SealedTable, check_checksums, replacing, write_checksums

FILE, PACKED = "results.sqlite", "results.jsonl.xz"
# Unpacked, and of the unpacker: packed results may come from anyone, and a small file can unpack to any size.
LARGEST_UNPACKED, MOST_MEMORY = 2**30, 2**26

T = TypeVar("T")


class Store:
    """Records by `Unit.key(voice)` in `folder`, for any number of threads and processes.

    A record is there, whole and for good, once `add` returns; one that is damaged counts as not done, with a warning. A file
    that is no database any more raises AssetError and is left alone, for results cost hours; one that was emptied holds
    nothing, and `notice` and a warning tell. Records of another `FORMAT` stay in the file, unseen.
    """

    def __init__(self, folder: Path) -> None:
        self._table, self._packed_path = SealedTable(folder / FILE, f"records_{FORMAT}"), folder / PACKED

    @property
    def exists(self) -> bool:
        return self._table.path.is_file() or self._packed_path.is_file()

    @property
    def notice(self) -> str:
        """One sentence where there is a file of results, but nothing of this version in it; else nothing."""
        return self._ask(lambda: self._table.notice)

    def known(self, keys: Iterable[str]) -> set[str]:
        """Return the keys that have a record."""
        wanted = set(keys)
        return wanted & self._packed.keys() | set(self._ask(lambda: self._table.find(wanted)))

    def add(self, key: str, record: Record) -> None:
        """Keep `record`; it takes the place of an earlier one."""
        self._ask(lambda: self._table.add({key: record.as_dict()}))

    def records(self, units: Sequence[Unit], voice: str) -> list[Record]:
        """Return the records of the units that were done, in their order, each with the unit that was asked for.

        Another grid may have stored the record, where the condition had another name.
        """
        keys = [unit.key(voice) for unit in units]
        later = self._ask(lambda: self._table.find(keys))
        values = [later.get(key) or self._packed.get(key) for key in keys]
        return [_record(value, unit) for unit, value in zip(units, values, strict=True) if value]

    def all(self) -> list[Record]:
        """Return every record of every voice, the packed ones first, in the order of storing."""
        return [_record(value) for value in self._everything().values()]

    def pack(self) -> Path:
        """Write every record into the packed file, remove the SQLite file, and list what lies there now with its checksums.

        No run may add records meanwhile: they would be removed unread. Raises InputError if there are too many to be read
        again.
        """
        lines = "".join(json.dumps(pair, separators=(",", ":")) + "\n" for pair in self._everything().items()).encode()
        if len(lines) > LARGEST_UNPACKED:
            raise InputError("results", f"{len(lines):,} bytes", f"at most {LARGEST_UNPACKED:,} bytes to be packed")
        with replacing(self._packed_path) as temporary:
            temporary.write_bytes(lzma.compress(lines))
        self._table.path.unlink(missing_ok=True)
        write_checksums(self._packed_path.parent)
        return self._packed_path

    def _everything(self) -> dict[str, dict[str, dict]]:
        return self._packed | self._ask(self._table.all)

    @cached_property
    def _packed(self) -> dict[str, dict[str, dict]]:
        check_checksums(self._packed_path.parent)
        if not self._packed_path.is_file():
            return {}
        try:
            return dict(json.loads(line) for line in _unpacked(self._packed_path.read_bytes()).decode().splitlines())
        except (OSError, lzma.LZMAError, ValueError, TypeError) as error:
            raise AssetError(f"The results in {self._packed_path} are damaged ({first_line(error)}).") from error

    def _ask(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except (sqlite3.Error, OSError) as error:
            raise AssetError(f"The results in {self._table.path} cannot be read or written ({error}).") from error


def _unpacked(packed: bytes) -> bytes:
    """Unpack an xz file; raise LZMAError or ValueError if it is damaged, or larger than `pack` makes it."""
    unpacker = lzma.LZMADecompressor(memlimit=MOST_MEMORY)
    content = unpacker.decompress(packed, LARGEST_UNPACKED + 1)
    if len(content) > LARGEST_UNPACKED:
        raise ValueError(f"it unpacks to more than {LARGEST_UNPACKED:,} bytes")
    if not unpacker.eof:
        raise ValueError("its end is missing")
    return content


def _record(value: object, unit: Unit | None = None) -> Record:
    """Build the record of `unit`, by default of the one that is stored with it."""
    try:
        record = Record.from_dict(value)
    except (ValueError, InputError) as error:
        raise AssetError(f"The results hold something that is no record ({first_line(error)}).") from error
    return replace(record, unit=unit) if unit else record
