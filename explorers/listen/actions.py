"""Generates takes for the Listen tab: plain generators of steps over a Synthesizer. Knows nothing of gradio."""

import base64
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from time import perf_counter

import numpy as np

from explorers.session import Session, ShownTake, task_of
from pcg.audio import load_audio, raised, trim
from pcg.errors import PCGError, counted
from pcg.serving.speech_service import Speech, SpeechService
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import LONGEST_FILE_SECONDS
from pcg.take import Round, Sound, Take
from pcg.text.prompt import Reference
from pcg.text.reading import check_text, without_pauses

PROGRESS_SECONDS = 0.2
WAIT_SECONDS = 0.5
AHEAD_SECONDS = 0.3
LONGEST_IN_TURNS = 600
NEWEST = 12
"""Pieces of live sound that are sent, some six seconds: all pieces of minutes would hold the page up."""
ALL = "all"
RECORDING = "your recording"
CLIPPED, MOST_CLIPPED = 0.999, 0.005
NARROW_HERTZ, NARROW_SHARE = 3_700, 1e-5
PREPARING = "The page warms up; at its very first start this can take a minute. The takes on this page can be played meanwhile."
Speaking = Generator[Round | Sound | Take, None, None]
Transcribe = Callable[[np.ndarray], str]
"""Samples [N] at the rate of the codec -> the words."""


@dataclass(frozen=True)
class Request:
    """A request for takes. method: one method, beside which AR is timed, or ALL."""

    text: str
    voice: str
    settings: Settings
    method: str = ALL
    recording: str | None = None
    transcript: str = ""
    consent: bool = False

    def speaker(self, synthesizer: Synthesizer, transcribe: Transcribe | None) -> tuple[str, Reference | None]:
        """Return the voice's name, and the visitor's own reference, if any; `transcribe` recognises its words."""
        if not self.recording:
            synthesizer.voice.reference(self.voice)
            return self.voice, None
        if not self.consent:
            raise PCGError("To use a recorded voice, confirm that the speaker agrees.")
        return RECORDING, synthesizer.voice.reference_from_audio(Path(self.recording), self.transcript, transcribe)


@dataclass
class Live:
    """The take of `method` as far as it is generated. sounding: whether its sound is sent, too."""

    method: str
    text: str
    sounding: bool = False
    ended: bool = False
    calls: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def to_json(self, run: int, status: str) -> str:
        """Return for the page the tokens of each call, the words, and the newest pieces of sound, from the piece `first` on."""
        first = max(0, len(self.pieces) - NEWEST)
        own = {name: getattr(self, name) for name in ("method", "calls", "ended", "sounding")}
        words, pieces = without_pauses(self.text).split(), self.pieces[first:]
        return json.dumps({**own, "run": run, "status": status, "words": words, "first": first, "pieces": pieces})


@dataclass(frozen=True)
class Step:
    """A step of a run: the session so far, whether it has `changed`, the status, and the take that is being generated."""

    session: Session
    status: str
    live: Live | None = None
    changed: bool = False


@dataclass(frozen=True)
class Speaker:
    """Generates the takes: `keep` writes a take into a file, with its reference if a visitor's recording is the voice;
    `transcribe` recognises the words of a recording. service: where the takes of all visitors wait for one another."""

    synthesizer: Synthesizer
    keep: Callable[[Take, Reference | None], Path]
    transcribe: Transcribe | None = None
    service: SpeechService | None = None

    def speak(
        self, text: str, settings: Settings, voice: str, reference: Reference | None = None, stream: bool = False
    ) -> Speech | Speaking:
        """As `Synthesizer.speak`; hierarchical takes have a batch of their own, and do not wait. stream: a listener waits."""
        if self.service is None or settings.hierarchical:
            return self.synthesizer.speak(text, settings, voice, reference, stream=stream)
        return self.service.speak(text, settings, voice, reference, stream=stream, heard=stream)


def generate(speaker: Speaker, request: Request, session: Session) -> Iterator[Step]:
    """Generate the takes of a request. Closing the generator stops it.

    The take that is heard comes first and is not timed; then the methods are decoded in turns, so that other work on the
    computer slows all of them alike."""
    begun, synthesizer = perf_counter(), speaker.synthesizer
    text = check_text(request.text)
    if request.method != ALL:
        synthesizer.decoder.check_method(request.method)
    methods = tuple(name for name in synthesizer.methods if request.method in (ALL, name) or name == "ar")
    said = (text, *request.speaker(synthesizer, speaker.transcribe))
    session = session.with_marks(task_of(*said, request.settings), methods)
    first = request.method if request.method in methods else "pcg" if "pcg" in methods else methods[-1]
    yield Step(session, f"{first.upper()} begins.", changed=True)
    yield from _speak_turn(speaker, [first], request.settings, said, session, sounding=True)
    in_turns = speaker.service is not None and len(text) <= LONGEST_IN_TURNS
    for turn in [methods] if in_turns else [[method] for method in methods]:
        takes = yield from _speak_turn(speaker, turn, request.settings, said, session)
        for take in takes:
            sound = speaker.keep(take, said[2]) if len(take.audio) else None
            session = session.with_take(ShownTake.of(take, sound, said[2]))
        names = ", ".join(method.upper() for method in methods[: methods.index(turn[-1]) + 1])
        yield Step(session, f"{names} in {perf_counter() - begun:.1f} s.", changed=True)


