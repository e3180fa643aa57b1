"""OpenAI's speech endpoint: `create_api` answers its requests, with the settings of a take beside OpenAI's fields.

A request passes `Guard` (names and origins), `Bodies` (size and time), `Clients` (requests of one address at once), `SpeechApi`
(key, body, model) and `SpokenAnswer`, which encodes a take while the service speaks it.
"""

import asyncio
import base64
import json
import re
import secrets
import socket
import struct
from collections import Counter as Tally
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import soundfile
import soxr
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pcg.errors import InputError, PCGError, counted, unexpected
from pcg.files import __version__
from pcg.serving.protection import LIMITS, NOWHERE, Bodies, Guard, Limits, current_visitor
from pcg.serving.speech_service import Busy, Lost, SpeechService
from pcg.settings import Checked, Settings, bounds
from pcg.take import Sound, Take

if TYPE_CHECKING:
    from pcg.serving.replicas import FarSpeech, Replicas
    from pcg.serving.speech_service import Speech

SPEECH = "/v1/audio/speech"
KNOBS = ("method", "theta", "lookahead", "beta", "temperature", "seed")
LEFT = 499
"""The status, as nginx has it, of a request whose client went away before it was answered; it is counted, never read."""
KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
FIELDS_OF_INPUT = ("text", "text with its reference", "pause")
"""Fields that the engine names in its errors, and that a client knows as `input`."""
RAW_RATE = 24_000
"""Samples a second of `pcm`, which has no header: clients of that endpoint expect this rate."""
STREAMED = ("wav", "pcm")
UNKNOWN_SIZE = 0xFFFFFFFF
ENCODED = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}
MEDIA = {"wav": "audio/wav", "pcm": "audio/pcm", "flac": "audio/flac", "mp3": "audio/mpeg", "opus": "audio/ogg"}
FIGURES = (
    "tokens", "audio_seconds", "wall_seconds", "tokens_per_second", "rtf", "acceptance_rate", "mean_acceptance_length",
    "hit_limit",
)  # fmt: skip
FAILED, LEFT_ANSWER = "failed", "left"
"""Why an answer broke off: the take failed, or the client went away."""
FIRST_SOUND = (0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30)


def formats() -> Sequence[str]:
    """The formats that libsndfile can write here."""
    here = soundfile.available_formats()
    return [*STREAMED, *(n for n, (kind, how) in ENCODED.items() if kind in here and how in soundfile.available_subtypes(kind))]


class NamedVoice(BaseModel):
    """A voice as OpenAI names its newer ones."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: str


class SpeechRequest(Checked):
    """OpenAI's fields of a request for speech. wait: answer when all is spoken, with the take's figures in the headers."""

    model: str = Field(description="the name of a model")
    input: str = Field(description="a text")
    voice: str | NamedVoice = Field(description="the name of a voice, or an object whose id is one")
    response_format: Literal[*formats()] = "mp3"
    speed: float = Field(1.0, ge=1, le=1, description="1: this voice has a pace of its own")
    stream_format: Literal["audio", "sse"] = "audio"
    instructions: str = Field("", max_length=0, description="left out: this voice takes none")
    wait: bool = False

    @property
    def voice_name(self) -> str:
        return self.voice if isinstance(self.voice, str) else self.voice.id

    @property
    def whole(self) -> bool:
        """Whether all is spoken before the answer begins."""
        return self.wait or self.response_format not in STREAMED


def read_request(body: object, method: str) -> tuple[SpeechRequest, Settings]:
    """Read the body of a request for speech.

    Args:
        body: parsed JSON; settings that are null have their defaults, and a seed that is missing is drawn anew.
        method: the method where none is named.

    Raises:
        InputError: for the first field that is unknown, missing or out of range.
    """
    if not isinstance(body, dict):
        raise InputError("body", type(body).__name__, "a JSON object")
    if unknown := sorted(body.keys() - SpeechRequest.model_fields.keys() - set(KNOBS)):
        raise InputError("body", f"with {unknown[0][:40]}", "without it: there is no such field")
    request = SpeechRequest(**{name: value for name, value in body.items() if name not in KNOBS})
    given = {name: body[name] for name in KNOBS if body.get(name) is not None}
    seed = secrets.randbelow(int(bounds("seed").high) + 1)
    return request, Settings.from_dict({"method": method, "seed": seed} | given)


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, error: PCGError, status: int = 400, code: str | None = None) -> None:
        super().__init__(str(error))
        self.error, self.status, self.code = error, status, code

    def body(self) -> dict[str, object]:
        """In OpenAI's shape."""
        kind = KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        message, param = str(self.error), getattr(self.error, "field", None)
        if param in FIELDS_OF_INPUT:
            message, param = re.sub("^text", "input", message), "input"
        return {"error": {"message": message, "type": kind, "param": param, "code": self.code}}

    def answer(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status)


