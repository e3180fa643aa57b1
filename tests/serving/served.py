"""The speech endpoint while a test asks it, and a service that says nothing."""

import json
import threading
import time
from collections.abc import Iterator

import httpx
import uvicorn

from pcg.errors import PCGError
from pcg.serving.openai import create_api
from pcg.serving.speech_service import Offer

PATIENCE_SECONDS = 30


def serve(service: object, **options: object) -> Iterator[str]:
    """Yield where `service` speaks under the name "tiny"; it ends with the server."""
    api = create_api(service, ("tiny",), **options)
    server = uvicorn.Server(uvicorn.Config(api, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(20)


def asked(address: str, headers: dict[str, str] | None = None, **body: object) -> httpx.Response:
    """Ask for "hello, yes!" by the first voice, unless `body` says otherwise."""
    usual = {"model": "tiny", "input": "hello, yes!", "voice": "one", "response_format": "wav"}
    return httpx.post(f"{address}/v1/audio/speech", content=json.dumps(usual | body), headers=headers, timeout=60)


class Silent:
    """A service of two rows whose takes say nothing until they are closed. `slow`: where it is cleared, a take does not even
    begin; `begun` counts the takes that have."""

    def __init__(self) -> None:
        self.offer = Offer(("pcg",), ("one",), 16_000, rows=2)
        self.slow, self.asked, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.begun = threading.Semaphore(0)
        self.slow.set()

    def speak(self, *text: object, **options: object) -> "Silent":
        self.asked.set()
        assert self.slow.wait(PATIENCE_SECONDS)
        return self

    def __next__(self) -> None:
        self.begun.release()
        assert self.closed.wait(PATIENCE_SECONDS)
        raise PCGError("It was closed.")

    def close(self) -> None:
        self.closed.set()
