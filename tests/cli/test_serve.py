"""`pcg serve` as a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pcg.cli import main

PATIENCE_SECONDS = 120


@pytest.fixture(
    params=[pytest.param([], id="alone"), pytest.param(["--ray", "--replicas", "1"], id="ray", marks=pytest.mark.slow)]
)
def address(request: pytest.FixtureRequest, tiny_voice_folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    if request.param:
        pytest.importorskip("ray.serve")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve", "--model", str(tiny_voice_folder), "--port", str(port), "--in-flight", "1", *request.param]
    process = subprocess.Popen(
        [sys.executable, "-m", "pcg", *words], env={**os.environ, "PCG_API_KEY": "secret"}, stderr=subprocess.PIPE, text=True
    )
    yield f"http://127.0.0.1:{port}", process
    process.kill()
    process.communicate()


def test_it_keeps_its_key_and_its_limit_and_ends_when_it_is_told(
    address: tuple[str, subprocess.Popen[str]], tiny_voice_folder: Path
) -> None:
    url, process = address
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            model = httpx.get(f"{url}/health").json()["model"]
            break
        except httpx.TransportError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert model == tiny_voice_folder.name
    key = {"authorization": "Bearer secret"}
    body = {"model": model, "voice": "one", "input": "hello, yes!", "response_format": "wav"}
    assert httpx.post(f"{url}/v1/audio/speech", json=body).status_code == 401
    answer = httpx.post(f"{url}/v1/audio/speech", json=body, headers=key, timeout=60)
    assert answer.content[:4] == b"RIFF"
    long = body | {"input": ". ".join(["hello, yes!"] * 350)}
    with httpx.stream("POST", f"{url}/v1/audio/speech", json=long, headers=key, timeout=60) as begun:
        assert begun.status_code == 200
        assert httpx.post(f"{url}/v1/audio/speech", json=body, headers=key).status_code == 429
    process.send_signal(signal.SIGINT)
    assert process.wait(30) in (0, 130)
    assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--port", "70000"], "port is 70000"),
        (["--in-flight", "0"], "in-flight is 0, but must be at least 1."),
        (["--port", "0", "--model", "nowhere/at-all"], "nowhere/at-all"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *words]) == 2
    assert told in capsys.readouterr().err


def test_a_number_of_requests_that_is_no_number_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--in-flight", "many"]) == 2
    said = capsys.readouterr().err
    assert "in-flight is 'many', but must be a whole number." in said
    assert len(said.splitlines()) == 1
