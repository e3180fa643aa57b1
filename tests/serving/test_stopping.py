"""How `pcg serve` begins and ends: a door that cannot be opened, and answers that are open when it is told to stop."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest

from pcg.cli import main
from pcg.serving.openai import create_api
from pcg.serving.protection import LIMITS
from pcg.serving.speech_service import Offer

PATIENCE_SECONDS = 120


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
    closed = threading.Event()

    class Idle:
        offer = Offer(("pcg",), ("one",), 16_000, rows=2)

        def __init__(self, _: object) -> None:
            pass

        def close(self) -> None:
            closed.set()

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pcg.cli.commands.load_synthesizer", lambda _: Mock())
    monkeypatch.setattr("pcg.serving.speech_service.SpeechService", Idle)
    monkeypatch.setattr("uvicorn.Server.run", fail)
    assert main(["serve", "--port", "0"]) == 130
    assert closed.is_set()


@pytest.fixture
def server(tiny_voice_folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    words = ["serve", "--model", str(tiny_voice_folder), "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pcg", *words], env={**os.environ, "PCG_API_KEY": ""}, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    told = next(line for line in process.stderr if line.startswith("Serving "))
    yield told.split(" on ")[-1].strip(), process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_open_answers_do_not_hold_up_the_end(
    server: tuple[str, subprocess.Popen[str]], how: signal.Signals, tiny_voice_folder: Path
) -> None:
    """One that nobody reads, and one that has not begun, each far longer than the server still has."""
    url, process = server
    endless = {"model": tiny_voice_folder.name, "voice": "one", "input": ". ".join(["hello, is this one sentence? yes!"] * 140)}
    answers: list[httpx.Response] = []

    def whole() -> None:
        answers.append(httpx.post(f"{url}/audio/speech", json=endless, timeout=PATIENCE_SECONDS))

    waiting = threading.Thread(target=whole)
    stream = endless | {"response_format": "wav"}
    with httpx.stream("POST", f"{url}/audio/speech", json=stream, timeout=PATIENCE_SECONDS) as open_answer:
        assert open_answer.status_code == 200
        waiting.start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while httpx.get(f"{url[:-3]}/health").json()["speaking"] < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        begun = time.monotonic()
        process.send_signal(how)
        assert process.wait(LIMITS.stop_seconds + 20) in (0, 130, -how)
        assert time.monotonic() - begun > LIMITS.stop_seconds - 1
        waiting.join(PATIENCE_SECONDS)
        with pytest.raises(httpx.RemoteProtocolError):
            open_answer.read()
    assert [(each.status_code, each.json()["error"]["type"]) for each in answers] == [(503, "server_error")]
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def test_both_names_of_a_model_are_answered() -> None:
    class Idle:
        offer = Offer(("pcg",), ("one",), 16_000, rows=2)

        def close(self) -> None:
            """Nothing is held."""

    from starlette.testclient import TestClient

    with TestClient(create_api(Idle(), "voice@1", alias="OWNER/voice"), base_url="http://localhost") as client:
        for name in ("voice@1", "OWNER/voice"):
            assert client.get(f"/v1/models/{name}").json()["id"] == name
        assert client.get("/v1/models/OWNER/other").json()["error"]["code"] == "model_not_found"
        assert [each["id"] for each in client.get("/v1/models").json()["data"]] == ["voice@1"]
