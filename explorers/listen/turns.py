"""Takes that are generated side by side, and how a visitor hears of them meanwhile. Knows nothing of gradio."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import cycle, groupby
from pathlib import Path
from time import perf_counter

import numpy as np

from explorers.listen.live import Live
from explorers.session import Session
from explorers.shared.readout import message_html, progress_html
from explorers.shared.waiting import while_waiting
from pcg.serving.speech_service import Speech, SpeechService
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Round, Sound, Take
from pcg.text.prompt import Reference

PROGRESS_SECONDS = 0.2
AHEAD_SECONDS = 0.3
LONGEST_IN_TURNS = 600
Speaking = Generator[Round | Sound | Take, None, None]
Keep = Callable[[Take, Reference | None, bool], Path]
"""Writes a take, spoken by the visitor's own voice if there is one, whose sound was made in pieces or not."""
Transcribe = Callable[[np.ndarray], str]
"""`[N]` samples at the rate of the codec -> the words."""


@dataclass(frozen=True)
class Part:
    """One take to generate: on the card `key`, the card's own `name` if a preset gave it one, and whether it joins the earlier
    takes of that card."""

    key: str
    settings: Settings
    name: str = ""
    joins: bool = False


@dataclass(frozen=True)
class CompareStep:
    """What has changed: always the status, and either nothing else, or every card's marks and the line on the `groups`, or the
    card `new`, which has one more take. done: whether that was the last one. live: the take that is being generated.
    recognised: see `CompareRequest.recognised`."""

    session: Session
    status: str
    live: Live | None = None
    marks: bool = False
    groups: str = ""
    done: bool = False
    new: str | None = None
    recognised: str | None = None


@dataclass(frozen=True)
class Speaker:
    """What generates the takes: `keep` writes a take into a file; `transcribe` recognises the words of a recording. service:
    where takes of all visitors wait for one another; None where something else sees to that."""

    synthesizer: Synthesizer
    keep: Keep
    transcribe: Transcribe | None = None
    service: SpeechService | None = None

    def speak(
        self, text: str, settings: Settings, voice: str, reference: Reference | None = None, stream: bool = False
    ) -> Speech | Speaking:
        """What `Synthesizer.speak` yields, for any panel; beams have a batch of their own, and do not wait. stream: as
        there, for somebody who listens meanwhile, so that it goes before others (`SpeechService.speak`)."""
        if self.service is None or settings.hierarchical:
            return self.synthesizer.speak(text, settings, voice, reference, stream=stream)
        return self.service.speak(text, settings, voice, reference, stream=stream, heard=stream)


def turns_of(speaker: Speaker, text: str, parts: Sequence[Part]) -> list[list[Part]]:
    """Takes that are decoded in turns, round by round: those of one seed, where a service sees to it, so that whatever slows
    down this computer meanwhile slows them alike. The takes of a long text follow one another: if the run is stopped, some of
    them are finished, and are kept."""
    if speaker.service is None or len(text) > LONGEST_IN_TURNS:
        return [[part] for part in parts]
    alike = groupby(parts, key=lambda part: (part.settings.seed, part.settings.hierarchical))
    return [list(turn) for _, turn in alike]


def speak_turn(
    speaker: Speaker,
    turn: Sequence[Part],
    said: tuple[str, str, Reference | None],
    session: Session,
    rate: float,
    sounding: bool,
    place: tuple[int, int] = (1, 1),
) -> Generator[CompareStep, None, list[Take]]:
    """Speak the takes of one turn, and return them in their order. said: text, voice and reference. sounding: whether the sound
    of the one take is sent while it is made."""
    text, voice, reference = said
    keys, takes = [part.key for part in turn], []

    def step(live: Live, longest: Live) -> CompareStep:
        return CompareStep(session, progress_html(keys, longest.kinds, longest.group_sizes, rate, place), live)

    with ExitStack() as stack:
        speeches = [
            stack.enter_context(closing(speaker.speak(text, part.settings, voice, reference, stream=sounding))) for part in turn
        ]
        for queued in while_waiting(speeches[0], speaker.synthesizer):
            yield CompareStep(session, message_html(queued))
        lives = [Live(part.key, part.settings.method, text, sounding) for part in turn]
        if not sounding:
            for live in _decoded(speeches, lives):
                yield step(live, max(lives, key=lambda each: len(each.kinds)))
        for live, speech in zip(lives, speeches, strict=True):
            for ended in _grown(speech, live):
                yield step(live, live)
                takes += [ended] if ended else []
    return takes


def _decoded(speeches: Sequence[Speech | Speaking], lives: Sequence[Live]) -> Iterator[Live]:
    """Wait until all speeches of a service are decoded, and tell now and then how far one of them is. What is done here
    meanwhile would slow down what is timed, so that the sounds are left for later."""
    for live, speech in cycle(zip(lives, speeches, strict=True)):
        growing = [each for each in speeches if isinstance(each, Speech) and each.decoding(0)]
        if not growing:
            return
        growing[0].decoding(PROGRESS_SECONDS)
        live.catch_up(speech.rounds)
        yield live


def _grown(speech: Speech | Speaking, live: Live) -> Iterator[Take | None]:
    """Let `live` grow to the end of `speech`; return at once for the first sound and, with the take, for the end, else now and
    then, as each report slows down what is timed. Making sound does so, too: while a service decodes, no more is made than a
    listener needs."""
    reported, until = perf_counter(), 0.0
    live.catch_up(())
    for event in speech:
        live.ended = isinstance(event, Take)
        if live.ended or live.add(event) or perf_counter() - reported >= PROGRESS_SECONDS:
            yield event if isinstance(event, Take) else None
            reported = perf_counter()
        if isinstance(event, Sound) and isinstance(speech, Speech):
            until = max(until, perf_counter()) + len(event.samples) / event.sample_rate
            while perf_counter() < until - AHEAD_SECONDS and speech.decoding(AHEAD_SECONDS / 10):
                pass
