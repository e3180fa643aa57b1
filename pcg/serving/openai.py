"""OpenAI's speech endpoint: `create_api` answers its requests, with the settings of a take beside OpenAI's fields.

A request passes `Guard` (names and origins), `Bodies` (size and time) and `SpeechApi` (requests of one address at once, key,
body, model, voice), which encodes a take while the service speaks it.
"""

import asyncio
import base64
import json
import re
import secrets
import socket
from collections import Counter as Tally
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import time
from typing import TYPE_CHECKING, Any, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from pcg.errors import InputError, PCGError, counted, unexpected
from pcg.files import __version__
from pcg.serving.encoding import Encoder, Tempo
from pcg.serving.protection import LIMITS, NOWHERE, Bodies, Guard, Limits, current_visitor
from pcg.serving.speech_service import Busy, Lost, SpeechService
from pcg.settings import Checked, Settings, bounds
from pcg.take import Sound, Take
from pcg.text.prompt import Reference

if TYPE_CHECKING:
    from pcg.serving.replicas import FarSpeech, Replicas
    from pcg.serving.speech_service import Speech

    Service = SpeechService | Replicas

SPEECH, VOICES, UPLOADS = "/v1/audio/speech", "/v1/audio/voices", ".uploads"
STAND_INS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts", "kokoro")
"""Models that clients ask for unless they are told otherwise: here they stand for the served one."""
STAND_IN_VOICES = {
    "alloy": 0, "af_heart": 0, "marin": 0, "coral": 1, "fable": 1, "shimmer": 1, "nova": 2, "sage": 2,
    "ash": 3, "cedar": 3, "onyx": 3, "ballad": 4, "echo": 4, "verse": 4, "af_bella": 1, "af_sky": 2, "am_michael": 3,
}  # fmt: skip
"""OpenAI's voices, and some of Kokoro's, as numbers of a voice of the model: the embedded one has three women, then two men."""
VOICE_NAME = re.compile("[a-z0-9_-]{1,40}")
KNOBS = frozenset(Settings.model_fields)
LEFT = 499
"""The status, as nginx has it, of a request whose client went away before it was answered; it is counted, never read."""
KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
RETRY = {"retry-after": "1"}
FIELDS = {
    "text": "input", "text with its reference": "input", "pause": "input", "audio file": "audio_sample",
    "recording": "audio_sample", "sample rate": "audio_sample", "transcript": "ref_text",
}  # fmt: skip
"""By the names in errors of the engine: the fields that a client knows."""
MEDIA = {
    "mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav", "pcm": "audio/pcm"
}  # fmt: skip
FIGURES = (
    "tokens", "audio_seconds", "wall_seconds", "tokens_per_second", "rtf", "acceptance_rate", "mean_acceptance_length",
    "hit_limit",
)  # fmt: skip


class SpeechRequest(Checked):
    """OpenAI's fields of a request for speech. stream: false: answer when all is spoken, with the take's figures in headers."""

    model: str = Field("", description="the name of a model; empty for the one that is served")
    input: str = Field(description="a text")
    voice: str = Field(description="the name of a voice")
    response_format: Literal[*MEDIA] = "mp3"
    speed: float = Field(1.0, ge=0.5, le=2, description="a number from 0.5 to 2")
    stream_format: Literal["audio", "sse"] = "audio"
    stream: bool = True


