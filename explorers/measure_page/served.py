"""A page of its own in another process, and a browser to look at it."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter, sleep

import httpx

from pcg.places import PROJECT

APP = PROJECT / "app.py"
PATIENCE_SECONDS = 300


@contextmanager
def page_process(model: str = "embedded") -> Iterator[tuple[int, str]]:
    """A page in a process of its own that has just begun: its number, and the address at which it will answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    call = [sys.executable, str(APP), "--model", model, "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(call, stdout=subprocess.DEVNULL, cwd=APP.parent) as running:
        try:
            yield running.pid, f"http://127.0.0.1:{port}/"
        finally:
            running.kill()


def wait_for(address: str) -> None:
    """Return when the page answers, or raise TimeoutError."""
    deadline = perf_counter() + PATIENCE_SECONDS
    while perf_counter() < deadline:
        with suppress(httpx.TransportError):
            httpx.get(f"{address}config", timeout=PATIENCE_SECONDS)
            return
        sleep(0.02)
    raise TimeoutError(f"{address} did not answer in {PATIENCE_SECONDS} seconds")
