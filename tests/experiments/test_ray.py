"""Ray actors do what one process does. Skipped where Ray is not installed, but for the sentence that says so."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_worker import FakeSpec, result_of, units_of

from pcg.errors import InputError, PCGError
from pcg.experiments.runner import run
from pcg.experiments.store import Store
from pcg.places import PROJECT

UNITS = units_of(4, 2)


def test_without_ray_one_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PCGError, match=r"pip install -r requirements-cluster\.txt"):
        next(run(UNITS, FakeSpec(tmp_path / "log"), Store(tmp_path), ray=True))


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    paths = os.pathsep.join([str(PROJECT), str(Path(__file__).parent)])
    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
    )
    yield
    ray.shutdown()


def test_actors_do_every_unit_once_and_resume(cluster: None, tmp_path: Path) -> None:
    store, fake = Store(tmp_path), FakeSpec(tmp_path / "log", seconds=0.01)
    stopped = run(UNITS, fake, store, 2, ray=True)
    first = next(stopped)
    assert store.records([first.unit], "fake") == [first]
    stopped.close()
    before = len(store.all())
    assert 1 <= before < len(UNITS)
    records = list(run(UNITS, fake, store, 2, ray=True))
    assert len(records) == len(UNITS) - before
    assert {r.context["workers"] for r in records} == {2}
    assert [r.result for r in store.records(UNITS, "fake")] == [result_of(unit) for unit in UNITS]
    assert os.getpid() not in fake.workers()


def test_more_actors_than_there_is_room_for_are_refused(cluster: None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at most 2"):
        next(run(UNITS, FakeSpec(tmp_path / "log"), Store(tmp_path), 3, ray=True))
    with pytest.raises(InputError, match="at most 0"):
        next(run(UNITS, FakeSpec(tmp_path / "log", device="cuda"), Store(tmp_path), ray=True))


@pytest.mark.parametrize(
    ("options", "said"), [({"refuses": "sentence 1"}, "must be one of the known"), ({"dies_at": "sentence 1"}, "A worker died")]
)
def test_what_goes_wrong_is_one_sentence(cluster: None, tmp_path: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(PCGError, match=said) as error:
        list(run(UNITS, FakeSpec(tmp_path / "log", **options), Store(tmp_path), ray=True))
    assert "\n" not in str(error.value)
    assert len(Store(tmp_path).all()) < 12
