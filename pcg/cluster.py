"""Ray, an optional dependency: its modules, a cluster to join, and whether there is room on it."""

import os
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from pcg.errors import InputError, PCGError


def import_ray(part: str) -> ModuleType:
    """Import Ray with its module `part`; raise PCGError if it is not installed."""
    try:
        import_module(f"ray.{part}")
        return import_module("ray")
    except ImportError as error:
        how = 'pip install -r requirements-cluster.txt in a checkout, pip install "pcg-lab[cluster] @ git+URL" elsewhere'
        raise PCGError(f"Ray is not installed: {how}.") from error


def join(ray: ModuleType) -> bool:
    """Join the cluster that the process is in or that `RAY_ADDRESS` names, else start Ray on this machine. Returns whether the
    caller has to leave it again, by `ray.shutdown()`. Raises InputError where no cluster answers at the address."""
    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS")
    try:
        ray.init(address or "local", include_dashboard=False, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError) as error:
        raise InputError("RAY_ADDRESS", address, "the address of a cluster that answers") from error
    return True


def check_room(resources: Mapping[str, float], field: str, actors: int, cores: int, device: str) -> None:
    """Raise InputError if `actors`, each of `cores` and, for "cuda", a GPU, do not fit: Ray would wait for room without end."""
    room = min(resources.get("CPU", 0) // cores, resources.get("GPU", 0) if device == "cuda" else actors)
    if actors > room:
        raise InputError(field, actors, f"at most {int(room)}, for which Ray has cores and GPUs")
