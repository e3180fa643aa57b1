"""No single request, on any way into the server, costs much memory, keeps others waiting, or leaves anything on the disk."""

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import httpx
import pytest
from gradio.routes import App

from tests.explorers.requests.conftest import Server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not tell a process's peak memory"),
]

MB = 1 << 20
MOST = 100 * MB
LARGE = 200 * MB


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


@pytest.mark.parametrize("path", ["/monitoring", "/monitoring/x", "/gradio_api/profiling/summary"])
def test_what_is_for_developers_is_closed(server: Server, path: str) -> None:
    for method in ("GET", "POST"):
        assert httpx.request(method, server.address + path).status_code == 404
