"""`runner.run` over Ray actors: on all cores of a machine, on several GPUs, or on a cluster."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from pcg.cluster import check_room, import_ray, join
from pcg.errors import PCGError
from pcg.experiments.runner import batches, check_workers, missing
from pcg.experiments.store import Store
from pcg.experiments.unit import Record, Unit

if TYPE_CHECKING:
    from types import ModuleType

    from pcg.experiments.worker import Worker, WorkerSpec


def run(units: Sequence[Unit], spec: "WorkerSpec", store: Store, processes: int = 1) -> Iterator[Record]:
    """Do units as `pcg.experiments.runner.run` does, with as many actors as `processes`, each with its own worker.

    An actor takes `spec.threads` cores and, for "cuda", a GPU. It joins the cluster that `RAY_ADDRESS` names, or that the
    process is in, else it starts Ray on this machine; elsewhere, this project and the model lie at the same path. Records come
    when all conditions of their utterance and seed are done: a kill loses no more than those. Raises PCGError without ray.
    """
    check_workers("processes", processes)
    ray = import_ray("util")
    parts, voice = batches(missing(units, spec, store)), spec.voice_id
    workers = min(processes, len(parts))
    if not parts:
        return
    ours = join(ray)
    actors: list[object] = []
    try:
        check_room(ray.cluster_resources(), "processes", workers, spec.threads, spec.device)
        actors += [_actor(ray, spec, workers) for _ in range(workers)]
        pool = ray.util.ActorPool(actors)
        for records in pool.map_unordered(lambda actor, part: actor.records.remote(part), parts):
            for record in records:
                store.add(record.unit.key(voice), record)
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


class _Crew:
    """An actor: its worker is loaded with the first units, so that errors of loading are reported as those of a unit."""

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


def _actor(ray: "ModuleType", spec: "WorkerSpec", workers: int) -> object:
    kind = ray.remote(num_cpus=spec.threads, num_gpus=1 if spec.device == "cuda" else 0)(_Crew)
    return kind.remote(spec, workers)
