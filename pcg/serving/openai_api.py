"""OpenAI's speech endpoint over a service that speaks: POST /v1/audio/speech, and what tools ask for beside it."""

import json
import re
import secrets
import socket
from collections import Counter as Tally
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import time

from anyio import CapacityLimiter
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from pcg.errors import PCGError, counted, unexpected
from pcg.files import __version__
from pcg.serving.bodies import Bodies
from pcg.serving.guard import Guard, current_visitor
from pcg.serving.limits import LIMITS, Limits
from pcg.serving.openai_answer import Meters, Service, Speaking
from pcg.serving.openai_request import Refusal, read_request, refusal
from pcg.serving.speech_service import Busy

OPEN_PATHS = re.compile(r"/v1/(?:audio/(?:speech|voices)|models(?:/[^/]+)?)|/health|/metrics")


def create_api(
    service: Service,
    model: str,
    api_key: str | None = None,
    hosts: Sequence[str] = (),
    limits: Limits = LIMITS,
    in_flight: int | None = None,
) -> FastAPI:
    """The application. model: the name that it answers to; api_key: what a client has to send, if anything; hosts: names of
    this server beside those of the computer; in_flight: requests of one address at once, by default as many as the service has
    rows, and as many again that wait."""
    names = (*hosts, socket.gethostname().lower())
    guard = Middleware(
        Guard,
        hosts=names,
        paths=OPEN_PATHS,
        frames=[],
        unexpected=lambda error: str(unexpected(error)),
        answer=lambda sentence, status: _answer(Refusal(PCGError(sentence), status)),
    )

    def no_uploads() -> None:
        raise AssertionError("this server takes no uploads")

    bodies = Middleware(Bodies, limits=limits, upload_path="", folder=no_uploads)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(lifespan=lifespan, middleware=[guard, bodies], openapi_url=None)
    api = _Api(service, model, api_key, limits, in_flight or 2 * service.offer.rows)
    app.add_api_route("/v1/audio/speech", api.speech, methods=["POST"])
    app.add_api_route("/v1/audio/voices", api.voices)
    app.add_api_route("/v1/models", api.models)
    app.add_api_route("/v1/models/{name}", api.one_model)
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
    def __init__(self, service: Service, model: str, api_key: str | None, limits: Limits, in_flight: int) -> None:
        self._service, self._model, self._key, self._in_flight = service, model, api_key, in_flight
        self._begun, self._meters = int(time()), Meters(service)
        self._asking: Tally[str] = Tally()
        # Whoever waits holds a thread.
        self._threads = CapacityLimiter(service.offer.rows + limits.waiting)

    async def speech(self, request: Request) -> Response:
        try:
            answer = await self._speak(request)
        except Refusal as refused:
            self._meters.requests.labels(refused.status).inc()
            raise
        self._meters.requests.labels(200).inc()
        return answer

    async def voices(self, request: Request) -> JSONResponse:
        self._check_key(request)
        return JSONResponse({"voices": [{"id": name, "name": name} for name in self._service.offer.voices]})

    async def models(self, request: Request) -> JSONResponse:
        self._check_key(request)
        return JSONResponse({"object": "list", "data": [self._described()]})

    async def one_model(self, request: Request, name: str) -> JSONResponse:
        self._check_key(request)
        self._check_model(name)
        return JSONResponse(self._described())

    async def health(self) -> JSONResponse:
        service = self._service
        told = {"status": "ok", "model": self._model, "version": __version__}
        return JSONResponse(told | {"waiting": service.waiting, "speaking": service.speaking})

    async def metrics(self) -> Response:
        return Response(generate_latest(self._meters.registry), media_type=CONTENT_TYPE_LATEST)

    def _described(self) -> dict[str, object]:
        return {"id": self._model, "object": "model", "created": self._begun, "owned_by": "pcg-lab"}

    def _check_key(self, request: Request) -> None:
        sent = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        if self._key is not None and not secrets.compare_digest(sent, self._key.encode()):
            raise Refusal(PCGError("The API key is missing or wrong."), 401, "invalid_api_key")

    def _check_model(self, name: str) -> None:
        if name != self._model:
            raise Refusal(PCGError(f"There is no model {name[:80]!r} here, but {self._model!r}."), 404, "model_not_found")

    async def _speak(self, request: Request) -> Response:
        self._check_key(request)
        visitor = current_visitor()
        try:
            asked = read_request(await _json(request))
            self._check_model(asked.model)
            settings = asked.settings(self._service.offer.methods[-1])
            if self._asking[visitor] >= self._in_flight:
                raise Busy(f"You have {counted(self._in_flight, 'request')} here already: wait for one of them.")
            self._asking[visitor] += 1
            speaking = Speaking(self._service, asked, settings, self._meters, self._threads, partial(self._leave, visitor))
            try:
                return await speaking.answer()
            except BaseException:
                speaking.close()
                raise
        except Refusal:
            raise
        except Exception as error:
            raise refusal(error) from error

    def _leave(self, visitor: str) -> None:
        self._asking[visitor] -= 1
        if not self._asking[visitor]:
            del self._asking[visitor]


async def _json(request: Request) -> object:
    body = await request.body()
    with suppress(ValueError, RecursionError):
        return json.loads(body)
    raise PCGError("The body is no JSON.")
