"""What OpenAI's speech endpoint is asked, with this program's knobs beside it, and how it answers what is wrong."""

import asyncio
import base64
import json
import re
import secrets
import socket
from collections import Counter as Tally
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from time import perf_counter, time
from typing import Any, Literal, Protocol

import numpy as np
import soundfile
import soxr
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from pcg.errors import InputError, PCGError, counted, unexpected
from pcg.files import __version__
from pcg.serving.protection import LIMITS, Bodies, Guard, Limits, current_visitor
from pcg.serving.speech_service import Busy, Lost, Offer
from pcg.settings import Settings, bounds
from pcg.take import Round, Sound, Take

KNOBS = ("theta", "lookahead", "beta", "temperature")
LEFT = 499
"""The status, as nginx has it, of a request whose client went away before it was answered; it is counted, not heard."""
KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
FIELDS_OF_INPUT = ("text", "text with its reference", "pause")
"""What the engine complains of where it is `input` that a client has to change."""


class NamedVoice(BaseModel):
    """A voice as OpenAI names its newer ones."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: str


class SpeechRequest(BaseModel):
    """The body of POST /v1/audio/speech. Behind the fields of OpenAI stand those of `Settings`; None means its default.

    wait: answer when all is spoken, with the figures of the take in the headers. seed: drawn anew where it is None.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    model: str
    input: str
    voice: str | NamedVoice
    response_format: str = "mp3"
    speed: float = 1.0
    stream_format: Literal["audio", "sse"] = "audio"
    instructions: str = ""
    wait: bool = False
    method: str | None = None
    theta: float | None = None
    lookahead: int | None = None
    beta: float | None = None
    temperature: float | None = None
    seed: int | None = None

    @property
    def voice_name(self) -> str:
        return self.voice if isinstance(self.voice, str) else self.voice.id

    @property
    def whole(self) -> bool:
        """Whether all is spoken before the answer begins."""
        return self.wait or self.response_format not in STREAMED

    def settings(self, method: str) -> Settings:
        """Those of the take; `method` where none is named. Raises InputError for a value out of range."""
        given = {name: value for name in KNOBS if (value := getattr(self, name)) is not None}
        seed = secrets.randbelow(int(bounds("seed").high) + 1) if self.seed is None else self.seed
        return Settings(self.method or method, seed=seed, **given)


def read_request(body: object) -> SpeechRequest:
    """Raise InputError, in one sentence, for what is no request that can be answered."""
    if not isinstance(body, dict):
        raise InputError("body", type(body).__name__, "a JSON object")
    try:
        request = SpeechRequest.model_validate(body)
    except ValidationError as error:
        raise _sentence(error.errors()[0]) from error
    if request.response_format not in formats():
        raise InputError("response_format", request.response_format, "one of " + ", ".join(formats()))
    if request.speed != 1:
        raise InputError("speed", request.speed, "1: this voice has a pace of its own")
    if request.instructions:
        raise InputError("instructions", request.instructions, "left out: this voice takes none")
    return request


def _sentence(found: Any) -> InputError:
    """The first complaint of pydantic, in this program's words."""
    field = ".".join(str(part) for part in found["loc"] if part not in ("str", "NamedVoice"))
    if found["type"] == "missing":
        return InputError(field, None, "given")
    if found["type"] == "extra_forbidden":
        return InputError("body", f"with {field[:40]}", "without it: there is no such field")
    allowed = found["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return InputError(field, found["input"], allowed)


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


def refusal(error: Exception) -> Refusal:
    """How a client is told of whatever went wrong."""
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
            return Refusal(PCGError(f"{str(error.detail).rstrip('.')}."), error.status_code)
    return Refusal(unexpected(error), 500)


RAW_RATE = 24_000
"""Of `pcm`, which says nothing of its rate: clients of that endpoint play it at this one."""
STREAMED = ("wav", "pcm")
UNKNOWN = 0xFFFFFFFF
_WHOLE = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}
_MEDIA = {"wav": "audio/wav", "pcm": "audio/pcm", "flac": "audio/flac", "mp3": "audio/mpeg", "opus": "audio/ogg"}


