"""`pcg serve` as a command: what it refuses, its key and its limit, and answers that are open when it stops."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest

from pcg.cli import main
from pcg.serving.openai import create_api
from pcg.serving.protection import LIMITS
from pcg.serving.speech_service import Offer

PATIENCE_SECONDS = 120
KEY = {"authorization": "Bearer secret"}


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was loaded, although nothing should be."""
    loads: list[str] = []
    for path in ("pcg.cli.commands.load_synthesizer", "pcg.serving.replicas.Replicas.__init__"):
        monkeypatch.setattr(path, lambda *_, path=path: loads.append(path))
    return loads


@pytest.mark.parametrize("ray", [[], ["--ray"]])
def test_a_port_that_is_taken_is_one_sentence_before_anything_is_loaded(
    loaded: list[str], ray: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", "--port", str(port), *ray]) == 2
    told = f"pcg: port is {port}, but must be one that is free on 127.0.0.1 and that you may open.\n"
    assert (capsys.readouterr().err, loaded) == (told, [])


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a" * 70 + ".b", "fe80::1:2:3:4:5:6:7:8"])
def test_a_host_that_is_not_here_is_one_sentence(loaded: list[str], host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--host", host, "--port", "0"]) == 2
    assert (capsys.readouterr().err, loaded) == (f"pcg: host is '{host}', but must be an address of this computer.\n", [])


def test_the_service_is_closed_where_the_server_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Mock(offer=Offer(("pcg",), ("one",), 16_000, rows=2))
    monkeypatch.setattr("pcg.cli.commands.load_synthesizer", lambda _: Mock())
    monkeypatch.setattr("pcg.serving.speech_service.SpeechService", lambda _: service)
    monkeypatch.setattr("uvicorn.Server.run", Mock(side_effect=KeyboardInterrupt))
    assert main(["serve", "--port", "0"]) == 130
    service.close.assert_called()


@pytest.fixture
def server(request: pytest.FixtureRequest, tiny_voice_folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`pcg serve` as a process, with the options that a test gives: its address and the process."""
    options = getattr(request, "param", ["--in-flight", "2"])
    if "--ray" in options:
        pytest.importorskip("ray.serve")
    words = ["serve", "--model", str(tiny_voice_folder), "--port", "0", *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "pcg", *words], env={**os.environ, "PCG_API_KEY": "secret"}, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    told = next(line for line in process.stderr if line.startswith("Serving "))
    yield told.split(" on ")[-1].strip(), process
    process.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("server", [["--in-flight", "1", "--ray", "--replicas", "1"]], indirect=True)
def test_it_keeps_its_key_and_its_limit_over_ray(server: tuple[str, subprocess.Popen[str]], tiny_voice_folder: Path) -> None:
    url, _ = server
    body = {"model": tiny_voice_folder.name, "voice": "one", "input": "hello, yes!", "response_format": "wav"}
    assert httpx.post(f"{url}/audio/speech", json=body).status_code == 401
    assert httpx.post(f"{url}/audio/speech", json=body, headers=KEY, timeout=60).content[:4] == b"RIFF"
    long = body | {"input": ". ".join(["hello, yes!"] * 350)}
    with httpx.stream("POST", f"{url}/audio/speech", json=long, headers=KEY, timeout=60) as begun:
        assert begun.status_code == 200
        assert httpx.post(f"{url}/audio/speech", json=body, headers=KEY).status_code == 429


@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_it_keeps_its_key_and_its_limit_and_open_answers_do_not_hold_up_its_end(
    server: tuple[str, subprocess.Popen[str]], how: signal.Signals, tiny_voice_folder: Path
) -> None:
    """One that nobody reads, and one that has not begun, each far longer than the server still has."""
    url, process = server
    assert httpx.post(f"{url}/audio/speech", json={}).status_code == 401
    endless = {"model": tiny_voice_folder.name, "voice": "one", "input": ". ".join(["hello, is this one sentence? yes!"] * 140)}
    asked = {"headers": KEY, "timeout": PATIENCE_SECONDS}
    stream = endless | {"response_format": "wav"}
    with ThreadPoolExecutor(1) as pool, httpx.stream("POST", f"{url}/audio/speech", json=stream, **asked) as open_answer:
        assert open_answer.status_code == 200
        waiting = pool.submit(httpx.post, f"{url}/audio/speech", json=endless | {"stream": False}, **asked)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while httpx.get(f"{url[:-3]}/health").json()["speaking"] < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert httpx.post(f"{url}/audio/speech", json=endless, headers=KEY).status_code == 429
        begun = time.monotonic()
        process.send_signal(how)
        assert process.wait(LIMITS.stop_seconds + 20) in (0, 130, -how)
        assert time.monotonic() - begun > LIMITS.stop_seconds - 1
        answer = waiting.result(PATIENCE_SECONDS)
        with pytest.raises(httpx.RemoteProtocolError):
            open_answer.read()
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "server_error")
    assert process.stderr is not None
    logged = process.stderr.read()
    assert "Traceback" not in logged
    assert "ASGI callable" not in logged


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--port", "70000"], "port is '70000', but must be at most 65535."),
        (["--in-flight", "0"], "in-flight is '0', but must be at least 1."),
        (["--in-flight", "many"], "in-flight is 'many', but must be a whole number."),
        (["--port", "0", "--model", "nowhere/at-all"], "nowhere/at-all"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *words]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert len(said.splitlines()) == 1


def test_both_names_of_a_model_are_answered() -> None:
    from starlette.testclient import TestClient

    idle = Mock(offer=Offer(("pcg",), ("one",), 16_000, rows=2))
    with TestClient(create_api(idle, ("voice@1", "OWNER/voice")), base_url="http://localhost") as client:
        for name in ("voice@1", "OWNER/voice"):
            assert client.get(f"/v1/models/{name}").json()["id"] == name
        assert client.get("/v1/models/OWNER/other").json()["error"]["code"] == "model_not_found"
        assert client.get("/v1/models").json()["data"][0]["id"] == "voice@1"