def _speak_turn(
    speaker: Speaker,
    methods: Sequence[str],
    settings: Settings,
    said: tuple[str, str, Reference | None],
    session: Session,
    sounding: bool = False,
) -> Generator[Step, None, list[Take]]:
    """Speak the takes of one turn, and return them in their order. sounding: send the sound while it is made."""
    (text, voice, reference), takes = said, []
    names = " and ".join(filter(None, [", ".join(m.upper() for m in methods[:-1]), methods[-1].upper()]))

    def step(live: Live) -> Step:
        return Step(session, f"{names}: {counted(sum(live.calls), 'token')} in {counted(len(live.calls), 'call')}.", live)

    with ExitStack() as stack:
        speeches = [
            stack.enter_context(closing(speaker.speak(text, settings.for_method(method), voice, reference, stream=sounding)))
            for method in methods
        ]
        for queued in while_waiting(speeches[0], speaker.synthesizer):
            yield Step(session, queued)
        lives = [Live(method, text, sounding) for method in methods]
        # Wait until a service has decoded all of them. More work here would slow what is timed.
        for live, speech in cycle(zip(lives, speeches, strict=True)):
            growing = [other for other in speeches if isinstance(other, Speech) and other.decoding(0)]
            if sounding or not growing:
                break
            growing[0].decoding(PROGRESS_SECONDS)
            live.calls = [len(round_.tokens) for round_ in speech.rounds]
            yield step(live)
        for live, speech in zip(lives, speeches, strict=True):
            for ended in _grown(speech, live):
                yield step(live)
                takes += [ended] if ended else []
    return takes


def _grown(speech: Speech | Speaking, live: Live) -> Iterator[Take | None]:
    """Let `live` grow to the end of `speech`; report the first sound and the take at once, all else now and then."""
    reported, until = perf_counter(), 0.0
    live.calls = []
    for event in speech:
        first = False
        if isinstance(event, Round):
            live.calls.append(len(event.tokens))
        elif isinstance(event, Sound) and live.sounding and len(event.samples):
            samples = (event.samples.clip(-1, 1) * 32767).astype("<i2")
            live.pieces.append(base64.b64encode(samples.tobytes()).decode("ascii"))
            first = len(live.pieces) == 1
        live.ended = isinstance(event, Take)
        if live.ended or first or perf_counter() - reported >= PROGRESS_SECONDS:
            yield event if isinstance(event, Take) else None
            reported = perf_counter()
        # Making sound slows down what is timed: while a service decodes, no more is made than a listener needs.
        if isinstance(event, Sound) and isinstance(speech, Speech):
            until = max(until, perf_counter()) + len(event.samples) / event.sample_rate
            while perf_counter() < until - AHEAD_SECONDS and speech.decoding(AHEAD_SECONDS / 10):
                pass


def recording_note(synthesizer: Synthesizer, recording: str | None) -> str:
    """Say in one sentence what is wrong with a recording that should lend its voice; "" for a good one."""
    if not recording:
        return ""
    rate, (low, high) = synthesizer.voice.codec.sample_rate, synthesizer.voice.reference_seconds
    samples = load_audio(Path(recording), rate, LONGEST_FILE_SECONDS)
    speech = trim(raised(samples, rate), rate)
    if not len(speech):
        return "No speech was found in this recording: check the microphone, and record again."
    if len(speech) < low * rate:
        return f"This recording is too short: bring at least {low:g} seconds of speech."
    if (np.abs(samples) > CLIPPED).mean() > MOST_CLIPPED:
        return "This recording is clipped: record it again, quieter."
    power = np.square(np.abs(np.fft.rfft(speech)))
    if power[np.fft.rfftfreq(len(speech), 1 / rate) > NARROW_HERTZ].sum() < NARROW_SHARE * power.sum():
        return "This recording has no sound above 3,700 Hz, as on a telephone: the voice will be dull."
    if len(speech) > high * rate:
        return f"This recording is long: its first {high:g} seconds are used."
    return ""


def stopped(session: Session | None) -> str:
    """Name the takes that a stopped run has finished. session: that of the run, None before it began."""
    fresh = [key.upper() for key in session.cards if key not in session.outdated] if session else []
    return f"Stopped. Finished: {', '.join(fresh)}." if fresh else "Stopped before a take was finished."


def while_waiting(speech: object, synthesizer: Synthesizer) -> Iterator[str]:
    """Yield the place in the queue now and then until `speech` is being decoded; without a service it never waits."""
    while isinstance(speech, Speech) and speech.waits(WAIT_SECONDS):
        if synthesizer.preparing:
            yield PREPARING
            continue
        ahead = speech.place - 1
        before = "You are next" if ahead <= 0 else f"{counted(ahead, 'take')} of other visitors before yours"
        yield f"{before}. The takes on this page can be played meanwhile."
