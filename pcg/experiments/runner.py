"""Runs units, in this process, in several or over Ray, and stores their records; the next run continues from the store."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from itertools import groupby
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from pcg.cluster import cluster
from pcg.errors import PCGError, unexpected
from pcg.experiments.store import Store
from pcg.experiments.unit import Record, Unit

if TYPE_CHECKING:  # it brings in torch, which a run with nothing to do can spare
    from pcg.experiments.worker import WorkerSpec

PARENT_GONE = (EOFError, BrokenPipeError, ConnectionResetError)
RESUMES = "what was done is stored, and the next run goes on from it."


def run(units: Sequence[Unit], spec: "WorkerSpec", store: Store, processes: int = 1, ray: bool = False) -> Iterator[Record]:
    """Do the units that have no record in `store`, and yield each record once it is stored.

    Closing the generator stops the work, and a kill loses no more than the units that each worker has just done. With several
    `processes` each has a separate worker; where they are spawned, a script needs its `if __name__ == "__main__"`. All
    conditions of an utterance and a seed go to one worker.

    Args:
        ray: start Ray actors in place of processes, here or on the cluster that `RAY_ADDRESS` names, where this project and the
            model lie at the same path. An actor takes one core and, for "cuda", a GPU.

    Raises:
        PCGError: if a unit cannot be done, a worker dies, or Ray is not installed.
    """
    # Methods take turns on one worker, and swaps find their take there.
    batches = [list(group) for _, group in groupby(missing(units, spec, store), key=lambda unit: (unit.utterance, unit.seed))]
    if not batches:
        return
    workers = min(processes, len(batches))
    start = _over_ray if ray else _side_by_side if workers > 1 else _here
    with closing(start(batches, spec, workers)) as records:
        for record in records:
            store.add(record.unit.key(spec.voice_id), record)
            yield record


def missing(units: Sequence[Unit], spec: "WorkerSpec", store: Store) -> list[Unit]:
    """Return the units without a record in `store`, each once."""
    by_key: dict[str, Unit] = {}
    for unit in units:
        by_key.setdefault(unit.key(spec.voice_id), unit)
    known = store.known(by_key)
    return [unit for key, unit in by_key.items() if key not in known]


def _here(batches: Sequence[list[Unit]], spec: "WorkerSpec", workers: int) -> Iterator[Record]:
    worker = spec.load()
    for batch in batches:
        yield from map(worker.record, batch)


def _side_by_side(batches: Sequence[list[Unit]], spec: "WorkerSpec", workers: int) -> Iterator[Record]:
    # A forked child would share the parent's threads and CUDA context, which do not survive it.
    spawn, crew, waiting = multiprocessing.get_context("spawn"), {}, deque(batches)
    try:
        for _ in range(workers):
            ours, theirs = spawn.Pipe()
            crew[ours] = spawn.Process(target=_serve, args=(spec, workers, theirs), daemon=True)
            crew[ours].start()
            theirs.close()  # so that its death ends the pipe
            ours.send(waiting.popleft())
        busy = set(crew)
        while busy:
            for pipe in wait(busy):
                try:
                    answer = pipe.recv()
                    if answer is None and waiting:
                        pipe.send(waiting.popleft())
                    elif answer is None:
                        busy.remove(pipe)
                except (EOFError, OSError) as error:
                    crew[pipe].join(timeout=5)
                    raise PCGError(f"A worker died (exit code {crew[pipe].exitcode}); {RESUMES}") from error
                if isinstance(answer, PCGError):
                    raise answer
                if answer is not None:
                    yield answer
    finally:
        for process in crew.values():
            process.terminate()
        for pipe, process in crew.items():
            process.join()
            pipe.close()


def _serve(spec: "WorkerSpec", workers: int, pipe: Connection) -> None:
    """Serve a worker process: send a record for each unit of a batch that is received and then None, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt reaches the whole group, and the parent ends its workers
    with suppress(*PARENT_GONE):
        try:
            worker = spec.load()
            while True:
                for unit in pipe.recv():
                    pipe.send(worker.record(unit, workers))
                pipe.send(None)
        except PARENT_GONE:
            raise
        except Exception as error:
            pipe.send(error if isinstance(error, PCGError) else unexpected(error))


def _over_ray(batches: Sequence[list[Unit]], spec: "WorkerSpec", workers: int) -> Iterator[Record]:
    with cluster("util", "processes", workers, spec.device) as ray:
        kind = ray.remote(num_cpus=1, num_gpus=1 if spec.device == "cuda" else 0)(_Actor)
        actors = [kind.remote(spec, workers) for _ in range(workers)]
        try:
            for records in ray.util.ActorPool(actors).map_unordered(lambda actor, batch: actor.records.remote(batch), batches):
                yield from records
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, PCGError):
                raise error.cause from None
            raise
        except ray.exceptions.RayError as error:
            raise PCGError(f"A worker died; {RESUMES}") from error
        finally:
            for actor in actors:
                ray.kill(actor)


class _Actor:
    """A Ray actor. Its worker is loaded with the first units, so that errors of loading are reported as those of a unit."""

    def __init__(self, spec: "WorkerSpec", workers: int) -> None:
        self._load, self._workers = lru_cache(1)(spec.load), workers

    def records(self, units: Sequence[Unit]) -> list[Record]:
        return [self._load().record(unit, self._workers) for unit in units]
