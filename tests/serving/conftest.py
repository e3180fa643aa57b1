"""A server of a few lines behind the middleware, asked without a network; a small voice, and a server that speaks with it."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import httpx
import pytest
from starlette.types import ASGIApp

from pcg.serving.speech_service import SpeechService
from pcg.synthesis.synthesizer import Synthesizer
from tests.serving.served import serve

Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask() -> Callable[[ASGIApp], Ask]:
    """Given an app, what sends it one request: `ask(app)(method, path, **options)`."""

    def of(app: ASGIApp) -> Ask:
        def send(method: str, path: str, **options: Any) -> httpx.Response:
            base, client = options.pop("base", "http://localhost"), options.pop("client", ("10.0.0.1", 1))

            async def once() -> httpx.Response:
                transport = httpx.ASGITransport(app, client=client)
                async with httpx.AsyncClient(transport=transport, base_url=base) as http:
                    return await http.request(method, path, **options)

            sent: Callable[[], Awaitable[httpx.Response]] = once
            return anyio.run(sent)

        return send

    return of


@pytest.fixture(scope="module")
def address(synthesizer: Synthesizer) -> Iterator[str]:
    """Where the small voice speaks, eight takes at once."""
    yield from serve(SpeechService(synthesizer, rows=8, positions=1400))
