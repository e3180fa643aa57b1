"""One decoding thread for many callers: `SpeechService.speak` queues a take and returns a `Speech`, which yields its steps."""

import atexit
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Condition, Event, Lock, Thread
from time import perf_counter

import torch

from pcg.decode.device_loop import DeviceBatch
from pcg.decode.speculative import Request, RunningBatch
from pcg.errors import InputError, PCGError, counted
from pcg.rules import Rule
from pcg.serving.protection import LIMITS
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Decoding, Synthesizer
from pcg.take import Round, Sound, Take
from pcg.text.prompt import Reference
from pcg.text.reading import check_text

ROWS = 16
POSITIONS = 1536
"""Prompt and speech of a chunk of text: a reference of ten seconds, ten slow seconds of speech, and some patience."""
STOPPED = "The take was stopped, as the server stops."


class Busy(PCGError):
    """Too many takes wait already; a later request may be served."""


class Lost(PCGError):
    """The replica that spoke is gone; another may serve the same request."""


@dataclass(frozen=True)
class Offer:
    """The abilities of a service: up to `rows` takes at once, with these methods and voices. notice: of the voice."""

    methods: tuple[str, ...]
    voices: tuple[str, ...]
    sample_rate: int
    rows: int
    notice: str = ""


class SpeechService:
    """Speaks for any number of callers with one voice. The thread starts with the first take; `close` ends it.

    Args:
        synthesizer: has the voice.
        rows: takes that are decoded at once.
        positions: of prompt and speech of a chunk.
        waiting: takes that may wait, in order.
        in_turns: decode one row a round, so that its time is measured alone. The row with the fewest tokens since it began is
            next, so that other load of the computer slows all rows alike; rows with a listener come before the others.
    """

    def __init__(
        self,
        synthesizer: Synthesizer,
        rows: int = ROWS,
        positions: int = POSITIONS,
        waiting: int = LIMITS.waiting,
        in_turns: bool = False,
    ) -> None:
        voice = synthesizer.voice
        self.offer = Offer(synthesizer.methods, tuple(voice.references), voice.codec.sample_rate, rows, voice.notice)
        self.synthesizer, self._most, self._in_turns = synthesizer, waiting, in_turns
        batch = RunningBatch if voice.device == "cpu" else DeviceBatch
        self._batch = batch(voice.target, voice.draft, rows, positions)
        self._waiting: list[Speech] = []
        self._speaking: dict[int, Speech] = {}
        self._said: dict[int, float] = {}  # tokens of each row, for `in_turns`
        self._changed, self._preparing = Condition(), Lock()
        self._closed = False
        self._thread = Thread(target=self._work, name="decoding", daemon=True)

    def speak(
        self,
        text: str,
        settings: Settings,
        voice: str,
        reference: Reference | None = None,
        rule: Rule | None = None,
        stream: bool = False,
        heard: bool = False,
    ) -> "Speech":
        """Queue a take; its tokens do not depend on other rows. heard: a listener hears it while it is made; such a take goes
        before others. Raises PCGError where too many wait, and for hierarchical takes, which need a separate batch."""
        if settings.hierarchical:
            raise InputError("hierarchical", "true", "false for a take among others")
        synthesizer, text = self.synthesizer, check_text(text)
        speaker = reference or synthesizer.voice.reference(voice)
        with self._preparing:  # groups are computed once
            rule = rule or synthesizer.rule(settings)
        generator = torch.Generator().manual_seed(settings.seed)
        decoder, chunks = synthesizer.decoder, synthesizer.chunks(text)
        requests = [decoder.request(chunk, speaker, settings, rule, generator) for chunk in chunks]
        for request in requests:
            self._batch.check(request)
        speech = Speech(self, requests, heard)
        speech.steps = synthesizer.voiced(text, settings, voice, speaker, speech.decode, stream)
        with self._changed:
            if self._closed:
                raise PCGError(STOPPED)
            if len(self._waiting) >= self._most:
                raise Busy(f"{counted(len(self._waiting), 'take')} are waiting already: try again a little later.")
            place = next((i for i, other in enumerate(self._waiting) if heard > other.heard), len(self._waiting))
            self._waiting.insert(place, speech)
            if not self._thread.ident:
                atexit.register(self.close)  # a thread that is still in compiled code at the end would abort the process
                self._thread.start()
            self._changed.notify()
        return speech

    def place(self, speech: "Speech") -> int:
        """Return the place in the queue, from 1; 0 if the take does not wait."""
        with self._changed:
            return self._waiting.index(speech) + 1 if speech in self._waiting else 0

    def leave(self, speech: "Speech") -> None:
        """Take a take out of the queue or, before the next round, of the batch."""
        with self._changed:
            speech.left = True
            if speech in self._waiting:
                self._waiting.remove(speech)
            self._changed.notify()
        speech.end(PCGError("The take was stopped."))

    def close(self) -> None:
        """Stop all takes and the thread."""
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()
        self._end_all(PCGError(STOPPED))

    def _work(self) -> None:
        """Decode, in a thread: at most one prompt, then a round, so that a row never waits for many prompts."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting or self._speaking)
                if self._closed:
                    return
                for row in [row for row, speech in self._speaking.items() if speech.left]:
                    self._batch.leave(row)
                    del self._speaking[row]
                speech = self._waiting.pop(0) if self._waiting and self._batch.free else None
            if speech:
                self.synthesizer.wait_until_warm()
                self._join(speech)
            if self._speaking:
                self._round()

    def _join(self, speech: "Speech") -> None:
        begun = perf_counter()
        try:
            row = self._batch.join(speech.requests.popleft())
        except Exception as error:
            speech.end(error)
            return
        with self._changed:
            self._said[row] = min((self._said[other] for other in self._speaking), default=0.0)
            self._speaking[row] = speech
        speech.begin(perf_counter() - begun)

    def _round(self) -> None:
        row = None
        if self._in_turns:
            row = min(self._speaking, key=lambda row: (not self._speaking[row].heard, self._said[row]))
        try:
            played = self._batch.step(row)
        except Exception as error:
            self._end_all(error)
            return
        longest = self.synthesizer.longest_seconds
        for row, round_ in played.items():
            speech = self._speaking[row]
            if isinstance(round_, Round):
                self._said[row] += len(round_.tokens)
                speech.say(round_)
                if speech.seconds > longest:  # the caller's thread checks this, too, unless its client has stopped reading
                    speech.left = True
                    speech.end(PCGError(f"The take was stopped after {longest:g} s: try a shorter text."))
            else:
                speech.end(round_)
            if not self._batch.speaks(row):
                with self._changed:
                    del self._speaking[row]
                    if speech.requests and not speech.left:  # one with more chunks continues before all that have not begun
                        self._waiting.insert(0, speech)
                speech.end_chunk()

    def _end_all(self, error: Exception) -> None:
        with self._changed:
            speeches = [*self._speaking.values(), *(self._waiting if self._closed else ())]
            self._speaking.clear()
        for speech in speeches:
            speech.end(error)


class Speech:
    """One take while it waits and is spoken: an iterator of the steps of `Synthesizer.speak`. The sound is made in the thread
    that iterates. `close` cancels the take at once, from any thread; without it, the take is decoded to its end.

    requests: chunks without a row yet. heard: whether it has a listener while it is made. rounds: decoded so far, even if the
    caller has not asked for them. left: it was cancelled. seconds: time that its prompts and rounds took.
    """

    steps: Iterator[Round | Sound | Take]

    def __init__(self, service: SpeechService, requests: Sequence[Request], heard: bool) -> None:
        self._service, self.requests, self.heard = service, deque(requests), heard
        self.rounds: list[Round] = []
        self.left, self.seconds = False, 0.0
        self._begun, self._decoded = Event(), Event()
        self._told: SimpleQueue[float | Round | Exception | None] = SimpleQueue()

    def __iter__(self) -> "Speech":
        return self

    def __next__(self) -> Round | Sound | Take:
        try:
            return next(self.steps)
        except Exception:
            self.close()  # the error may be one of this thread, while the row is still decoded
            raise

    def waits(self, seconds: float) -> bool:
        """Wait at most `seconds` for a row; return whether there is still none."""
        return not self._begun.wait(seconds)

    def decoding(self, seconds: float) -> bool:
        """Wait at most `seconds` for the last round without taking time from it; return whether it is still being decoded."""
        return not self._decoded.wait(seconds)

    @property
    def place(self) -> int:
        """See `SpeechService.place`."""
        return self._service.place(self)

    def close(self) -> None:
        """Cancel the take."""
        self._service.leave(self)

    def decode(self, _chunk: str) -> Decoding:
        """Wait until the next chunk's prompt was read; return its decoding, for `Synthesizer.voiced`."""
        return Decoding(self._next(), iter(self._next, None), elsewhere=True)

    def begin(self, prefill_seconds: float) -> None:
        """Note that a chunk has a row and its prompt was read."""
        self.seconds += prefill_seconds
        self._told.put(prefill_seconds)
        self._begun.set()

    def say(self, round_: Round) -> None:
        """Note a round."""
        self.seconds += round_.milliseconds / 1e3
        self.rounds.append(round_)
        self._told.put(round_)

    def end_chunk(self) -> None:
        """Note that a chunk has ended."""
        self._told.put(None)
        if not self.requests:
            self._decoded.set()

    def end(self, error: Exception) -> None:
        """End the take; the caller gets `error`."""
        self.requests.clear()
        self._told.put(error)
        self._begun.set()
        self._decoded.set()

    def _next(self) -> float | Round | None:
        told = self._told.get()
        if isinstance(told, Exception):
            raise told
        return told