def read_request(body: object, method: str, strict: bool = False) -> tuple[SpeechRequest, Settings, list[str]]:
    """Return the request, the settings of its take, and the names of unknown fields, which `strict` refuses. Fields that are
    null count as left out, and a seed is drawn where there is none.

    Raises InputError for the first field that is missing or out of range.
    """
    if not isinstance(body, dict):
        raise InputError("body", type(body).__name__, "a JSON object")
    given = {name: value for name, value in body.items() if value is not None}
    request = SpeechRequest(**{name: given[name] for name in SpeechRequest.model_fields if name in given})
    seed = secrets.randbelow(int(bounds("seed").high) + 1)
    knobs = {name: given[name] for name in KNOBS if name in given}
    ignored = sorted(given.keys() - SpeechRequest.model_fields.keys() - KNOBS)
    if strict and ignored:
        raise InputError("body", f"with {ignored[0][:40]}", "without it: there is no such field")
    return request, Settings.from_dict({"method": method, "seed": seed} | knobs), ignored


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(
        self, error: PCGError, status: int = 400, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(str(error))
        self.error, self.status, self.code, self.headers = error, status, code, headers

    def body(self) -> dict[str, object]:
        """Return the error in OpenAI's shape."""
        kind = KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        message, param = str(self.error), getattr(self.error, "field", None)
        if param in FIELDS:
            message, param = re.sub("^(text|audio file|recording|transcript)", FIELDS[param], message), FIELDS[param]
        return {"error": {"message": message, "type": kind, "param": param, "code": self.code}}

    def answer(self) -> JSONResponse:
        """Return the response."""
        return JSONResponse(self.body(), self.status, self.headers)


def refusal(error: Exception) -> Refusal:
    """Return the answer to a request that ended in `error`."""
    match error:
        case Refusal():
            return error
        case Busy():
            return Refusal(error, 429, "rate_limit_exceeded", RETRY)
        case Lost():
            return Refusal(error, 503, "replica_lost", RETRY)
        case PCGError():
            return Refusal(error)
        case ClientDisconnect():
            return Refusal(PCGError("The client left before it was answered."), LEFT)
        case HTTPException():
            sentence = NOWHERE if error.status_code == 404 else f"{str(error.detail).rstrip('.')}."
            return Refusal(PCGError(sentence), error.status_code, headers=error.headers)
    return Refusal(unexpected(error), 500)


class Meters:
    """The figures of /metrics. load: returns how many takes wait for a row, and how many are spoken."""

    def __init__(self, load: Callable[[], tuple[int, int]]) -> None:
        self.registry = CollectorRegistry()
        own = {"registry": self.registry}
        self.requests = Counter("pcg_requests", "Requests for speech, by status", ["status"], **own)
        self.takes = Counter("pcg_takes", "Takes that were spoken to the end, by method", ["method"], **own)
        self.tokens = Counter("pcg_tokens", "Speech tokens of these takes", **own)
        self.audio = Counter("pcg_audio_seconds", "Seconds of their sound", **own)
        self.by_position = {
            what: Counter(f"pcg_{what}_tokens", f"Tokens that were {what}, by rule and position", ["rule", "position"], **own)
            for what in ("drafted", "tested", "accepted")
        }
        lengths = "Drafted tokens that a round accepted, by rule"
        self.lengths = Histogram("pcg_accepted_length", lengths, ["rule"], buckets=range(17), **own)
        Gauge("pcg_waiting", "Takes that wait for a row", **own).set_function(lambda: load()[0])
        Gauge("pcg_speaking", "Takes that have a row", **own).set_function(lambda: load()[1])

    def count(self, take: Take) -> None:
        """Count a finished take."""
        self.takes.labels(take.settings.method).inc()
        self.tokens.inc(len(take.tokens))
        self.audio.inc(take.audio_seconds)
        rule = f"{take.settings.method}-block" if take.settings.verification == "block" else take.settings.method
        for round_ in take.rounds:
            if round_.drafted:
                self.lengths.labels(rule).observe(round_.accepted)
        for what, counts in take.counts_by_position.items():
            for position, count in enumerate(counts, 1):
                self.by_position[what].labels(rule, position).inc(count)


class StreamedAnswer(StreamingResponse):
    """A streaming response that closes `source`, from which its content is made, when nothing more is sent, for any reason."""

    def __init__(
        self, content: AsyncIterator[bytes], source: AsyncIterator[object], kind: str, headers: dict[str, str]
    ) -> None:
        super().__init__(content, media_type=kind, headers=headers)
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._source):
            await super().__call__(scope, receive, send)


