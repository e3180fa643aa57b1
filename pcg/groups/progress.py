"""A line that says how far a long job is and when it will be done."""

import sys
from collections.abc import Callable
from time import perf_counter
from typing import TextIO

from pcg.groups.pairs.search import Progress


def eta_line(label: str, done: int, total: int, elapsed: float) -> str:
    """`label: 42 %, 1 min 05 s left`, if the rest goes on as the `done` of `total` did in `elapsed` seconds."""
    left = elapsed * (total - done) / done if done else 0.0
    minutes, seconds = divmod(round(left), 60)
    rest = f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
    return f"{label}: {100 * done // max(1, total)} %, {rest} left"


def printed(label: str, stream: TextIO | None = None, clock: Callable[[], float] = perf_counter) -> Progress:
    """A `Progress` that rewrites one line of `stream` (standard error by default), and ends it when all is done."""
    begun, stream = clock(), stream or sys.stderr

    def progress(done: int, total: int) -> None:
        ends = "\n" if done >= total else ""
        print(f"\r{eta_line(label, done, total, clock() - begun)}\x1b[K", end=ends, file=stream, flush=True)

    return progress