def formats() -> Sequence[str]:
    """Those that libsndfile can write here."""
    here = soundfile.available_formats()
    return [*STREAMED, *(n for n, (kind, how) in _WHOLE.items() if kind in here and how in soundfile.available_subtypes(kind))]


def media_type(name: str) -> str:
    return _MEDIA[name]


class Encoder(Protocol):
    """Takes samples `[N]` from -1 to 1, and gives bytes; an empty answer means that there is nothing to send yet."""

    def push(self, samples: np.ndarray) -> bytes: ...

    def finish(self) -> bytes: ...


def make_encoder(name: str, rate: int, whole: bool) -> Encoder:
    """whole: all samples come before the first byte is sent, so that a header tells how many there are."""
    if name == "pcm":
        return _Raw(rate)
    if name == "wav" and not whole:
        return _Wav(rate)
    return _Whole(rate, *_WHOLE.get(name, ("WAV", "PCM_16")))


def _as_int16(samples: np.ndarray) -> bytes:
    return (samples.clip(-1, 1) * 32767).astype("<i2").tobytes()


class _Raw:
    """16-bit PCM at `RAW_RATE`, without a header."""

    def __init__(self, rate: int) -> None:
        self._resampler = soxr.ResampleStream(rate, RAW_RATE, 1, dtype="float32")

    def push(self, samples: np.ndarray) -> bytes:
        return _as_int16(self._resampler.resample_chunk(samples.astype(np.float32)))

    def finish(self) -> bytes:
        return _as_int16(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))


class _Wav:
    """WAV of unknown length, as other speech servers stream it: the sizes in its header are the largest that there are."""

    def __init__(self, rate: int) -> None:
        self._header = b"".join(
            [
                b"RIFF", UNKNOWN.to_bytes(4, "little"), b"WAVEfmt ", (16).to_bytes(4, "little"),
                *(n.to_bytes(size, "little") for n, size in ((1, 2), (1, 2), (rate, 4), (2 * rate, 4), (2, 2), (16, 2))),
                b"data", UNKNOWN.to_bytes(4, "little"),
            ]
        )  # fmt: skip

    def push(self, samples: np.ndarray) -> bytes:
        if not len(samples):
            return b""
        header, self._header = self._header, b""
        return header + _as_int16(samples)

    def finish(self) -> bytes:
        return self._header


class _Whole:
    def __init__(self, rate: int, kind: str, how: str) -> None:
        self._rate, self._kind, self._how = rate, kind, how
        self._pieces: list[np.ndarray] = []

    def push(self, samples: np.ndarray) -> bytes:
        self._pieces.append(samples)
        return b""

    def finish(self) -> bytes:
        sound = BytesIO()
        samples = np.frombuffer(b"".join(map(_as_int16, self._pieces)), "<i2")
        soundfile.write(sound, samples, self._rate, format=self._kind, subtype=self._how)
        return sound.getvalue()


FIGURES = (
    "tokens", "audio_seconds", "wall_seconds", "tokens_per_second", "rtf", "acceptance_rate", "mean_acceptance_length",
    "hit_limit",
)  # fmt: skip
FAILED, LEFT_ANSWER = "failed", "left"
"""Why an answer broke off: what spoke it failed, or the client went away."""
FIRST_SOUND = (0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30)


class Spoken(Protocol):
    """A take while it is spoken: `Sound`s, whatever else, and the `Take` last. `close` gives it up, from any thread."""

    def __next__(self) -> Round | Sound | Take: ...

    def close(self) -> None: ...


class Service(Protocol):
    """Who speaks: a `SpeechService`, or what stands for several of them."""

    offer: Offer

    @property
    def waiting(self) -> int: ...

    @property
    def speaking(self) -> int: ...

    def speak(self, text: str, settings: Settings, voice: str, *, stream: bool) -> Spoken: ...

    def close(self) -> None: ...


@dataclass
class Meters:
    """What /metrics tells. The takes that are there now are asked of the service."""

    service: Service
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


