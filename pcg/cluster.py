"""Ray, an optional dependency: a cluster to work on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from pcg.errors import InputError, PCGError


@contextmanager
def cluster(part: str, field: str, actors: int, device: str) -> Iterator[ModuleType]:
    """Yield Ray with its module `part`, on the cluster of the process or of `RAY_ADDRESS`, else on this machine.

    Raises PCGError if Ray is not installed, and InputError where no cluster answers, or where so many `actors`, each of a core
    and, for "cuda", a GPU, do not fit: Ray would wait for room without end. `field` is what errors call their number.
    """
    try:
        import_module(f"ray.{part}")
        ray = import_module("ray")
    except ImportError as error:
        how = 'pip install -r requirements-cluster.txt in a checkout, pip install "pcg-lab[cluster] @ git+URL" elsewhere'
        raise PCGError(f"Ray is not installed: {how}.") from error
    ours, address = not ray.is_initialized(), os.environ.get("RAY_ADDRESS")
    try:
        if ours:
            ray.init(address or "local", include_dashboard=False, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError) as error:
        raise InputError("RAY_ADDRESS", address, "the address of a cluster that answers") from error
    try:
        resources = ray.cluster_resources()
        room = int(min(resources.get("CPU", 0), resources.get("GPU", 0) if device == "cuda" else actors))
        if actors > room:
            raise InputError(field, actors, f"at most {room}, for which Ray has cores and GPUs")
        yield ray
    finally:
        if ours:
            ray.shutdown()
