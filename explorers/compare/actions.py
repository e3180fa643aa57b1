"""What the Compare panel does: plain generators of steps over a Synthesizer. Knows nothing of gradio."""

import json
import secrets
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from itertools import cycle, groupby
from pathlib import Path
from time import perf_counter

import numpy as np

from explorers.compare.live import Live
from explorers.session import CARDS, PRESET, Session, TakeView
from explorers.shared.readout import TITLES, done_html, groups_html, message_html, progress_html
from pcg.audio import load_audio
from pcg.errors import InputError, PCGError, counted
from pcg.prompts.prompt import Reference
from pcg.prompts.text import check_text
from pcg.serving.speech_service import Speech, SpeechService
from pcg.settings import METHODS, RANGES, Range, Settings
from pcg.synthesis.cloning import LONGEST_FILE_SECONDS
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.presets import PAPERS, Preset, read_presets, write_presets
from pcg.takes.take import Round, Sound, Take
from pcg.takes.written import pack_take

PROGRESS_SECONDS = 0.2
WAIT_SECONDS = 0.5
AHEAD_SECONDS = 0.3
LONGEST_IN_TURNS = 600
SEEDS = 10_000
TAKES = Range(1, 5, 1)
LONGEST_PRESET = 2_000
RECORDING = "your recording"
NO_TEXT = "Type a text to hear the effect of this setting."

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
class CompareRequest:
    """The values of the controls, in their order.

    takes: how many of each card, at consecutive seeds. preset: what `preset_value` makes of a preset, or "".
    """

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
    similarity: str = "cosine"
    takes: int = 1
    preset: str = ""
    adaptive: bool = False
    sampler: str = "plain"
    top_k: int = 0
    top_p: float = 0.0

    def settings(self, method: str) -> Settings:
        knobs = (self.theta, self.lookahead, self.beta, self.temperature, self.seed)
        sampling = {"sampler": self.sampler, "top_k": self.top_k, "top_p": self.top_p}
        return Settings(method, *knobs, adaptive=self.adaptive, similarity=self.similarity, **sampling)

    def systems(self) -> dict[str, tuple[str, Settings]]:
        """Name and settings of every card, the preset's last; raise InputError if one of them cannot be."""
        own = {method: ("", self.settings(method)) for method in METHODS}
        preset = read_preset(self.preset)
        return own | ({PRESET: (preset.name, preset.over(own["pcg"][1]))} if preset else {})

    def parts(self, keys: Collection[str]) -> list[Part]:
        """The takes of the cards `keys`: the first of every card, then the second of every card."""
        TAKES.check("takes", self.takes)
        if self.takes != int(self.takes):
            raise InputError("takes", self.takes, f"a whole number from {TAKES}")
        chosen = {key: system for key, system in self.systems().items() if key in keys}
        return [
            Part(key, settings.with_(seed=settings.seed + i), name, joins=i > 0)
            for i in range(int(self.takes))
            for key, (name, settings) in chosen.items()
        ]

    def speaker(self, synthesizer: Synthesizer, transcribe: Transcribe | None = None) -> tuple[str, Reference | None]:
        """The voice's name, and the reference if it is the visitor's own. Without a transcript, `transcribe` recognises the
        words, and a longer recording is cut at a pause."""
        if not self.recording:
            synthesizer.voice.reference(self.voice)
            return self.voice, None
        if not self.consent:
            raise PCGError("To use a recorded voice, confirm that the speaker agrees.")
        return RECORDING, synthesizer.voice.reference_from_audio(Path(self.recording), self.transcript, transcribe)

    def recognised(self, synthesizer: Synthesizer, reference: Reference | None) -> str | None:
        """The words that were recognised in the recording; "" where it was too long and so was cut: its words have to stay
        blank, or it would be refused. None where there is no recording, or its words were given."""
        if reference is None or not self.recording or self.transcript.strip():
            return None
        rate, longest = synthesizer.voice.codec.sample_rate, synthesizer.voice.reference_seconds[1]
        fits = len(load_audio(Path(self.recording), rate, LONGEST_FILE_SECONDS)) <= longest * rate
        return reference.text if fits else ""


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
        self, text: str, settings: Settings, voice: str, reference: Reference | None, heard: bool = False
    ) -> Speech | Speaking:
        """What `Synthesizer.speak` yields; beams have a batch of their own, and do not wait. heard: whether somebody listens
        while it is made (see `SpeechService.speak`), and so whether it is streamed."""
        if self.service is None or settings.hierarchical:
            return self.synthesizer.speak(text, settings, voice, reference, stream=heard)
        return self.service.speak(text, settings, voice, reference, stream=heard, heard=heard)


def generate_all(speaker: Speaker, request: CompareRequest, session: Session) -> Iterator[CompareStep]:
    """All takes of a full run: the four methods, or AR alone without a draft, and the preset. Closing the
    generator stops it."""
    possible = (*speaker.synthesizer.methods, PRESET)
    yield from _speak(speaker, [key for key in CARDS if key in possible], request, session)


def generate_again(speaker: Speaker, method: str, request: CompareRequest, session: Session) -> Iterator[CompareStep]:
    """One method alone, after a change of one of its knobs; without a text nothing happens, and there is no error."""
    if request.text.strip():
        yield from _speak(speaker, (method,), request, session)
    else:
        yield CompareStep(session, message_html(NO_TEXT), done=True)


