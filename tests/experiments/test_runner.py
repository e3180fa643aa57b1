"""Runs resume, share their work, and lose nothing, however they end."""

import multiprocessing
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fake_worker import AR, FakeSpec, result_of, units_of

from pcg.errors import PCGError
from pcg.experiments.runner import missing, run
from pcg.experiments.store import Store
from pcg.experiments.unit import Unit

UNITS = units_of(5, 2)


def spec(folder: Path, **options: object) -> FakeSpec:
    return FakeSpec(folder / "log", **options)


def results(store: Store, units: list[Unit] = UNITS) -> list[object]:
    return [r.result for r in store.records(units, "fake")]


@pytest.mark.parametrize("processes", [1, 2])
def test_every_unit_is_done_once_and_stored_before_it_is_told(tmp_path: Path, processes: int) -> None:
    store, fake = Store(tmp_path), spec(tmp_path)
    told = []
    for record in run(UNITS, fake, store, processes):
        assert store.records([record.unit], "fake") == [record]
        told.append(record)
    assert Counter(fake.begun()) == Counter(unit.key("fake") for unit in UNITS)
    assert {r.unit for r in told} == set(UNITS)
    assert results(store) == [result_of(unit) for unit in UNITS]
    assert {r.context["workers"] for r in told} == {processes} == {len(fake.workers())}
    places = {(r.unit.utterance, r.unit.seed, r.context["pid"]) for r in told}
    assert len(places) == len(UNITS) / 3  # the conditions of an utterance and a seed stay together
    assert (os.getpid() in {pid for *_, pid in places}) == (processes == 1)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_was_closed_goes_on_where_it_stopped(tmp_path: Path, processes: int) -> None:
    store, fake = Store(tmp_path), spec(tmp_path, seconds=0.005)
    stopped = run(UNITS, fake, store, processes)
    for _ in range(7):
        next(stopped)
    begun = time.perf_counter()
    stopped.close()
    assert time.perf_counter() - begun < 5
    assert multiprocessing.active_children() == []
    done = len(store.records(UNITS, "fake"))
    assert done == 7
    assert len(list(run(UNITS, fake, store, processes))) == len(UNITS) - done
    assert results(store) == [result_of(unit) for unit in UNITS]


def test_with_nothing_to_do_nothing_is_loaded(tmp_path: Path) -> None:
    class Unloadable(FakeSpec):
        def load(self) -> None:
            raise AssertionError

    store = Store(tmp_path)
    list(run(UNITS[:3], spec(tmp_path), store))
    assert list(run(UNITS[:3], Unloadable(tmp_path / "log"), store, 2)) == []
    with pytest.raises(AssertionError):
        list(run(UNITS, Unloadable(tmp_path / "log"), store))


def test_two_names_of_one_condition_are_one_unit_of_work(tmp_path: Path) -> None:
    store, fake = Store(tmp_path), spec(tmp_path)
    renamed = replace(UNITS[0], condition=replace(AR, name="baseline"))
    assert missing([UNITS[0], renamed], fake, store) == [UNITS[0]]
    assert len(list(run([UNITS[0], renamed], fake, store))) == 1
    assert [r.unit.condition.name for r in store.records([UNITS[0], renamed], "fake")] == ["AR", "baseline"]


def test_the_worker_that_died_is_told_of_in_one_sentence(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(PCGError, match="voice is 'one', but must be one of the known"):
        list(run(UNITS[-6:], spec(tmp_path, refuses="sentence 4"), Store(tmp_path / "refused"), 2))
    with pytest.raises(PCGError, match=r"A worker died \(exit code -9\)") as error:
        list(run(UNITS, spec(tmp_path, dies_at="sentence 3"), store, 2))
    assert "\n" not in str(error.value)
    assert multiprocessing.active_children() == []
    done = store.records(UNITS, "fake")
    assert [r.result for r in done] == [result_of(r.unit) for r in done]
    assert len(done) >= 6
    list(run(UNITS, spec(tmp_path), store, 2))
    assert results(store) == [result_of(unit) for unit in UNITS]


def test_an_error_that_nobody_foresaw_crosses_as_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PCGError, match=r"^Unexpected ZeroDivisionError; see reference [0-9a-f]{8} in \S+errors\.log\.$"):
        list(run(UNITS, spec(tmp_path, breaks="sentence 4"), Store(tmp_path), 2))
    log = (tmp_path / "errors.log").read_text()
    assert 1 <= log.count("Traceback") == log.count("    raise ZeroDivisionError")  # not those that the parent ended