class SpeechApi:
    """The handlers of the endpoint's routes. names: of the model; lists show the first. most: requests of one address at once.
    strict: refuse unknown fields. folder: of voices that clients record or `pcg export-voice` wrote."""

    def __init__(
        self,
        service: "Service",
        names: tuple[str, ...],
        api_key: str | None,
        limits: Limits,
        most: int,
        strict: bool,
        folder: Path | None,
    ) -> None:
        self._service, self._names, self._key, self._limits = service, names, api_key, limits
        self._most, self._strict, self._folder = most, strict, folder
        self._begun, self.meters = int(time()), Meters(self._load)
        self._open: Tally[str] = Tally()
        self._room = service.offer.rows + limits.waiting
        # A waiting request holds a thread.
        self._threads = CapacityLimiter(self._room)

    async def speech(self, request: Request) -> Response:
        """Answer a request; it counts as one of its address from before its body is read until its take is over."""
        visitor, place, response = current_visitor(), ExitStack(), None
        try:
            if self._open[visitor] >= self._most:
                raise Busy(f"You have {counted(self._most, 'request')} here already: wait for one of them.")
            if self._open.total() >= self._room:
                raise Busy("Too many takes are waiting already: try again a little later.")
            self._open[visitor] += 1
            place.callback(self._leave, visitor)
            self._check_key(request)
            try:
                body = json.loads(await request.body())
            except (ValueError, RecursionError):
                raise PCGError("The body is no JSON.") from None
            asked, settings, ignored = read_request(body, self._service.offer.methods[-1], self._strict)
            self._check_model(asked.model or self._names[0])
            pieces = self._pieces(asked, settings, *self._voice(asked.voice), place)
            response = await _unless_left(request.receive, _answer(asked, settings, pieces))
            if ignored:
                response.headers["x-ignored"] = ", ".join(re.sub("[^!-~]", "?", name[:40]) or "?" for name in ignored[:20])
        except Exception as error:
            response = refusal(error).answer()
        finally:
            if not isinstance(response, StreamedAnswer):
                place.close()
        self.meters.requests.labels(response.status_code).inc()
        return response

    async def _pieces(
        self, asked: SpeechRequest, settings: Settings, voice: str, reference: Reference | None, place: ExitStack
    ) -> AsyncIterator[bytes | Take]:
        """Yield nothing when the first sound is there, then encoded sound as it is spoken, and the take at its end. Closing the
        generator cancels the take; then the client's `place` among those who are answered is closed."""
        rate = self._service.offer.sample_rate
        encoder = Encoder(asked.response_format, rate, not (asked.stream or asked.stream_format == "sse"))
        tempo = Tempo(asked.speed, rate) if asked.speed != 1 else None
        in_thread = partial(to_thread.run_sync, limiter=self._threads, abandon_on_cancel=True)
        speech: Speech | FarSpeech | None = None
        heard = closed = False

        def begin() -> None:
            nonlocal speech
            own = {"reference": reference} if reference else {}
            speech = self._service.speak(asked.input, settings, voice, stream=True, **own)
            if closed:  # the client left before there was anything to close
                speech.close()

        try:
            await in_thread(begin)
            while not isinstance(step := await in_thread(next, speech), Take):
                if isinstance(step, Sound) and len(step.samples):
                    if not heard:
                        heard = True
                        yield b""
                    if piece := encoder.push(tempo.push(step.samples) if tempo else step.samples):
                        yield piece
            if not heard:
                raise Refusal(PCGError("The model ended before it spoke: ask again, or with another seed."), 500, "no_speech")
            self.meters.count(step)
            yield (encoder.push(tempo.finish()) if tempo else b"") + encoder.finish()
            yield step
        finally:
            closed = True
            if speech is not None:
                speech.close()
            place.close()

    def _leave(self, visitor: str) -> None:
        self._open[visitor] -= 1
        self._open = +self._open  # without zeros

    def _load(self) -> tuple[int, int]:
        takes, rows = self._open.total(), self._service.offer.rows
        return max(0, takes - rows), min(takes, rows)

    @property
    def _stand_ins(self) -> dict[str, str]:
        """By the names of others' voices: those that stand for them."""
        own = self._service.offer.voices
        return {name: own[number % len(own)] for name, number in STAND_IN_VOICES.items() if name not in own}

    @property
    def _recorded(self) -> dict[str, Path]:
        return {path.stem: path for path in sorted(self._folder.glob("*.safetensors"))} if self._folder else {}

    def _voice(self, name: str) -> tuple[str, Reference | None]:
        """Return the name of a voice of the model, or that of a recorded one and its reference."""
        if name not in self._service.offer.voices and name in self._recorded:
            return name, self._service.synthesizer.voice.read_reference(self._recorded[name])
        return self._stand_ins.get(name, name), None

    async def voices(self, request: Request) -> JSONResponse:
        """List the voices, or keep the voice of a recording."""
        self._check_key(request)
        if request.method == "POST":
            return await self._record(request)
        own = [{"id": name, "name": name} for name in (*self._service.offer.voices, *self._recorded)]
        others = [{"id": name, "name": name, "stands_for": voice} for name, voice in self._stand_ins.items()]
        return JSONResponse({"voices": own + others})

    async def _record(self, request: Request) -> JSONResponse:
        """Keep the voice of a recording whose speaker consents; its words are recognised where none are given."""
        if self._folder is None:
            raise Refusal(PCGError("This server takes no recordings: it runs without --voices."), 403)
        async with request.form(max_files=1, max_fields=8) as form:
            name, words, recording = form.get("name"), form.get("ref_text") or "", form.get("audio_sample")
            if form.get("consent") != "true":
                raise InputError("consent", form.get("consent"), "true: the speaker agrees that this voice is used")
            if not isinstance(name, str) or not VOICE_NAME.fullmatch(name):
                raise InputError("name", name, "1 to 40 of the characters a-z, 0-9, _ and -")
            if not isinstance(recording, UploadFile) or not isinstance(words, str):
                raise InputError("audio_sample", None, "a recording")
            if name in (*self._service.offer.voices, *self._stand_ins, *self._recorded):
                raise Refusal(InputError("name", name, "another one: there is such a voice"), 409)
            if len(self._recorded) >= self._limits.voices:
                raise Refusal(PCGError(f"This server keeps {counted(self._limits.voices, 'voice')} already."), 507)
            with NamedTemporaryFile(dir=self._folder / UPLOADS) as file:
                file.write(await recording.read())
                file.flush()
                await to_thread.run_sync(self._keep, name, Path(file.name), words)
        return JSONResponse({"id": name, "object": "audio.voice", "name": name, "created_at": int(time())})

    def _keep(self, name: str, recording: Path, words: str) -> None:
        from pcg.asr.judges import understand  # recognisers take a second to import

        voice = self._service.synthesizer.voice
        reference = voice.reference_from_audio(recording, words, partial(understand, sample_rate=voice.codec.sample_rate))
        voice.write_reference(self._folder / f"{name}.safetensors", reference)

    async def models(self, request: Request) -> JSONResponse:
        """List the models."""
        self._check_key(request)
        return JSONResponse({"object": "list", "data": [self._described(name) for name in (self._names[0], *STAND_INS)]})

    async def one_model(self, request: Request, name: str) -> JSONResponse:
        """Describe a model."""
        self._check_key(request)
        self._check_model(name)
        return JSONResponse(self._described(name))

    async def health(self) -> JSONResponse:
        """Tell that the server runs, and how many takes wait and are spoken."""
        waiting, speaking = self._load()
        told = {"status": "ok", "model": self._names[0], "version": __version__}
        return JSONResponse(told | {"waiting": waiting, "speaking": speaking})

    async def metrics(self) -> Response:
        """Tell the figures for Prometheus."""
        return Response(generate_latest(self.meters.registry), media_type=CONTENT_TYPE_LATEST)

    def _described(self, name: str) -> dict[str, object]:
        """root: the model that is served under this name."""
        return {"id": name, "object": "model", "created": self._begun, "owned_by": "pcg-lab", "root": self._names[0]}

    def _check_key(self, request: Request) -> None:
        sent = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        if self._key is not None and not secrets.compare_digest(sent, self._key.encode()):
            raise Refusal(PCGError("The API key is missing or wrong."), 401, "invalid_api_key")

    def _check_model(self, name: str) -> None:
        if name not in (*self._names, *STAND_INS):
            raise Refusal(PCGError(f"There is no model {name[:80]!r} here, but {self._names[0]!r}."), 404, "model_not_found")


