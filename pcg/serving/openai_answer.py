"""The answer to one request for speech: a sound, whole or as it is spoken, or events."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

from anyio import CapacityLimiter, to_thread
from fastapi.responses import Response, StreamingResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import Receive, Scope, Send

from pcg.serving.openai_request import SpeechRequest, refusal
from pcg.serving.sound_formats import make_encoder, media_type
from pcg.serving.speech_service import Offer
from pcg.settings import Settings
from pcg.takes.take import Round, Sound, Take

FIGURES = (
    "tokens", "audio_seconds", "wall_seconds", "tokens_per_second", "rtf", "acceptance_rate", "mean_acceptance_length",
    "hit_limit",
)  # fmt: skip
FAILED, LEFT = "failed", "left"
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
        for reason in (FAILED, LEFT):
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
    whoever closes it before that gives the take up."""

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
            self._meters.broken.labels(FAILED if self._failed else LEFT).inc()

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
