"""Timing: in turns, warm, medians."""

from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter

import torch

COPY_MIB = 256


def milliseconds(work: Callable[[], object]) -> float:
    """Time one run of `work`, until the device is done."""
    _wait()
    begun = perf_counter()
    work()
    _wait()
    return 1e3 * (perf_counter() - begun)


def medians(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median milliseconds of each of `works` over `repeats` rounds, after one that is not counted. They take turns:
    a machine that slows down slows them all."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            spent = milliseconds(work)
            if turn:
                times[name].append(spent)
    return {name: median(spent) for name, spent in times.items()}


def copy_bandwidth(device: str, repeats: int = 9) -> float:
    """Bytes a second, read and written both counted, of copying a large array on `device` with the threads that torch has."""
    source = torch.ones(COPY_MIB * 2**20 // 4, device=device)
    sink = torch.empty_like(source)
    spent = medians({"copy": lambda: sink.copy_(source)}, repeats)["copy"]
    return 2 * source.nbytes / (1e-3 * spent)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