def stopped(session: Session | None) -> str:
    """What a stopped run has finished, as the page's own words; `session`: its own, None without a take."""
    if session is None:
        return "Stopped before the first take was finished."
    fresh = [TITLES[key][0] if key in TITLES else "the preset" for key, card in session.cards.items() if not card.outdated]
    return f"Stopped after {', '.join(fresh)}."


def waiting(place: int, seconds_left: float | None) -> str:
    """What a visitor is told whose take has to wait for those of others."""
    before = "You are next" if place <= 1 else f"{counted(place - 1, 'take')} of other visitors before yours"
    left = "" if seconds_left is None else f", about {counted(max(1, round(seconds_left)), 'second')} left"
    return f"{before}{left}. The takes below can be played meanwhile."


def describe_groups(synthesizer: Synthesizer, theta: float, similarity: str = Settings.similarity) -> str:
    RANGES["theta"].check("theta", theta)
    return groups_html(theta, synthesizer.statistics(theta, similarity))


def new_seed() -> int:
    return secrets.randbelow(SEEDS)


def preset_value(preset: Preset) -> str:
    """A preset as the page's control holds it: one of the papers' by its name, another one whole."""
    return preset.name if preset in PAPERS else json.dumps(write_presets([preset])[0])


def read_preset(value: object) -> Preset | None:
    """What `preset_value` wrote; None where nothing is chosen."""
    if not value:
        return None
    found = {preset.name: preset for preset in PAPERS}.get(str(value))
    if found is None and isinstance(value, str) and len(value) <= LONGEST_PRESET:
        with suppress(ValueError, RecursionError):
            found = next(iter(read_presets([json.loads(value)])), None)
    if found is None:
        raise InputError("preset", str(value)[:40], "one of " + ", ".join(p.name for p in PAPERS) + ", or one of your own")
    return found


def _speak(speaker: Speaker, keys: Collection[str], request: CompareRequest, session: Session) -> Iterator[CompareStep]:
    begun = perf_counter()
    text, parts = check_text(request.text), request.parts(keys)
    if PRESET in keys:
        preset = read_preset(request.preset)
        session = session.without_other_preset(preset.name if preset else None)
    voice, reference = request.speaker(speaker.synthesizer, speaker.transcribe)
    recognised = request.recognised(speaker.synthesizer, reference)
    rate = token_rate(speaker.synthesizer)
    tasks = {key: (text, voice, settings.temperature, settings.seed) for key, (_, settings) in request.systems().items()}
    session = session.with_marks(tasks, {part.key for part in parts})
    groups = describe_groups(speaker.synthesizer, request.theta, request.similarity)
    turns, said = _turns(speaker, text, parts), (text, voice, reference)
    first = progress_html([part.key for part in turns[0]], (), (), rate, place=(1, len(turns)))
    yield CompareStep(session, first, marks=True, groups=groups, recognised=recognised)
    if len(keys) > 1:
        # Heard at once, and not timed: the browser begins to play beside it.
        lead = [next((part for part in parts if part.key == "pcg"), parts[0])]
        yield from _speak_turn(speaker, lead, said, session, rate, sounding=True)
    taken = 0
    for number, turn in enumerate(turns, 1):
        sounding = len(keys) == 1 and number == 1
        takes = yield from _speak_turn(speaker, turn, said, session, rate, sounding, (number, len(turns)))
        for part, take in zip(turn, takes, strict=True):
            session = _heard(session, part, take, speaker.keep, reference, streamed=sounding, full_run=len(keys) > 1)
            taken += 1
            status, done = done_html([p.key for p in parts[:taken]], perf_counter() - begun), taken == len(parts)
            yield CompareStep(session, status, done=done, new=part.key)


def _turns(speaker: Speaker, text: str, parts: Sequence[Part]) -> list[list[Part]]:
    """Takes that are decoded in turns, round by round: those of one seed, where a service sees to it, so that whatever slows
    down this computer meanwhile slows them alike. Of a long text, which may be stopped, one take ends after the other."""
    if speaker.service is None or len(text) > LONGEST_IN_TURNS:
        return [[part] for part in parts]
    alike = groupby(parts, key=lambda part: (part.settings.seed, part.settings.hierarchical))
    return [list(turn) for _, turn in alike]


def _heard(
    session: Session, part: Part, take: Take, keep: Keep, reference: Reference | None, streamed: bool, full_run: bool
) -> Session:
    sound = keep(take, reference, streamed) if len(take.audio) else None
    own = {"key": part.key, "name": part.name, "sound": sound, "reference": reference, "joins": part.joins}
    return session.with_take(TakeView.of(take), full_run, packed=pack_take(take), streamed=streamed, **own)


def _speak_turn(
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
            stack.enter_context(closing(speaker.speak(text, part.settings, voice, reference, sounding))) for part in turn
        ]
        while isinstance(speeches[0], Speech) and speeches[0].waits(WAIT_SECONDS):
            yield CompareStep(session, message_html(waiting(speeches[0].place, speeches[0].seconds_left)))
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


def token_rate(synthesizer: Synthesizer) -> float:
    """Speech tokens in a second of sound."""
    codec = synthesizer.voice.codec
    return codec.sample_rate / codec.hop
