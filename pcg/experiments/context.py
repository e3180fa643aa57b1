"""Where and with what a result was made, so that a time can be read. Names of hosts and users are no part of it."""

import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

from pcg.experiments.unit import FORMAT
from pcg.files import __version__
from pcg.models import kernel


def context(device: str, precision: str, threads: int, workers: int, judges: Mapping[str, str]) -> dict[str, object]:
    """precision: of the model's matrix products. threads: of each of the `workers` that ran side by side. judges: by metric.
    `date` is now, UTC, to the second."""
    return _machine(device) | {
        "precision": precision,
        "threads": threads,
        "workers": workers,
        "judges": dict(judges),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def _machine(device: str) -> dict[str, object]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": _accelerator() if device == "cuda" else device,
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "pcg": __version__,
        "kernel": _kernel(),
        "format": FORMAT,
    }


def _kernel() -> str:
    """What tells one CPU kernel from another, as times with one say nothing of the other: a digest of its files."""
    files = sorted(Path(kernel.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _processor() -> str:
    """What the processor calls itself, with its family and model, as rented ones of different speeds share a name: `platform`
    knows on Linux no more than its architecture."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text(encoding="utf-8", errors="replace").splitlines() if table.is_file() else []
    told = {key.strip(): value.strip() for key, mark, value in (line.partition(":") for line in reversed(lines)) if mark}
    if "model name" not in told:
        return platform.processor() or platform.machine() or sys.platform
    kind = [f"{word} {told[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in told]
    return f"{told['model name']} ({', '.join(kind)})" if kind else told["model name"]


def _accelerator() -> str:
    import torch

    return torch.cuda.get_device_name()
