"""A result that was stored is there, whole, for whoever asks for the same unit, whatever happens to the file."""

import lzma
import multiprocessing
import sqlite3
import tracemalloc
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from fake_worker import result_of, units_of

from pcg.errors import AssetError, InputError
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
    filled(tmp_path, UNITS[:3])
    store = Store(tmp_path)
    keys = [unit.key("v") for unit in UNITS]
    assert store.known(keys) == set(keys[:3])
    assert store.known([UNITS[0].key("w")]) == set()
    assert store.records(UNITS[::-1], "v") == [record(unit) for unit in UNITS[2::-1]]
    assert store.records(UNITS, "w") == []
    assert store.all() == [record(unit) for unit in UNITS[:3]]


def test_an_empty_store_holds_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = Store(tmp_path / "new" / "folder")
        assert store.known(["a"]) == set()
        assert store.all() == store.records(UNITS, "v") == []
        assert store.notice == ""


def test_packed_results_are_found_as_before_and_later_ones_go_before(tmp_path: Path) -> None:
    packed = filled(tmp_path, UNITS[:3]).pack()
    assert not (tmp_path / FILE).exists()
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


def test_packed_results_of_any_size_are_refused_before_they_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / PACKED).write_bytes(lzma.compress(bytes(2 * 10**7)))
    monkeypatch.setattr("pcg.experiments.store.LARGEST_UNPACKED", 20_000)
    tracemalloc.start()
    with pytest.raises(AssetError, match="unpacks to more than 20,000 bytes"):
        Store(tmp_path).all()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10**7
    with pytest.raises(InputError, match="at most 20,000 bytes"):
        filled(tmp_path / "many", units_of(20)).pack()
    assert len(Store(tmp_path / "many").all()) == len(units_of(20))


@pytest.mark.parametrize(
    "content", ["1", "[1]", '["key", {}]', '["key", 5]', '["key", {"unit": {}, "result": {}, "context": {}}]']
)
def test_packed_json_of_another_kind_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / PACKED).write_bytes(lzma.compress(content.encode()))
    with pytest.raises(AssetError) as caught:
        Store(tmp_path).all()
    assert "\n" not in str(caught.value)


def test_a_damaged_row_counts_as_not_done(tmp_path: Path) -> None:
    store, keys = filled(tmp_path), [unit.key("v") for unit in UNITS]
    results = sqlite3.connect(tmp_path / FILE)
    (table,) = results.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()
    (value,) = results.execute(f"SELECT value FROM {table} WHERE key = ?", (keys[1],)).fetchone()
    swapped = {keys[0]: "text", keys[1]: value.replace(b"so", b"no"), keys[2]: value}
    for key, damaged in swapped.items():
        results.execute(f"UPDATE {table} SET value = ? WHERE key = ?", (damaged, key))
    results.commit()
    results.close()
    with pytest.warns(UserWarning, match="counts as not there"):
        assert store.known(keys) == set(keys[3:])
    with pytest.warns(UserWarning, match="counts as not there"):
        assert store.all() == [record(unit) for unit in UNITS[3:]]
    store.add(keys[0], record(UNITS[0]))
    with pytest.warns(UserWarning, match="counts as not there"):
        assert store.records(UNITS, "v") == [record(unit) for unit in (UNITS[0], *UNITS[3:])]


@pytest.mark.parametrize("emptied", ["no byte", "no table"])
def test_a_file_that_was_emptied_is_told_of_until_it_holds_results(tmp_path: Path, emptied: str) -> None:
    path = tmp_path / FILE
    if emptied == "no byte":
        path.touch()
    else:
        filled(tmp_path)
        with sqlite3.connect(path) as results:
            (table,) = results.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()
            results.execute(f"DROP TABLE {table}")
    before = path.read_bytes()
    for act in (lambda s: s.known(["a"]), lambda s: s.all(), lambda s: s.records(UNITS, "v")):
        with pytest.warns(UserWarning, match=r"results\.sqlite is empty, or of another version: nothing in it counts"):
            assert not act(Store(tmp_path))
        assert "is empty" in Store(tmp_path).notice
    assert path.read_bytes() == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = filled(tmp_path, UNITS[:1])
        assert store.all() == [record(UNITS[0])]
        assert store.notice == ""


@pytest.mark.parametrize("content", [b"no database" * 99, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    for act in (lambda s: s.known(["a"]), lambda s: s.all(), lambda s: s.add("a", record(UNITS[0]))):
        with pytest.raises(AssetError, match=r"results\.sqlite cannot be read or written"):
            act(Store(tmp_path))
    assert (tmp_path / FILE).read_bytes() == content


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
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