def refusal(error: Exception) -> Refusal:
    """The answer to a request that ended in `error`."""
    match error:
        case Refusal():
            return error
        case Busy():
            return Refusal(error, 429, "rate_limit_exceeded")
        case Lost():
            return Refusal(error, 503, "replica_lost")
        case PCGError():
            return Refusal(error)
        case ClientDisconnect():
            return Refusal(PCGError("The client left before it was answered."), LEFT)
        case HTTPException():
            sentence = NOWHERE if error.status_code == 404 else f"{str(error.detail).rstrip('.')}."
            return Refusal(PCGError(sentence), error.status_code)
    return Refusal(unexpected(error), 500)


class StreamEncoder:
    """Encodes sound as it comes: `pcm` is 16-bit samples at `RAW_RATE`; `wav` has a header before them, whose sizes are the
    largest that there are, as other speech servers stream it."""

    def __init__(self, name: str, rate: int) -> None:
        self._header = b"" if name == "pcm" else _wav_header(rate)
        self._resampler = soxr.ResampleStream(rate, RAW_RATE, 1, dtype="float32") if name == "pcm" else None

    def push(self, samples: np.ndarray, last: bool = False) -> bytes:
        """Encode samples `[N]` from -1 to 1; an empty result means that there is nothing to send yet."""
        if self._resampler:
            samples = self._resampler.resample_chunk(samples.astype(np.float32), last=last)
        header, self._header = (self._header, b"") if len(samples) or last else (b"", self._header)
        return header + _as_int16(samples)

    def finish(self) -> bytes:
        return self.push(np.zeros(0, np.float32), last=True)


class WholeEncoder:
    """Encodes sound when all of it is there, so that the header tells its length."""

    def __init__(self, name: str, rate: int) -> None:
        self._rate, (self._kind, self._how) = rate, ENCODED.get(name, ("WAV", "PCM_16"))
        self._pieces: list[bytes] = []

    def push(self, samples: np.ndarray) -> bytes:
        self._pieces.append(_as_int16(samples))
        return b""

    def finish(self) -> bytes:
        sound, samples = BytesIO(), np.frombuffer(b"".join(self._pieces), "<i2")
        soundfile.write(sound, samples, self._rate, format=self._kind, subtype=self._how)
        return sound.getvalue()


def _as_int16(samples: np.ndarray) -> bytes:
    return (samples.clip(-1, 1) * 32767).astype("<i2").tobytes()


def _wav_header(rate: int) -> bytes:
    """One channel of 16-bit PCM, of unknown length."""
    form = struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    size = struct.pack("<I", UNKNOWN_SIZE)
    return b"RIFF" + size + b"WAVEfmt " + form + b"data" + size


@dataclass
class Meters:
    """The figures of /metrics. The numbers of takes that are there now are asked of the service."""

    service: "SpeechService | Replicas"
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        own = {"registry": self.registry}
        self.requests = Counter("pcg_requests", "Requests for speech, by status", ["status"], **own)
        self.broken = Counter("pcg_broken_answers", "Answers that broke off after they had begun, by reason", ["reason"], **own)
        self.takes = Counter("pcg_takes", "Takes that were spoken to the end, by method", ["method"], **own)
        self.tokens = Counter("pcg_tokens", "Speech tokens of these takes", **own)
        self.audio = Counter("pcg_audio_seconds", "Seconds of their sound", **own)
        self.first = Histogram("pcg_first_sound_seconds", "Until the first sound was there", buckets=FIRST_SOUND, **own)
        for reason in (FAILED, LEFT_ANSWER):
            self.broken.labels(reason)  # told from the start, as 0
        Gauge("pcg_waiting", "Takes that wait for a row", **own).set_function(lambda: self.service.waiting)
        Gauge("pcg_speaking", "Takes that are decoded now", **own).set_function(lambda: self.service.speaking)

    def count(self, take: Take) -> None:
        self.takes.labels(take.settings.method).inc()
        self.tokens.inc(len(take.tokens))
        self.audio.inc(take.audio_seconds)


