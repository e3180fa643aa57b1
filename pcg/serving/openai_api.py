"""OpenAI's speech endpoint over a service that speaks: POST /v1/audio/speech, and what tools ask for beside it."""

import asyncio
import json
import re
import secrets
import socket
from collections import Counter as Tally
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from time import time
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from pcg.errors import PCGError, counted
from pcg.files import __version__
from pcg.serving.bodies import Bodies
from pcg.serving.guard import Guard, current_visitor
from pcg.serving.limits import LIMITS, Limits
from pcg.serving.openai_answer import Meters, Service, Speaking
from pcg.serving.openai_request import Refusal, read_request, refusal
from pcg.serving.speech_service import Busy

OPEN_PATHS = re.compile(r"/v1/(?:audio/(?:speech|voices)|models(?:/.+)?)|/health|/metrics")


def create_api(
    service: Service,
    model: str,
    api_key: str | None = None,
    hosts: Sequence[str] = (),
    limits: Limits = LIMITS,
    in_flight: int | None = None,
    alias: str | None = None,
) -> FastAPI:
    """The application. model: the name that it tells, and answers to; api_key: what a client has to send, if anything; hosts:
    names of this server beside those of the computer; in_flight: requests of one address at once, by default as many as the
    service has rows, and as many again that wait; alias: another name of the model."""
    names = (*hosts, socket.gethostname().lower())
    guard = Middleware(
        Guard,
        hosts=names,
        paths=OPEN_PATHS,
        frames=[],
        unexpected=lambda error: str(refusal(error)),
        answer=lambda sentence, status: _answer(Refusal(PCGError(sentence), status)),
    )

    def no_uploads() -> None:
        raise AssertionError("this server takes no uploads")

    bodies = Middleware(Bodies, limits=limits, upload_path="", folder=no_uploads)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:  # in a thread, as the loop still has to send what is told to those who waited
            await to_thread.run_sync(service.close)

    app = FastAPI(lifespan=lifespan, middleware=[guard, bodies], openapi_url=None)
    names_of_model = (model, alias or model)
    api = _Api(service, names_of_model, api_key, limits, in_flight or 2 * service.offer.rows)
    app.add_api_route("/v1/audio/speech", api.speech, methods=["POST"])
    app.add_api_route("/v1/audio/voices", api.voices)
    app.add_api_route("/v1/models", api.models)
    app.add_api_route("/v1/models/{name:path}", api.one_model)
    app.add_api_route("/health", api.health)
    app.add_api_route("/metrics", api.metrics)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _refused)
    return app


async def _refused(_: Request, error: Exception) -> JSONResponse:
    return _answer(refusal(error))


def _answer(refused: Refusal) -> JSONResponse:
    return JSONResponse(refused.body(), refused.status)


class _Api:
    def __init__(self, service: Service, names: tuple[str, ...], api_key: str | None, limits: Limits, in_flight: int) -> None:
        self._service, self._names, self._key, self._in_flight = service, names, api_key, in_flight
        self._body_seconds = limits.body_seconds
        self._begun, self._meters = int(time()), Meters(service)
        self._asking: Tally[str] = Tally()
        # Whoever waits holds a thread.
        self._threads = CapacityLimiter(service.offer.rows + limits.waiting)

    async def speech(self, request: Request) -> Response:
        try:
            status, answer = 200, await self._speak(request)
        except Exception as error:
            refused = refusal(error)
            status, answer = refused.status, _answer(refused)
        self._meters.requests.labels(status).inc()
        return answer

    async def voices(self, request: Request) -> JSONResponse:
        self._check_key(request)
        return JSONResponse({"voices": [{"id": name, "name": name} for name in self._service.offer.voices]})

    async def models(self, request: Request) -> JSONResponse:
        self._check_key(request)
        return JSONResponse({"object": "list", "data": [self._described(self._names[0])]})

    async def one_model(self, request: Request, name: str) -> JSONResponse:
        self._check_key(request)
        self._check_model(name)
        return JSONResponse(self._described(name))

    async def health(self) -> JSONResponse:
        service = self._service
        told = {"status": "ok", "model": self._names[0], "version": __version__}
        return JSONResponse(told | {"waiting": service.waiting, "speaking": service.speaking})

    async def metrics(self) -> Response:
        return Response(generate_latest(self._meters.registry), media_type=CONTENT_TYPE_LATEST)

    def _described(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": self._begun, "owned_by": "pcg-lab"}

    def _check_key(self, request: Request) -> None:
        sent = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        if self._key is not None and not secrets.compare_digest(sent, self._key.encode()):
            raise Refusal(PCGError("The API key is missing or wrong."), 401, "invalid_api_key")

    def _check_model(self, name: str) -> None:
        if name not in self._names:
            raise Refusal(PCGError(f"There is no model {name[:80]!r} here, but {self._names[0]!r}."), 404, "model_not_found")

    async def _speak(self, request: Request) -> Response:
        self._check_key(request)
        held = ExitStack()  # what this request takes until it has ended
        try:
            self._enter(current_visitor(), held)
            asked = read_request(await self._json(request))
            self._check_model(asked.model)
            settings = asked.settings(self._service.offer.methods[-1])
            speaking = Speaking(self._service, asked, settings, self._meters, self._threads, held)
            return await _unless_left(request.receive, speaking.answer())
        except BaseException:
            held.close()
            raise

    def _enter(self, visitor: str, held: ExitStack) -> None:
        """Before the body is read: one that comes slowly takes room, too."""
        if self._asking[visitor] >= self._in_flight:
            raise Busy(f"You have {counted(self._in_flight, 'request')} here already: wait for one of them.")
        self._asking[visitor] += 1
        held.callback(self._leave, visitor)

    def _leave(self, visitor: str) -> None:
        self._asking[visitor] -= 1
        if not self._asking[visitor]:
            del self._asking[visitor]

    async def _json(self, request: Request) -> object:
        try:
            async with asyncio.timeout(self._body_seconds):
                body = await request.body()
        except TimeoutError as error:
            raise Refusal(PCGError(f"The body took longer than {self._body_seconds:g} s."), 408) from error
        with suppress(ValueError, RecursionError):
            return json.loads(body)
        raise PCGError("The body is no JSON.")


async def _unless_left(receive: Receive, work: Coroutine[Any, Any, Response]) -> Response:
    """What `work` gives. Where the client goes away before that, `work` is cancelled, and ClientDisconnect raised: a client
    that ran out of patience asks again, and what it asked before would speak on for nobody."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_left(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    """Behind the body, nothing else comes from a client."""
    while (await receive())["type"] != "http.disconnect":
        continue
