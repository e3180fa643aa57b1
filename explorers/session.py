"""The state of one visitor's page: its takes with their figures and sounds. Knows nothing of gradio."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pcg.audio import load_audio
from pcg.errors import InputError, PCGError
from pcg.settings import METHODS, Settings
from pcg.take import Take, pack_take, unpack_take
from pcg.text.prompt import Reference

if TYPE_CHECKING:
    from explorers.judging import JudgedTake

CARDS = METHODS
GONE = "This take is no longer kept: generate it again."
LONGEST_SECONDS = 1800.0
REMEMBERED = 24
FEWEST_TOKENS = 10
"""A take with fewer tokens tells nothing about speed."""


@dataclass(frozen=True)
class TakeView:
    """The figures of one take. `kinds`, `group_sizes` and `tokens` run side by side; `drafts`: the tested tokens, and whether
    each was accepted."""

    settings: Settings
    text: str
    voice: str
    audio_seconds: float
    tokens_per_second: float
    rtf: float | None
    acceptance_rate: float | None
    mean_acceptance_length: float
    hit_limit: bool
    kinds: tuple[str, ...]
    group_sizes: tuple[int, ...]
    tokens: tuple[int, ...]
    drafts: tuple[tuple[int, bool], ...]
    calls: int = 0

    @classmethod
    def of(cls, take: Take) -> "TakeView":
        return cls(
            settings=take.settings,
            text=take.text,
            voice=take.voice,
            audio_seconds=take.audio_seconds,
            tokens_per_second=take.tokens_per_second,
            rtf=take.rtf if take.audio_seconds else None,
            acceptance_rate=take.acceptance_rate,
            mean_acceptance_length=take.mean_acceptance_length,
            hit_limit=take.hit_limit,
            kinds=take.kinds,
            group_sizes=take.group_sizes,
            tokens=take.tokens,
            drafts=tuple((test.token, test.accepted) for round_ in take.rounds for test in round_.tests),
            calls=len(take.rounds),
        )

    @property
    def method(self) -> str:
        return self.settings.method

    @property
    def acceptance_of_tested(self) -> float | None:
        """Accepted / tested tokens; None where nothing was tested."""
        return sum(accepted for _, accepted in self.drafts) / len(self.drafts) if self.drafts else None

    def speed_up_over(self, other: "TakeView") -> float | None:
        """The ratio of tokens per second; None where a take is too short to tell."""
        told = min(len(self.tokens), len(other.tokens)) >= FEWEST_TOKENS and other.tokens_per_second
        return self.tokens_per_second / other.tokens_per_second if told else None


def task_of(text: str, voice: str, reference: Reference | None, settings: Settings) -> tuple[object, ...]:
    """Text, voice, sampling and seed: the speeds of takes with the same task can be compared."""
    return (text, voice, reference and (reference.text, *reference.codes.tolist()), settings.sampling, settings.seed)


@dataclass(frozen=True)
class ShownTake:
    """A take on the page.

    Attributes:
        reading: its figures.
        sound: its WAV file; None where it is silent, or the file is gone.
        reference: the visitor's own voice, if that spoke it.
        speed_up: tokens per second over AR of the same run.
        packed: the take without its sound (`pcg.take`).
        streamed: whether the sound was made in pieces.
        recorded: whether it belongs to the shipped example.
    """

    reading: TakeView
    sound: Path | None = None
    reference: Reference | None = field(default=None, repr=False, compare=False)
    speed_up: float | None = None
    packed: bytes = field(default=b"", repr=False, compare=False)
    streamed: bool = True
    recorded: bool = False

    @property
    def task(self) -> tuple[object, ...]:
        return task_of(self.reading.text, self.reading.voice, self.reference, self.reading.settings)

    def speaker(self, references: Mapping[str, Reference]) -> Reference:
        """The visitor's own voice, or the voice of its name."""
        return self.reference or references[self.reading.voice]

    def take(self) -> Take:
        """The take itself; raise PCGError where it is not kept any more."""
        if not self.packed or (self.sound and not self.sound.is_file()):
            raise PCGError(GONE)
        take = unpack_take(self.packed, np.zeros(0, np.float32))
        return replace(take, audio=load_audio(self.sound, take.sample_rate, LONGEST_SECONDS)) if self.sound else take


@dataclass(frozen=True)
class Card:
    """The newest take of a method. outdated: the last request had another task."""

    first: ShownTake
    outdated: bool = False

    @property
    def reading(self) -> TakeView:
        return self.first.reading


@dataclass(frozen=True)
class Kept:
    """A take in the history. number: counts the takes of a page from 1. key: the card that it came on."""

    number: int
    key: str
    shown: ShownTake
    name: str = ""

    @property
    def title(self) -> str:
        settings = self.shown.reading.settings
        return self.name or f"{settings.method.upper()}, seed {settings.seed}"


