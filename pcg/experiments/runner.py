"""Runs units, in this process, in several or over Ray, and stores their records; the next run continues from the store."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import perf_counter
from typing import TYPE_CHECKING

from pcg.cluster import check_room, import_ray, join
from pcg.errors import InputError, PCGError, unexpected
from pcg.experiments.store import Store
from pcg.experiments.unit import Record, Unit

if TYPE_CHECKING:  # it brings in torch, which a run with nothing to do can spare
    from types import ModuleType

    from pcg.experiments.worker import Worker, WorkerSpec

Batch = list[Unit]
Keep = Callable[[Record], None]
PARENT_GONE = (EOFError, BrokenPipeError, ConnectionResetError)


def run(units: Sequence[Unit], spec: "WorkerSpec", store: Store, processes: int = 1, ray: bool = False) -> Iterator[Record]:
    """Do the units that have no record in `store`, and yield each record once it is stored.

    Closing the generator stops the work, and a kill loses no more than the unit that each worker is at. With several
    `processes` each has a worker of its own; where they are spawned, a script needs its `if __name__ == "__main__"`. All
    conditions of an utterance and a seed go to one worker.

    Args:
        ray: start Ray actors in place of processes, here or on the cluster that `RAY_ADDRESS` names, where this project and the
            model lie at the same path. An actor takes one core and, for "cuda", a GPU. Records come when all
            conditions of their utterance and seed are done.

    Raises:
        PCGError: if a unit cannot be done, a worker dies, or Ray is not installed.
    """
    check_workers("processes", processes)
    modules = import_ray("util") if ray else None
    parts = batches(missing(units, spec, store))
    workers = min(processes, len(parts))
    voice = spec.voice_id

    def keep(record: Record) -> None:
        store.add(record.unit.key(voice), record)

    if workers and modules:
        yield from _over_ray(modules, parts, spec, workers, keep)
    elif workers == 1:
        yield from _here(parts, spec, keep)
    elif workers:
        yield from _side_by_side(parts, spec, workers, keep)


def missing(units: Sequence[Unit], spec: "WorkerSpec", store: Store) -> list[Unit]:
    """Return the units without a record in `store`, each once."""
    by_key: dict[str, Unit] = {}
    for unit in units:
        by_key.setdefault(unit.key(spec.voice_id), unit)
    known = store.known(by_key)
    return [unit for key, unit in by_key.items() if key not in known]


def batches(units: Sequence[Unit]) -> list[Batch]:
    """Group neighbours of the same utterance and seed: methods take turns on one worker, and swaps find their take there."""
    return [list(group) for _, group in groupby(units, key=lambda unit: (unit.utterance, unit.seed))]


def check_workers(field: str, count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(field, count, "a whole number from 1 up")


@dataclass(frozen=True)
class Progress:
    """`done` of `total` units, and the seconds that the others will take, None until two were timed."""

    done: int
    total: int
    seconds_left: float | None


def with_progress(
    records: Iterator[Record], total: int, known: int = 0, clock: Callable[[], float] = perf_counter
) -> Iterator[tuple[Record, Progress]]:
    """Yield each of `records` with the progress of a run over `total` units, of which `known` were in the store.

    Time counts from the first record on: loading and compiling come before it, once.
    """
    with closing(records):  # type: ignore[type-var]
        for fresh, record in enumerate(records, start=1):
            if fresh == 1:
                begun = clock()
            left = total - known - fresh
            pace = (clock() - begun) / (fresh - 1) if fresh > 1 else None
            yield record, Progress(known + fresh, total, None if pace is None else pace * left)


def _here(parts: Sequence[Batch], spec: "WorkerSpec", keep: Keep) -> Iterator[Record]:
    worker = spec.load()
    for unit in (unit for part in parts for unit in part):
        record = worker.record(unit)
        keep(record)
        yield record


def _side_by_side(parts: Sequence[Batch], spec: "WorkerSpec", workers: int, keep: Keep) -> Iterator[Record]:
    crew = dict(_start(spec, workers) for _ in range(workers))
    waiting = deque(deque(part) for part in parts)
    at_work: dict[Connection, deque[Unit]] = {}
    try:
        for pipe in crew:
            at_work[pipe] = waiting.popleft()
            _feed(pipe, at_work[pipe].popleft(), crew[pipe])
        while at_work:
            for pipe in wait(list(at_work)):
                record = _receive(pipe, crew[pipe])
                keep(record)
                # The next unit is sent only now, so that no worker is ever ahead of the store by more than the one.
                if not at_work[pipe] and waiting:
                    at_work[pipe] = waiting.popleft()
                if at_work[pipe]:
                    _feed(pipe, at_work[pipe].popleft(), crew[pipe])
                else:
                    del at_work[pipe]
                yield record
    finally:
        _stop(crew, keep)


def _start(spec: "WorkerSpec", workers: int) -> tuple[Connection, BaseProcess]:
    """Start a worker process; return the pipe to it, and the process."""
    # A forked child would share the parent's threads and CUDA context, which do not survive it.
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(spec, workers, theirs), daemon=True)
    process.start()
    theirs.close()  # so that its death ends the pipe
    return ours, process


def _serve(spec: "WorkerSpec", workers: int, pipe: Connection) -> None:
    """Serve a worker process: send a record for each unit that is received, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt reaches the whole group, and the parent ends its workers
    with suppress(*PARENT_GONE):
        try:
            worker = spec.load()
            while True:
                pipe.send(worker.record(pipe.recv(), workers))
        except PCGError as error:
            pipe.send(PCGError(str(error)))
        except PARENT_GONE:
            raise
        except Exception as error:
            pipe.send(unexpected(error))


