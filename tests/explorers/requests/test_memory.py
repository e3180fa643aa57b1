"""No single request, on any way into the server, costs much memory, keeps others waiting, or leaves anything on the disk."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
import httpx
import pytest
from gradio.routes import App

from pcg.files import PROJECT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not tell a process's peak memory"),
]

MB = 1 << 20
MOST = 100 * MB
LARGE = 200 * MB
PATIENCE_SECONDS = 120


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    temporary = tmp_path_factory.mktemp("temporary")
    command = [sys.executable, "app.py", "--port", str(port), "--model", str(tiny_voice_folder)]
    process = subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    patience = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            httpx.get(address, timeout=10)
            break
        except httpx.TransportError:
            assert process.poll() is None
            assert time.monotonic() < patience
            time.sleep(0.5)
    time.sleep(5)  # the warm-up
    yield Server(process, address, temporary)
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_SECONDS)
    assert list((temporary / "pcg-lab").iterdir()) == []


def post_paths() -> list[str]:
    """Every path that Gradio takes a body at, and some that only look like that of uploads."""
    outer = App.create_app(gr.Blocks()).routes
    routes = [route for each in outer for route in getattr(getattr(each, "original_router", None), "routes", [each])]
    taking = [route for route in routes if "POST" in (getattr(route, "methods", None) or ())]
    paths = {re.sub(r"\{[^}]+\}", "upload", route.path) for route in taking}
    assert len(paths) > 15
    return sorted(paths | {"/", "/upload", "/gradio_api/call/v2/upload", "/gradio_api/upload//", "/gradio_api/mcp/"})


def blocks(head: bytes = b"", size: int = LARGE) -> Iterator[bytes]:
    yield head
    for _ in range(size // MB):
        yield b"x" * MB


def post(server: Server, path: str, kind: str, head: bytes) -> int | None:
    """The answer's status, or None where the server hung up on what it did not want to hear to the end."""
    try:
        return httpx.post(server.address + path, content=blocks(head), headers={"content-type": kind}, timeout=60).status_code
    except httpx.TransportError:
        return None


BODIES = {
    "JSON": ("application/json", b'{"fn_index": 0, "session_hash": "x", "data": ["'),
    "a field": ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="files"\r\n\r\n'),
    "a file": ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="o"; filename="a"\r\n\r\n'),
    "a form": ("application/x-www-form-urlencoded", b"username="),
}


@pytest.mark.parametrize("body", BODIES)
def test_no_request_costs_much_memory_or_disk(server: Server, body: str) -> None:
    before, kept = server.peak(), server.kept()
    for path in post_paths():
        server.forget_peak()
        begun = time.monotonic()
        status = post(server, path, *BODIES[body])
        assert status is None or status >= 400, path
        assert server.peak() - before < MOST, path
        assert time.monotonic() - begun < 10, path
        assert server.kept() <= kept + MB, path
    begun = time.monotonic()
    assert httpx.get(server.address, timeout=30).status_code == 200
    assert time.monotonic() - begun < 2


def test_the_largest_upload_that_is_taken_costs_little_memory(server: Server) -> None:
    server.forget_peak()
    before = server.peak()
    form = b'--x\r\nContent-Disposition: form-data; name="f"\r\n\r\n' + b"x" * (19 * MB) + b"\r\n--x--\r\n"
    answer = httpx.post(
        f"{server.address}/gradio_api/upload",
        content=form,
        headers={"content-type": "multipart/form-data; boundary=x"},
        timeout=60,
    )
    assert answer.status_code == 200
    assert server.peak() - before < MOST


def test_an_upload_that_is_cut_off_leaves_nothing(server: Server) -> None:
    kept = server.kept()
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.wav"\r\n\r\n'
    port = int(server.address.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as line:
        lines = ("POST /gradio_api/upload HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {10 * MB}",
                 "Content-Type: multipart/form-data; boundary=x", "", "")  # fmt: skip
        line.sendall("\r\n".join(lines).encode() + head + b"x" * (5 * MB))
        time.sleep(1)
        assert server.kept() > kept + 4 * MB
    time.sleep(1)
    assert server.kept() <= kept


@pytest.mark.parametrize(
    "path", ["/monitoring", "/monitoring/summary", "/gradio_api/profiling/summary", "/gradio_api/call/v2/x"]
)
def test_what_is_for_developers_is_closed(server: Server, path: str) -> None:
    for method in ("GET", "POST"):
        assert httpx.request(method, server.address + path).status_code == 404