@dataclass(frozen=True, eq=False)
class Session:
    """The takes of one visitor's page. Compared by identity, by which gradio sees that it changed.

    Attributes:
        cards: the newest take of each method.
        history: the last REMEMBERED takes, the oldest first.
        held: the number of a take of the history that was taken in hand again; None while a card's take is in hand.
        verdicts: what the judges measured, by the file of the sound.
    """

    cards: Mapping[str, Card] = field(default_factory=dict)
    history: tuple[Kept, ...] = ()
    held: int | None = None
    verdicts: Mapping[Path, "JudgedTake"] = field(default_factory=dict)

    @classmethod
    def of_recorded(
        cls, takes: Mapping[str, Take], sounds: Mapping[str, Path], verdicts: Mapping[Path, "JudgedTake"] | None = None
    ) -> "Session":
        """Takes made earlier, all in one run, and their files."""
        shown, ar = {}, TakeView.of(takes["ar"])
        for method, take in takes.items():
            view, speed_up = TakeView.of(take), TakeView.of(take).speed_up_over(ar)
            shown[method] = ShownTake(view, sounds[method], None, speed_up, pack_take(take), streamed=False, recorded=True)
        history = tuple(Kept(number, method, take) for number, (method, take) in enumerate(shown.items(), 1))
        return cls({method: Card(take) for method, take in shown.items()}, history, verdicts=dict(verdicts or {}))

    def with_marks(self, task: tuple[object, ...], renewed: Collection[str] = ()) -> "Session":
        """Mark the cards that are being renewed or have another task; one of the cards is in hand again."""
        outdated = {key: key in renewed or card.first.task != task for key, card in self.cards.items()}
        return replace(self, cards={key: replace(card, outdated=outdated[key]) for key, card in self.cards.items()}, held=None)

    def with_take(
        self,
        reading: TakeView,
        *,
        sound: Path | None = None,
        reference: Reference | None = None,
        packed: bytes = b"",
        streamed: bool = True,
    ) -> "Session":
        """Add a take on its method's card, compared with AR's card if that has the same task and is not outdated."""
        shown = ShownTake(reading, sound, reference, packed=packed, streamed=streamed)
        ar = self.cards.get("ar")
        if reading.method == "ar":
            shown = replace(shown, speed_up=1.0)
        elif ar and not (ar.outdated or ar.first.recorded) and ar.first.task == shown.task:
            shown = replace(shown, speed_up=reading.speed_up_over(ar.reading))
        others = {key: card for key, card in self.cards.items() if key != reading.method}
        return replace(self.remembering(shown, reading.method, ""), cards={**others, reading.method: Card(shown)})

    def with_verdict(self, sound: Path, verdict: "JudgedTake") -> "Session":
        known = {kept.shown.sound for kept in self.history}
        verdicts = {path: judged for path, judged in self.verdicts.items() if path in known}
        return replace(self, verdicts={**verdicts, sound: verdict})

    def verdict(self, shown: ShownTake) -> "JudgedTake | None":
        return self.verdicts.get(shown.sound) if shown.sound else None

    def remembering(self, shown: ShownTake, key: str, name: str) -> "Session":
        """Add a take to the history alone, in place of an equal one. key: what its file is named by."""
        number = self.history[-1].number + 1 if self.history else 1
        others = [kept for kept in self.history if not _is_again(kept.shown, shown)]
        return replace(self, history=(*others, Kept(number, key, shown, name))[-REMEMBERED:])

    def kept(self, number: object) -> Kept:
        """The take of that number in the history; raise InputError where there is none."""
        for kept in self.history:
            if kept.number == number and type(number) is int:
                return kept
        raise InputError("take", str(number)[:40], "the number of a take in the history")

    def number_of(self, shown: ShownTake) -> int:
        """The number of that take in the history; raise PCGError where it is gone."""
        for kept in self.history:
            if kept.shown is shown:
                return kept.number
        raise PCGError(GONE)

    def holding(self, number: object) -> "Session":
        """Take a take of the history in hand."""
        return replace(self, held=self.kept(number).number)

    def in_hand(self, key: str) -> ShownTake | None:
        """The take that was taken in hand; else that of the card `key`, of PCG, or the newest card; None without any."""
        if self.held is not None and any(kept.number == self.held for kept in self.history):
            return self.kept(self.held).shown
        card = self.cards.get(key) or self.cards.get("pcg") or next(reversed(self.cards.values()), None)
        return card.first if card else None


def _is_again(old: ShownTake, new: ShownTake) -> bool:
    method, settings = new.reading.method, new.reading.settings
    alike = old.reading.method == method and (method == "ar" or old.reading.settings == settings)
    return alike and old.task == new.task and not old.recorded


class Turn:
    """Counts the runs on one visitor's page: a run that sees a higher number has been replaced, and stops.

    Attributes:
        session: the takes of the current run so far, None before the first; the page gets them when the run ends.
        stopped: the takes of the run that was stopped last.
        changes: changes of the page's session by other panels during the run.
    """

    def __init__(self) -> None:
        self.number = 0
        self.stopped: Session | None = None
        self._clear()

    def _clear(self) -> None:
        self.running, self.session = False, None
        self.changes: list[Callable[[Session], Session]] = []

    def next(self) -> int:
        """Count another run, which replaces the current one."""
        self.number += 1
        self._clear()
        return self.number

    def begin(self, session: Session) -> tuple[int, Session]:
        """Start a run; return its number and its session: `session`, or that of the run that it replaces."""
        held = self.so_far()
        number = self.next()
        self.running, self.session = True, held
        return number, held or session

    def halt(self) -> None:
        """Cancel the current run and start the next with its session."""
        self.number += 1

    def stop(self) -> None:
        """End the current run."""
        self.stopped = self.so_far()
        self.next()

    def end(self, number: int) -> None:
        """End the run of that number; the page has its takes."""
        if self.number == number:
            self._clear()

    def change(self, how: Callable[[Session], Session]) -> None:
        """Apply a change by another panel to the session of the current run, too."""
        if self.running:
            self.changes.append(how)

    def changed(self, session: Session) -> Session:
        """Return the session of a run after the changes by other panels."""
        for how in self.changes:
            with suppress(PCGError):  # a take that the history has no more
                session = how(session)
        return session

    def so_far(self) -> Session | None:
        """Return the takes of the current run so far, after the changes by other panels."""
        return self.changed(self.session) if self.session else None
