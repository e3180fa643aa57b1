"""Whether a model fits here: room on the disk and in memory, asked before anything is downloaded or loaded."""

import shutil
from pathlib import Path

from pcg.errors import PCGError

GIB = 2**30
SPARE = 2**30
"""What stays free, in bytes: a full disk or memory takes other programs down."""
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def check_disk(what: str, needed: int, folder: Path) -> None:
    """Raise PCGError unless `needed` bytes of `what` can be written into `folder`, which need not be there yet."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    if needed + SPARE > free:
        raise PCGError(
            f"{what} needs {_gib(needed)} on the disk and {_gib(SPARE)} to spare, but {folder} has {_gib(free)} free: "
            "make room, or set HF_HOME to a folder on a larger disk."
        )


def check_memory(what: str, needed: int, device: str) -> None:
    """Raise PCGError unless `needed` bytes of `what` fit into the free memory of "cpu" or "cuda"."""
    free = free_memory(device)
    if needed > free:
        raise PCGError(
            f"{what} needs {_gib(needed)} of memory on the {device}, but {_gib(free)} are free: "
            "close other programs, or choose a smaller model."
        )


def free_memory(device: str) -> int:
    """Bytes: of the current CUDA device, or of this computer and the container that this process is in, whichever is less."""
    if device == "cuda":
        import torch  # not above: `pcg.models.hub` is read before what has to be imported before torch

        return torch.cuda.mem_get_info()[0]
    found = [_available(), _left_in_container()]
    return min((each for each in found if each is not None), default=2**63)


def _available() -> int | None:
    """What Linux says new programs may have; None elsewhere."""
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text(encoding="ascii").splitlines())
        return 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None


def _left_in_container() -> int | None:
    """What the control group (version 2) leaves; None where it sets no limit."""
    try:
        limit, used = (int((CGROUP / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no such file, or "max"
        return None
    return max(0, limit - used + _droppable())


def _droppable() -> int:
    """Bytes of files in the group's cache, which the kernel drops when a program needs memory."""
    try:
        facts = dict(line.split() for line in (CGROUP / "memory.stat").read_text(encoding="ascii").splitlines())
        return int(facts["inactive_file"])
    except (OSError, KeyError, ValueError):
        return 0


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
