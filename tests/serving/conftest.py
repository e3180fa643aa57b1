"""A server of a few lines behind the middleware, asked without a network."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx
import pytest
from starlette.types import ASGIApp

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