def _feed(pipe: Connection, unit: Unit, process: BaseProcess) -> None:
    try:
        pipe.send(unit)
    except OSError as error:
        raise _died(process) from error


def _receive(pipe: Connection, process: BaseProcess) -> Record:
    try:
        answer = pipe.recv()
    except (EOFError, OSError) as error:
        raise _died(process) from error
    if isinstance(answer, PCGError):
        raise answer
    return answer


def _died(process: BaseProcess) -> PCGError:
    process.join(timeout=5)
    return PCGError(f"A worker died (exit code {process.exitcode}); what was done is stored, and the next run goes on from it.")


def _stop(crew: dict[Connection, BaseProcess], keep: Keep) -> None:
    """End the workers, and keep the records that they had finished."""
    for process in crew.values():
        process.terminate()
    for pipe, process in crew.items():
        process.join()
        # What was killed while it was sent is no message.
        with suppress(EOFError, OSError), pipe:
            while pipe.poll():
                if isinstance(answer := pipe.recv(), Record):
                    keep(answer)


def _over_ray(ray: "ModuleType", parts: Sequence[Batch], spec: "WorkerSpec", workers: int, keep: Keep) -> Iterator[Record]:
    ours = join(ray)
    actors: list[object] = []
    try:
        check_room(ray.cluster_resources(), "processes", workers, 1, spec.device)
        kind = ray.remote(num_cpus=1, num_gpus=1 if spec.device == "cuda" else 0)(_Actor)
        actors += [kind.remote(spec, workers) for _ in range(workers)]
        pool = ray.util.ActorPool(actors)
        for records in pool.map_unordered(lambda actor, part: actor.records.remote(part), parts):
            for record in records:
                keep(record)
            yield from records
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, PCGError):
            raise PCGError(str(error.cause)) from error
        raise
    except ray.exceptions.RayError as error:
        raise PCGError("A worker died; what was done is stored, and the next run goes on from it.") from error
    finally:
        for actor in actors:
            ray.kill(actor)
        if ours:
            ray.shutdown()


class _Actor:
    """A Ray actor. Its worker is loaded with the first units, so that errors of loading are reported as those of a unit."""

    def __init__(self, spec: "WorkerSpec", workers: int) -> None:
        self._spec, self._workers = spec, workers

    def records(self, units: Sequence[Unit]) -> list[Record]:
        try:
            return [self._worker.record(unit, self._workers) for unit in units]
        except PCGError as error:  # one of its subclasses would not survive the way
            raise PCGError(str(error)) from None

    @cached_property
    def _worker(self) -> "Worker":
        return self._spec.load()