async def _answer(asked: SpeechRequest, settings: Settings, pieces: AsyncIterator[bytes | Take]) -> Response:
    """Wait for the first sound, or for all. Errors before that are raised; a later one breaks the answer off."""
    await anext(pieces)
    known, kind = {"method": settings.method, "seed": settings.seed}, MEDIA[asked.response_format]
    headers = {f"x-pcg-{name}": str(value) for name, value in known.items()}
    if asked.stream_format == "sse":
        return StreamedAnswer(_events(asked, known, pieces), pieces, "text/event-stream", headers)
    if asked.stream:
        return StreamedAnswer((piece async for piece in pieces if isinstance(piece, bytes)), pieces, kind, headers)
    *encoded, take = [piece async for piece in pieces]
    figures = _figures(take) | {"usage": _usage(asked, take)}
    headers |= {f"x-pcg-{name.replace('_', '-')}": json.dumps(value) for name, value in figures.items()}
    return Response(b"".join(encoded), media_type=kind, headers=headers)


async def _events(asked: SpeechRequest, known: dict[str, object], pieces: AsyncIterator[bytes | Take]) -> AsyncIterator[bytes]:
    """Return the pieces as events in base64, the last with the figures of the take, or with an error."""

    def event(value: dict[str, object]) -> bytes:
        return f"data: {json.dumps(value)}\n\n".encode()

    try:
        async for piece in pieces:
            if isinstance(piece, Take):
                yield event({"type": "speech.audio.done", "usage": _usage(asked, piece), "take": known | _figures(piece)})
            elif piece:
                yield event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode("ascii")})
    except Exception as error:
        yield event({"type": "error", **refusal(error).body()})


