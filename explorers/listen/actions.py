"""What the Compare panel does: plain generators of steps over a Synthesizer. Knows nothing of gradio."""

import json
import secrets
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from explorers.listen.turns import CompareStep, Keep, Part, Speaker, Transcribe, speak_turn, turns_of
from explorers.session import CARDS, PRESET, Session, TakeView, task_of
from explorers.shared.readout import TITLES, done_html, groups_html, message_html, progress_html
from pcg.audio import load_audio
from pcg.errors import InputError, PCGError
from pcg.settings import METHODS, Bounds, Settings, bounds
from pcg.synthesis.cloning import LONGEST_FILE_SECONDS
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.presets import PAPERS, Preset, read_presets, write_presets
from pcg.takes.take import Take
from pcg.takes.written import pack_take
from pcg.text.pauses import without_pauses
from pcg.text.prompt import Reference
from pcg.text.reading import check_text

SEEDS = 10_000
TAKES = Bounds(1, 5, 1)
LONGEST_PRESET = 2_000
RECORDING = "your recording"
EMPTY = "Type an English text first."
NO_TEXT = "Type a text to hear the effect of this setting."


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
    verification: str = "token"
    lookahead_cost: float = 0.0

    def settings(self, method: str) -> Settings:
        values = {name: getattr(self, name) for name in Settings.model_fields if hasattr(self, name)}
        return Settings("pcg", **values).for_method(method)

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
    """What a stopped run has finished, as the page's own words; `session`: its own, None before it began."""
    cards = session.cards.items() if session else ()
    fresh = [TITLES[key][0] if key in TITLES else "the preset" for key, card in cards if not card.outdated]
    return f"Stopped after {', '.join(fresh)}." if fresh else "Stopped before the first take was finished."


def describe_groups(synthesizer: Synthesizer, theta: float, similarity: str = Settings().similarity) -> str:
    bounds("theta").check("theta", theta)
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
    if not without_pauses(request.text).strip():
        raise PCGError(EMPTY)
    text, parts = check_text(request.text), request.parts(keys)
    if not parts:
        raise PCGError("The preset in hand is no longer chosen: choose one, or listen to another lane.")
    if PRESET in keys:
        preset = read_preset(request.preset)
        session = session.without_other_preset(preset.name if preset else None)
    voice, reference = request.speaker(speaker.synthesizer, speaker.transcribe)
    recognised = request.recognised(speaker.synthesizer, reference)
    rate = token_rate(speaker.synthesizer)
    tasks = {key: task_of(text, voice, reference, settings) for key, (_, settings) in request.systems().items()}
    session = session.with_marks(tasks, {part.key for part in parts})
    groups = describe_groups(speaker.synthesizer, request.theta, request.similarity)
    turns, said = turns_of(speaker, text, parts), (text, voice, reference)
    first = progress_html([part.key for part in turns[0]], (), (), rate, place=(1, len(turns)))
    yield CompareStep(session, first, marks=True, groups=groups, recognised=recognised)
    if len(keys) > 1:
        # Heard at once, and not timed: the browser begins to play beside it.
        lead = [next((part for part in parts if part.key == "pcg"), parts[0])]
        yield from speak_turn(speaker, lead, said, session, rate, sounding=True)
    taken = 0
    for number, turn in enumerate(turns, 1):
        sounding = len(keys) == 1 and number == 1
        takes = yield from speak_turn(speaker, turn, said, session, rate, sounding, (number, len(turns)))
        for part, take in zip(turn, takes, strict=True):
            session = _heard(session, part, take, speaker.keep, reference, streamed=sounding, full_run=len(keys) > 1)
            taken += 1
            status, done = done_html([p.key for p in parts[:taken]], perf_counter() - begun), taken == len(parts)
            yield CompareStep(session, status, done=done, new=part.key)


def _heard(
    session: Session, part: Part, take: Take, keep: Keep, reference: Reference | None, streamed: bool, full_run: bool
) -> Session:
    sound = keep(take, reference, streamed) if len(take.audio) else None
    own = {"key": part.key, "name": part.name, "sound": sound, "reference": reference, "joins": part.joins}
    return session.with_take(TakeView.of(take), full_run, packed=pack_take(take), streamed=streamed, **own)


def token_rate(synthesizer: Synthesizer) -> float:
    """Speech tokens in a second of sound."""
    codec = synthesizer.voice.codec
    return codec.sample_rate / codec.hop