class StreamedAnswer(StreamingResponse):
    """A streaming response that closes `source`, from which its content is made, when nothing more is sent, for any reason."""

    def __init__(self, content: AsyncIterator[bytes], source: AsyncIterator[bytes], kind: str, headers: dict[str, str]) -> None:
        super().__init__(content, media_type=kind, headers=headers)
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._source):
            await super().__call__(scope, receive, send)


@dataclass
class SpokenAnswer:
    """The answer to one request for speech. `threads` limits the threads that wait for takes."""

    service: "SpeechService | Replicas"
    request: SpeechRequest
    settings: Settings
    meters: Meters
    threads: CapacityLimiter
    take: Take | None = None
    _streams: bool = False

    async def response(self) -> Response:
        """Speak until the first sound is there, or to the end. Errors before that are raised; a later one breaks the answer
        off."""
        pieces = self._pieces()
        sound = _resumed(await anext(pieces), pieces)
        headers = {f"x-pcg-{name}": str(value) for name, value in self._known().items()}
        kind = MEDIA[self.request.response_format]
        self._streams = self.request.stream_format == "sse" or not self.request.whole
        if self.request.stream_format == "sse":
            return StreamedAnswer(self._events(sound), pieces, "text/event-stream", headers)
        if self._streams:
            return StreamedAnswer(sound, pieces, kind, headers)
        body = b"".join([piece async for piece in sound])
        figures = {f"x-pcg-{name.replace('_', '-')}": json.dumps(value) for name, value in self._figures().items()}
        return Response(body, media_type=kind, headers=headers | figures)

    async def _pieces(self) -> AsyncIterator[bytes]:
        """Encoded sound as it is spoken. Closing the generator cancels the take."""
        name, begun, reason = self.request.response_format, perf_counter(), LEFT_ANSWER
        make = WholeEncoder if self.request.whole and name != "pcm" else StreamEncoder
        encoder = make(name, self.service.offer.sample_rate)
        speech: Speech | FarSpeech | None = None
        heard = closed = False

        def begin() -> None:
            nonlocal speech
            speech = self.service.speak(self.request.input, self.settings, self.request.voice_name, stream=True)
            if closed:  # the client left before there was anything to close
                speech.close()

        try:
            await self._in_thread(begin)
            while not isinstance(step := await self._in_thread(next, speech), Take):
                if isinstance(step, Sound) and len(step.samples):
                    if not heard:
                        self.meters.first.observe(perf_counter() - begun)
                    heard = True
                    if piece := encoder.push(step.samples):
                        yield piece
            self.take = step
            self.meters.count(step)
            yield encoder.finish()
        except Exception:
            reason = FAILED
            raise
        finally:
            closed = True
            if speech is not None:
                speech.close()
            if self._streams and self.take is None:
                self.meters.broken.labels(reason).inc()

    async def _events(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for piece in pieces:
                if piece:
                    yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode("ascii")})
        except Exception as error:
            yield _event({"type": "error", **refusal(error).body()})
            return
        usage = {"input_tokens": len(self.request.input), "output_tokens": self._figures()["tokens"]}
        usage["total_tokens"] = sum(usage.values())
        yield _event({"type": "speech.audio.done", "usage": usage, "take": self._known() | self._figures()})

    async def _in_thread(self, work: Callable[..., object], *arguments: object) -> object:
        return await to_thread.run_sync(work, *arguments, limiter=self.threads, abandon_on_cancel=True)

    def _known(self) -> dict[str, object]:
        return {"method": self.settings.method, "seed": self.settings.seed}

    def _figures(self) -> dict[str, object]:
        summary = self.take.summary()
        return {name: summary[name] for name in FIGURES}