def _figures(take: Take) -> dict[str, object]:
    summary = take.summary()
    return {name: summary[name] for name in FIGURES}


def _usage(asked: SpeechRequest, take: Take) -> dict[str, object]:
    """Input counts as characters; drafted, tested and accepted tokens are counted by position in the draft."""
    count = {"input_tokens": len(asked.input), "output_tokens": len(take.tokens)}
    positions = {f"{what}_by_position": counts for what, counts in take.counts_by_position.items()}
    return count | {"total_tokens": sum(count.values())} | positions


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
    service: "Service",
    models: tuple[str, ...],
    api_key: str | None = None,
    hosts: Sequence[str] = (),
    limits: Limits = LIMITS,
    in_flight: int | None = None,
    origins: Sequence[str] = (),
    strict: bool = False,
    voices: Path | None = None,
) -> FastAPI:
    """Make the application.

    Args:
        service: speaks; it is closed when the application ends.
        models: names of its model; lists show the first.
        api_key: what a client has to send, if anything.
        hosts: names of this server beside those of the computer.
        in_flight: requests of one address at once, by default as many as the service has rows, and as many again that wait.
        origins: of pages that may ask from a browser; "*" for any.
        strict: refuse fields that it does not know; else they are ignored, and named in the header x-ignored.
        voices: the folder of voices that clients record; None: they may not.
    """
    api = SpeechApi(service, models, api_key, limits, in_flight or 2 * service.offer.rows, strict, voices)

    def answer(sentence: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
        return Refusal(PCGError(sentence), status, headers=headers).answer()

    names = (*hosts, socket.gethostname().lower())
    uploads = {"upload_path": VOICES, "folder": lambda: voices / UPLOADS, "answer": answer} if voices else {}
    cross = {"allow_methods": ["*"], "allow_headers": ["*"], "expose_headers": ["*"]}
    middleware = [
        *([Middleware(CORSMiddleware, allow_origins=origins, **cross)] if origins else []),
        Middleware(Guard, hosts=names, unexpected=lambda error: str(refusal(error)), answer=answer, origins=origins),
        Middleware(Bodies, limits=limits, **uploads),
    ]

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:  # in a thread, as the loop still has to send the errors to the waiting clients
            await to_thread.run_sync(service.close)

    async def refused(_: Request, error: Exception) -> JSONResponse:
        return refusal(error).answer()

    app = FastAPI(lifespan=lifespan, middleware=middleware, openapi_url=None)
    app.add_api_route(SPEECH, api.speech, methods=["POST"])
    app.add_api_route(VOICES, api.voices, methods=["GET", "HEAD", "POST"])
    for path, handler in {
        "/v1/models": api.models,
        "/v1/models/{name:path}": api.one_model,
        "/health": api.health,
        "/metrics": api.metrics,
    }.items():
        app.add_api_route(path, handler, methods=["GET", "HEAD"])
    for kind in (Refusal, PCGError, HTTPException):
        app.add_exception_handler(kind, refused)
    return app
