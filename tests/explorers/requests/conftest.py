"""The page in a process of its own, whose memory and files are looked at from outside."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from pcg.places import PROJECT

PATIENCE_SECONDS = 420


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen
    address: str
    temporary: Path

    def peak(self) -> int:
        """Bytes of memory at most since `forget_peak`."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def kept(self) -> int:
        """Bytes of all files that it holds, those of no name too."""
        sizes = [path.stat().st_size for path in self.temporary.rglob("*") if path.is_file()]
        for file in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                sizes += [file.stat().st_size] if "(deleted)" in os.readlink(file) else []
        return sum(sizes)


@pytest.fixture(scope="module")
def server(tiny_voice_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = started(tmp_path_factory.mktemp("temporary"), "--model", str(tiny_voice_folder))
    time.sleep(5)  # the warm-up
    yield server
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(PATIENCE_SECONDS)
    assert [path for path in server.temporary.rglob("*") if path.is_file()] == []


def started(
    temporary: Path,
    *options: str,
    python: str = sys.executable,
    folder: Path = PROJECT,
    variables: Mapping[str, str] = os.environ,
) -> Server:
    """The page of `folder`, as soon as it answers; what it prints stands in a file beside `temporary`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {"TMPDIR": str(temporary), "GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port)}
    with temporary.with_suffix(".log").open("wb") as log:
        command = [Path(python).absolute(), "app.py", *options]
        process = subprocess.Popen(command, cwd=folder, env={**variables, **own}, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    patience = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            httpx.get(address, timeout=10)
            return Server(process, address, temporary)
        except httpx.TransportError:
            assert process.poll() is None, temporary.with_suffix(".log").read_text()[-2000:]
            assert time.monotonic() < patience
            time.sleep(0.5)