async def _resumed(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """`first`, then the other pieces."""
    yield first
    async for piece in pieces:
        yield piece


def _event(value: dict[str, object]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


class Clients:
    """ASGI middleware for requests for speech: counts them by status, and allows `most` of one address at once, each from
    before its body is read until its answer has ended."""

    def __init__(self, app: ASGIApp, meters: Meters, most: int) -> None:
        self.app, self._meters, self._most = app, meters, most
        self._open: Tally[str] = Tally()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (scope["method"], scope["path"]) != ("POST", SPEECH):
            await self.app(scope, receive, send)
            return
        visitor = current_visitor()
        app, counts = self.app, self._open[visitor] < self._most
        if not counts:
            sentence = f"You have {counted(self._most, 'request')} here already: wait for one of them."
            app = refusal(Busy(sentence)).answer()
        self._open[visitor] += counts

        def leave() -> None:
            nonlocal counts
            self._open[visitor] -= counts
            counts = False
            self._open = +self._open  # without zeros

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._meters.requests.labels(message["status"]).inc()
            elif not message.get("more_body", False):  # before the client knows: it may send its next request at once
                leave()
            await send(message)

        try:
            await app(scope, receive, counting)
        finally:
            leave()


class SpeechApi:
    """The handlers of the endpoint's routes. names: of the model; lists show the first."""

    def __init__(self, service: "SpeechService | Replicas", names: tuple[str, ...], api_key: str | None, waiting: int) -> None:
        self._service, self._names, self._key = service, names, api_key
        self._begun, self.meters = int(time()), Meters(service)
        # A waiting request holds a thread.
        self._threads = CapacityLimiter(service.offer.rows + waiting)

    async def speech(self, request: Request) -> Response:
        try:
            self._check_key(request)
            asked, settings = read_request(await _read_json(request), self._service.offer.methods[-1])
            self._check_model(asked.model)
            answer = SpokenAnswer(self._service, asked, settings, self.meters, self._threads)
            return await _unless_left(request.receive, answer.response())
        except Exception as error:
            return refusal(error).answer()

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
        return Response(generate_latest(self.meters.registry), media_type=CONTENT_TYPE_LATEST)

    def _described(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": self._begun, "owned_by": "pcg-lab"}

    def _check_key(self, request: Request) -> None:
        sent = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        if self._key is not None and not secrets.compare_digest(sent, self._key.encode()):
            raise Refusal(PCGError("The API key is missing or wrong."), 401, "invalid_api_key")

    def _check_model(self, name: str) -> None:
        if name not in self._names:
            raise Refusal(PCGError(f"There is no model {name[:80]!r} here, but {self._names[0]!r}."), 404, "model_not_found")


async def _read_json(request: Request) -> object:
    body = await request.body()
    with suppress(ValueError, RecursionError):
        return json.loads(body)
    raise PCGError("The body is no JSON.")


async def _unless_left(receive: Receive, work: Coroutine[Any, Any, Response]) -> Response:
    """Return what `work` returns. If the client leaves before that, cancel `work` and raise ClientDisconnect: a client that
    ran out of patience asks again, and does not hear the first take."""

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":  # behind the body, nothing else comes from a client
            continue

    working, leaving = asyncio.create_task(work), asyncio.create_task(left())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


def create_api(
    service: "SpeechService | Replicas",
    model: str,
    api_key: str | None = None,
    hosts: Sequence[str] = (),
    limits: Limits = LIMITS,
    in_flight: int | None = None,
    alias: str | None = None,
) -> FastAPI:
    """Make the application.

    Args:
        service: speaks; it is closed when the application ends.
        model: the name that it tells, and answers to.
        api_key: what a client has to send, if anything.
        hosts: names of this server beside those of the computer.
        in_flight: requests of one address at once, by default as many as the service has rows, and as many again that wait.
        alias: another name of the model.
    """
    api = SpeechApi(service, (model, alias or model), api_key, limits.waiting)
    guard = Middleware(
        Guard,
        hosts=(*hosts, socket.gethostname().lower()),
        unexpected=lambda error: str(refusal(error)),
        answer=lambda sentence, status: Refusal(PCGError(sentence), status).answer(),
    )
    clients = Middleware(Clients, meters=api.meters, most=in_flight or 2 * service.offer.rows)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:  # in a thread, as the loop still has to send the errors to the waiting clients
            await to_thread.run_sync(service.close)

    async def refused(_: Request, error: Exception) -> JSONResponse:
        return refusal(error).answer()

    app = FastAPI(lifespan=lifespan, middleware=[guard, Middleware(Bodies, limits=limits), clients], openapi_url=None)
    app.add_api_route(SPEECH, api.speech, methods=["POST"])
    app.add_api_route("/v1/audio/voices", api.voices)
    app.add_api_route("/v1/models", api.models)
    app.add_api_route("/v1/models/{name:path}", api.one_model)
    app.add_api_route("/health", api.health)
    app.add_api_route("/metrics", api.metrics)
    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(HTTPException, refused)
    return app
