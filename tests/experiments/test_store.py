"""A result that was stored is there, whole, for whoever asks for the same unit, whatever happens to the file."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from fake_worker import result_of, units_of
from pyarrow import parquet

from pcg.errors import AssetError
from pcg.experiments.store import FILE, PACKED, Store
from pcg.experiments.unit import Record, Unit
from pcg.files import LIST

UNITS = units_of(4)


def record(unit: Unit) -> Record:
    return Record(unit, result_of(unit), {"workers": 1, "judges": {"WER": "parrot"}})


def filled(folder: Path, units: list[Unit] = UNITS) -> Store:
    store = Store(folder)
    for unit in units:
        store.add(unit.key("v"), record(unit))
    return store


def test_what_was_added_is_found_by_any_other_store(tmp_path: Path) -> None:
    assert Store(tmp_path / "new").all() == Store(tmp_path / "new").records(UNITS, "v") == []
    filled(tmp_path, UNITS[:3])
    store = Store(tmp_path)
    keys = [unit.key("v") for unit in UNITS]
    assert store.known(keys) == set(keys[:3])
    assert store.known([UNITS[0].key("w")]) == set()
    assert store.records(UNITS[::-1], "v") == [record(unit) for unit in UNITS[2::-1]]
    assert store.records(UNITS, "w") == []
    assert store.all() == [record(unit) for unit in UNITS[:3]]


def test_packed_results_are_found_as_before_and_later_ones_go_before(tmp_path: Path) -> None:
    packed = filled(tmp_path, UNITS[:3]).pack()
    assert not (tmp_path / FILE).exists()
    table = pd.read_parquet(packed)  # as any viewer of data
    assert [row["utterance"]["text"] for row in table["unit"]] == [unit.utterance.text for unit in UNITS[:3]]
    assert [row["rounds"] for row in table["result"]] == [result_of(unit).rounds for unit in UNITS[:3]]
    store = Store(tmp_path)
    assert store.all() == store.records(UNITS, "v") == [record(unit) for unit in UNITS[:3]]
    assert not (tmp_path / FILE).exists()  # reading makes no file
    later = replace(record(UNITS[0]), context={"workers": 2})
    store.add(UNITS[0].key("v"), later)
    store.add(UNITS[3].key("v"), record(UNITS[3]))
    assert store.known(unit.key("v") for unit in UNITS) == {unit.key("v") for unit in UNITS[:4]}
    assert store.all() == [later, *(record(unit) for unit in UNITS[1:4])]
    packed.write_bytes(packed.read_bytes()[:-20])
    for _ in range(2):
        with pytest.raises(AssetError, match="damaged"):
            Store(tmp_path).all()
        (tmp_path / LIST).unlink(missing_ok=True)


def test_packed_results_that_were_listed_are_missed_and_later_ones_may_lie_beside_them(tmp_path: Path) -> None:
    packed = filled(tmp_path, UNITS[:3]).pack()
    assert [line.split("  ")[1] for line in (tmp_path / LIST).read_text().splitlines()] == [packed.name]
    filled(tmp_path, UNITS[3:])
    assert len(Store(tmp_path).all()) == len(UNITS)
    packed.unlink()
    with pytest.raises(AssetError, match=rf"{packed.name} is missing"):
        Store(tmp_path).known(["a"])


def test_packed_results_of_another_kind_are_one_sentence(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"key": ["a"], "context": ["{}"], "unit": [1]}), tmp_path / PACKED)
    with pytest.raises(AssetError, match="no record"):
        Store(tmp_path).all()
    (tmp_path / PACKED).write_bytes(b"no parquet")
    with pytest.raises(AssetError, match="are damaged"):
        Store(tmp_path).all()


@pytest.mark.parametrize("content", [b"no database" * 99, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    for act in (lambda s: s.known(["a"]), lambda s: s.all(), lambda s: s.add("a", record(UNITS[0]))):
        with pytest.raises(AssetError, match=r"results\.sqlite cannot be read or written"):
            act(Store(tmp_path))
    assert (tmp_path / FILE).read_bytes() == content
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(AssetError, match="cannot be read or written"):
        Store(tmp_path / "file").known(["a"])


def _fill(folder: Path, seed: int) -> None:
    store = Store(folder)
    for unit in units_of(15, seed + 1):
        if unit.seed == seed:
            store.add(unit.key("v"), record(unit))


def test_two_processes_fill_one_store(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_fill, [tmp_path] * 2, range(2)))
    units = units_of(15, 2)
    assert Store(tmp_path).records(units, "v") == [record(unit) for unit in units]
    assert len(Store(tmp_path).all()) == len(units)
