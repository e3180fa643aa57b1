"""Ray, which is installed by few: its modules, a cluster to be in, and whether there is room on it."""

import os
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from pcg.errors import InputError, PCGError


def import_ray(*parts: str) -> ModuleType:
    """The package, with these parts of it loaded. Raises PCGError without it."""
    try:
        for part in parts:
            import_module(f"ray.{part}")
        return import_module("ray")
    except ImportError as error:
        how = 'pip install -r requirements-cluster.txt in a checkout, pip install "pcg-lab[cluster] @ git+URL" elsewhere'
        raise PCGError(f"Ray is not installed: {how}.") from error


def join(ray: ModuleType, cores: int | None = None) -> bool:
    """Be in the cluster that the process is in or that `RAY_ADDRESS` names, else start Ray on this machine. True where the
    caller has to leave it again, by `ray.shutdown()`. cores: how many Ray shall count here in place of those that there are.
    Raises InputError where no cluster answers at the address."""
    if ray.is_initialized():
        return False
    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        ray.init("local", num_cpus=cores, **quiet)
        return True
    try:
        ray.init(address, **quiet)
    except (ConnectionError, ValueError) as error:
        raise InputError("RAY_ADDRESS", address, "the address of a cluster that answers") from error
    return True


def check_room(resources: Mapping[str, float], field: str, actors: int, cores: int, device: str) -> None:
    """An actor that finds no room would be waited for without end. field: how a user says how many; each takes `cores` and, for
    "cuda", a GPU."""
    room = resources.get("CPU", 0) // cores
    if device == "cuda":
        room = min(room, resources.get("GPU", 0))
    if actors > room:
        raise InputError(field, actors, f"at most {int(room)}, for which Ray has cores and GPUs")
