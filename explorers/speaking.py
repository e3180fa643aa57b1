"""What the page does when asked to speak: plain generators of steps over a Synthesizer. Knows nothing of gradio."""

import secrets
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from explorers.components.readout import done_html, groups_html, message_html, progress_html
from explorers.reading import Reading, Session
from pcg.errors import InputError, PCGError
from pcg.prompt import Reference
from pcg.settings import METHODS, RANGES, Settings
from pcg.synthesizer import Synthesizer
from pcg.take import Round, Take
from pcg.text import check_text

PROGRESS_SECONDS = 0.2
SEEDS = 10_000
RECORDING = "your recording"
SPEECHLESS = "Type a text to hear what this changes."


@dataclass(frozen=True)
class Request:
    """What the page's controls say, in the order of the controls."""

    text: str
    voice: str
    theta: float
    lookahead: int
    beta: float
    temperature: float
    seed: int
    recording: str | None = None
    transcript: str = ""
    consent: bool = False

    def settings(self, method: str) -> Settings:
        return Settings(method, self.theta, self.lookahead, self.beta, self.temperature, self.seed)

    def speaker(self, synthesizer: Synthesizer) -> tuple[str, Reference | None]:
        """The voice's name, and the reference if it is the visitor's own."""
        if not self.recording:
            synthesizer.voice.reference(self.voice)
            return self.voice, None
        if not self.consent:
            raise PCGError("To speak with a recorded voice, tick that its speaker agrees.")
        if not self.transcript.strip():
            raise InputError("transcript", self.transcript, "the words that are said in the recording")
        return RECORDING, synthesizer.voice.reference_from_audio(Path(self.recording), self.transcript)


@dataclass(frozen=True)
class Step:
    """What has changed: always the status, and either nothing else, or every card's marks, or one finished take, with the
    `reference` that it was spoken with if that was the visitor's own."""

    session: Session
    status: str
    marks: bool = False
    take: Take | None = None
    reference: Reference | None = None


def say_four_ways(synthesizer: Synthesizer, request: Request, session: Session) -> Iterator[Step]:
    """The four takes of a full run, one after the other. Closing the generator stops it."""
    yield from _speak(synthesizer, METHODS, request, session)


def say_again(synthesizer: Synthesizer, method: str, request: Request, session: Session) -> Iterator[Step]:
    """One method alone, because one of its knobs moved; without a text there is nothing to say, and no error either."""
    if request.text.strip():
        yield from _speak(synthesizer, (method,), request, session)
    else:
        yield Step(session, message_html(SPEECHLESS))


def describe_groups(synthesizer: Synthesizer, theta: float) -> str:
    RANGES["theta"].check("theta", theta)
    return groups_html(theta, synthesizer.statistics(theta))


def new_seed() -> int:
    return secrets.randbelow(SEEDS)


def _speak(synthesizer: Synthesizer, methods: Sequence[str], request: Request, session: Session) -> Iterator[Step]:
    begun = perf_counter()
    text, settings = check_text(request.text), [request.settings(method) for method in methods]
    voice, reference = request.speaker(synthesizer)
    rate = token_rate(synthesizer)
    session = session.asked((text, voice, settings[0].temperature, settings[0].seed))
    yield Step(session, progress_html(methods[0], methods, (), (), rate), marks=True)
    for chosen, following in zip(settings, [*methods[1:], None], strict=True):
        with closing(synthesizer.speak(text, chosen, voice, reference)) as events:
            take = yield from _progress(events, session, chosen.method, methods, rate)
        session = session.heard(Reading.of(take), full_run=len(methods) > 1)
        finished = done_html(methods, perf_counter() - begun)
        status = progress_html(following, methods, (), (), rate) if following else finished
        yield Step(session, status, take=take, reference=reference)


def _progress(
    events: Iterator[Round | Take], session: Session, method: str, methods: Sequence[str], rate: float
) -> Generator[Step, None, Take]:
    """Report rounds now and then, and return the take."""
    kinds: list[str] = []
    sizes: list[int] = []
    told = perf_counter()
    for event in events:
        if isinstance(event, Take):
            return event
        kinds += event.kinds
        sizes += event.group_sizes
        if perf_counter() - told >= PROGRESS_SECONDS:
            yield Step(session, progress_html(method, methods, kinds, sizes, rate))
            told = perf_counter()
    raise AssertionError("a synthesizer ends with a take")


def token_rate(synthesizer: Synthesizer) -> float:
    """Speech tokens in a second of sound."""
    codec = synthesizer.voice.codec
    return codec.sample_rate / codec.hop
