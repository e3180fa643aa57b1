"""Units a second of two workers against one, on real units: `python -m pcg.experiments.results.scaling [--ray]` measures it."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

from pcg.errors import InputError
from pcg.experiments.runner import run
from pcg.experiments.store import Store
from pcg.experiments.unit import Condition, Record, Unit, Utterance
from pcg.metrics.sentences import read_sentences
from pcg.settings import Settings

if TYPE_CHECKING:
    from pcg.experiments.worker import WorkerSpec

Runner = Callable[[Sequence[Unit], "WorkerSpec", Store, int], Iterator[Record]]


@dataclass(frozen=True)
class Throughput:
    """Units a second with one worker and with `workers`, medians over runs in turns, and their ratio."""

    workers: int
    one: float
    many: float

    @property
    def ratio(self) -> float:
        return self.many / self.one

    def as_dict(self) -> dict[str, float]:
        return asdict(self) | {"ratio": self.ratio}


def measure_throughput(
    units: Sequence[Unit], spec: "WorkerSpec", workers: int = 2, repeats: int = 3, runner: Runner = run
) -> Throughput:
    """Do `units` with one worker and with `workers`, in turns, each time from an empty store.

    Time counts from a quarter of the records on, when all workers have loaded and have warmed up their methods.
    """
    if len(units) < 4 * workers:
        raise InputError("units", len(units), f"at least {4 * workers}, four a worker")
    speeds: dict[int, list[float]] = {1: [], workers: []}
    for _ in range(repeats):
        for count in speeds:
            speeds[count].append(_units_per_second(units, spec, count, runner))
    return Throughput(workers, median(speeds[1]), median(speeds[workers]))


def _units_per_second(units: Sequence[Unit], spec: "WorkerSpec", workers: int, runner: Runner) -> float:
    with TemporaryDirectory() as folder:
        times = [perf_counter() for _ in runner(units, spec, Store(Path(folder)), workers)]
    start = len(times) // 4
    return (len(times) - 1 - start) / (times[-1] - times[start])


def main() -> None:
    from pcg.experiments import ray_runner
    from pcg.experiments.worker import WorkerSpec

    parser = argparse.ArgumentParser(prog="python -m pcg.experiments.results.scaling", description="Two workers against one.")
    parser.add_argument("--ray", action="store_true", help="as Ray actors; else as local processes")
    runner = ray_runner.run if parser.parse_args().ray else run
    conditions = [Condition(method, Settings(method)) for method in ("ar", "pcg")]
    texts = read_sentences("everyday")[:20]
    units = [Unit(Utterance(text, "slt"), condition, 0) for text in texts for condition in conditions]
    print(json.dumps(measure_throughput(units, WorkerSpec(judge="embedded"), runner=runner).as_dict()))


if __name__ == "__main__":
    main()
