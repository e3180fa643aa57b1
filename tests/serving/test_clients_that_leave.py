"""Clients that go away, or send and read too slowly: nothing is spoken for them, and they hold no place for long."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from pcg.serving.protection import Limits
from pcg.serving.speech_service import SpeechService
from pcg.synthesis.synthesizer import Synthesizer
from tests.serving.served import PATIENCE_SECONDS, Silent, serve

USUAL = {"model": "tiny", "input": "hello, yes!", "voice": "one"}
LONG = {**USUAL, "input": ". ".join(["hello, is this one sentence? yes!"] * 140)}
BODY_SECONDS = 1.0


@pytest.fixture
def silent() -> Silent:
    return Silent()


@pytest.fixture
def door(silent: Silent) -> Iterator[str]:
    """Where it speaks, one request at once."""
    yield from serve(silent, in_flight=1, limits=Limits(body_seconds=BODY_SECONDS))


def counted(address: str, name: str) -> float:
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def comes(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not what() and time.monotonic() < deadline:
        time.sleep(0.05)
    return what()


def half_a_request(address: str) -> socket.socket:
    """A connection on which the head of a request was sent, and a part of its body."""
    where = urlsplit(address)
    line = socket.create_connection((where.hostname, where.port), PATIENCE_SECONDS)
    line.sendall(b"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
    return line


@pytest.mark.parametrize(
    "changes",
    [{"response_format": "mp3", "stream": False}, {"response_format": "wav"}, {"stream_format": "sse"}],
    ids=["whole", "stream", "events"],
)
def test_who_loses_patience_before_the_first_byte_gives_up_the_take(silent: Silent, door: str, changes: dict) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{door}/v1/audio/speech", json=USUAL | changes, timeout=0.5)
    assert silent.closed.wait(PATIENCE_SECONDS / 3)
    assert comes(lambda: counted(door, 'pcg_requests_total{status="499"}') == 1)
    assert httpx.post(f"{door}/v1/audio/speech", json=USUAL).json()["error"]["message"] == "It was closed."  # and not 429


def test_a_take_that_begins_when_its_client_has_left_is_given_up_at_once(silent: Silent, door: str) -> None:
    silent.slow.clear()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{door}/v1/audio/speech", json=USUAL, timeout=0.5)
    assert comes(lambda: counted(door, 'pcg_requests_total{status="499"}') == 1)
    assert silent.asked.is_set()
    assert not silent.closed.is_set()
    silent.slow.set()
    assert silent.closed.wait(PATIENCE_SECONDS / 3)


def test_a_slow_body_counts_as_a_request_and_is_not_waited_for_without_end(door: str) -> None:
    with closing(half_a_request(door)) as line:
        time.sleep(BODY_SECONDS / 4)
        assert httpx.post(f"{door}/v1/audio/speech", json=USUAL).status_code == 429
        with closing(HTTPResponse(line)) as answer:  # head and body may come apart
            answer.begin()
            assert answer.status == 408
            assert json.load(answer)["error"]["message"] == "The body took longer than 1 s."
        assert httpx.post(f"{door}/v1/audio/speech", json={}).status_code == 400


def test_who_leaves_in_the_middle_of_a_body_is_no_error(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pcg.errors.LOG", tmp_path / "errors.log")
    half_a_request(door).close()
    assert comes(lambda: counted(door, 'pcg_requests_total{status="499"}') == 1)
    assert counted(door, "pcg_requests_total") == 1
    assert not list(tmp_path.iterdir())


def test_who_leaves_a_stream_gives_up_the_take(synthesizer: Synthesizer) -> None:
    for address in serve(SpeechService(synthesizer, rows=1, positions=1400)):
        with httpx.stream("POST", f"{address}/v1/audio/speech", json=LONG | {"response_format": "wav"}, timeout=60) as answer:
            pieces = answer.iter_bytes()  # held, as the answer ends with it
            next(pieces)
            assert counted(address, "pcg_speaking") == 1
        assert comes(lambda: counted(address, "pcg_speaking") == 0)  # noqa: B023