class Streamed(StreamingResponse):
    """An answer that is sent while it is spoken. `held` is closed when nothing more is sent, however that came about."""

    def __init__(self, pieces: AsyncIterator[bytes], kind: str, headers: dict[str, str], held: ExitStack) -> None:
        super().__init__(pieces, media_type=kind, headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


class Speaking:
    """One take that is asked for; `threads` are those that may wait for it. `held` is closed when the take has ended, and
    closing it before that gives the take up."""

    def __init__(
        self,
        service: Service,
        asked: SpeechRequest,
        settings: Settings,
        meters: Meters,
        threads: CapacityLimiter,
        held: ExitStack,
    ) -> None:
        self._service, self._asked, self._settings = service, asked, settings
        self._meters, self._threads, self._held = meters, threads, held
        self._begun = perf_counter()
        self._encoder = make_encoder(asked.response_format, service.offer.sample_rate, asked.whole)
        self._speech: Spoken | None = None
        self._take: Take | None = None
        self._heard = self._streams = self._failed = self._closed = False
        held.callback(self._end)

    async def answer(self) -> Response:
        """What goes wrong before the first sound is raised; what fails later cuts the answer off."""
        await self._in_thread(self._begin)
        first = await self._piece()
        known = {f"x-pcg-{name}": str(value) for name, value in self._known().items()}
        kind = media_type(self._asked.response_format)
        if self._asked.stream_format == "sse":
            return self._streamed(self._events(first), "text/event-stream", known)
        if not self._asked.whole:
            return self._streamed(self._bytes(first), kind, known)
        body = b"".join([piece async for piece in self._bytes(first)])
        figures = {f"x-pcg-{name.replace('_', '-')}": json.dumps(value) for name, value in self._figures().items()}
        return Response(body, media_type=kind, headers=known | figures)

    def _end(self) -> None:
        self._closed = True
        if self._speech is not None:
            self._speech.close()
        if self._take is not None:
            self._meters.count(self._take)
        elif self._streams:
            self._meters.broken.labels(FAILED if self._failed else LEFT_ANSWER).inc()

    def _begin(self) -> None:
        self._speech = self._service.speak(self._asked.input, self._settings, self._asked.voice_name, stream=True)
        if self._closed:  # in the meantime, when there was nothing to close yet
            self._speech.close()

    def _streamed(self, pieces: AsyncIterator[bytes], kind: str, headers: dict[str, str]) -> Streamed:
        self._streams = True
        return Streamed(pieces, kind, headers, self._held)

    async def _in_thread(self, work: Callable[..., object], *arguments: object) -> object:
        return await to_thread.run_sync(work, *arguments, limiter=self._threads, abandon_on_cancel=True)

    async def _piece(self) -> bytes:
        """The next bytes to send; b"" when the take is whole."""
        while self._take is None:
            step = await self._in_thread(next, self._speech)
            if isinstance(step, Take):
                self._take = step
            elif isinstance(step, Sound) and len(step.samples):
                if not self._heard:
                    self._heard = True
                    self._meters.first.observe(perf_counter() - self._begun)
                if piece := self._encoder.push(step.samples):
                    return piece
        return b""

    async def _bytes(self, piece: bytes) -> AsyncIterator[bytes]:
        try:
            yield piece
            while self._take is None:
                yield await self._piece()
            yield self._encoder.finish()
        except Exception:
            self._failed = True
            raise
        finally:  # before the client learns that this was all: it may ask for the next take at once
            self._held.close()

    async def _events(self, piece: bytes) -> AsyncIterator[bytes]:
        try:
            async for part in self._bytes(piece):
                if part:
                    yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(part).decode("ascii")})
        except Exception as error:
            yield _event({"type": "error", **refusal(error).body()})
            return
        usage = {"input_tokens": len(self._asked.input), "output_tokens": self._figures()["tokens"]}
        usage["total_tokens"] = sum(usage.values())
        yield _event({"type": "speech.audio.done", "usage": usage, "take": self._known() | self._figures()})

    def _known(self) -> dict[str, object]:
        return {"method": self._settings.method, "seed": self._settings.seed}

    def _figures(self) -> dict[str, object]:
        assert self._take is not None
        summary = self._take.summary()
        return {name: summary[name] for name in FIGURES}


def _event(value: dict[str, object]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


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
        finally:  # in a thread, as the loop still has to send the errors to the waiting clients
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
        # A waiting request holds a thread.
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
    that ran out of patience asks again, and what it asked before would go on without a listener."""
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
