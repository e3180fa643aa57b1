"""The state of one visitor's page: its takes with their sounds and verdicts. Knows nothing of gradio."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
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


def task_of(text: str, voice: str, reference: Reference | None, settings: Settings) -> tuple[object, ...]:
    """Text, voice, sampling and seed: the speeds of takes with the same task can be compared."""
    return (text, voice, reference and (reference.text, *reference.codes.tolist()), settings.sampling, settings.seed)


def speed_up(take: Take, ar: Take) -> float | None:
    """Return the ratio of tokens per second; None where a take is too short to tell."""
    long_enough = min(len(take.tokens), len(ar.tokens)) >= FEWEST_TOKENS and ar.tokens_per_second
    return take.tokens_per_second / ar.tokens_per_second if long_enough else None


@dataclass(frozen=True)
class ShownTake:
    """A take on the page, packed into a few kilobytes.

    Attributes:
        packed: the take without its sound (`pcg.take`).
        samples: the length of its sound.
        sound: its WAV file; None where it is silent.
        reference: the visitor's own voice, if that spoke it.
        speed_up: tokens per second over AR of the same run.
        recorded: whether it belongs to the shipped example.
    """

    packed: bytes = field(repr=False, compare=False)
    samples: int
    sound: Path | None = None
    reference: Reference | None = field(default=None, repr=False, compare=False)
    speed_up: float | None = None
    recorded: bool = False

    @classmethod
    def of(cls, take: Take, sound: Path | None = None, reference: Reference | None = None) -> "ShownTake":
        return cls(pack_take(take), len(take.audio), sound, reference)

    @property
    def take(self) -> Take:
        """The take with silence in place of its sound."""
        return _unpacked(self.packed, self.samples)

    @property
    def task(self) -> tuple[object, ...]:
        return task_of(self.take.text, self.take.voice, self.reference, self.take.settings)

    def speaker(self, references: Mapping[str, Reference]) -> Reference:
        """Return the visitor's own voice, or the voice of its name."""
        return self.reference or references[self.take.voice]

    def with_sound(self) -> Take:
        """Return the take with its sound; raise PCGError where the file is gone."""
        if self.sound is None:
            return self.take
        if not self.sound.is_file():
            raise PCGError(GONE)
        return replace(self.take, audio=load_audio(self.sound, self.take.sample_rate, LONGEST_SECONDS))


@lru_cache(maxsize=128)
def _unpacked(packed: bytes, samples: int) -> Take:
    """Unpack a take with `samples` of silence, which need no memory."""
    return unpack_take(packed, np.broadcast_to(np.float32(0), samples))


@dataclass(frozen=True)
class Card:
    """The newest take of a method. outdated: the last request had another task."""

    shown: ShownTake
    outdated: bool = False


@dataclass(frozen=True)
class Kept:
    """A take in the history. number: counts the takes of a page from 1."""

    number: int
    shown: ShownTake


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
        """Return the session of takes that were made earlier, all in one run, and their files."""
        session = cls(verdicts=dict(verdicts or {}))
        for method, take in takes.items():
            ratio = speed_up(take, takes["ar"])
            shown = replace(ShownTake.of(take, sounds[method]), speed_up=ratio, recorded=True)
            session = replace(session._remembering(shown), cards={**session.cards, method: Card(shown)})
        return session

    def with_marks(self, task: tuple[object, ...], renewed: Collection[str] = ()) -> "Session":
        """Mark the cards that are being renewed or have another task; one of the cards is in hand again."""
        cards = {key: Card(card.shown, key in renewed or card.shown.task != task) for key, card in self.cards.items()}
        return replace(self, cards=cards, held=None)

    def with_take(self, shown: ShownTake) -> "Session":
        """Add a take on its method's card, compared with AR's card if that has the same task and is not outdated."""
        method, ar = shown.take.settings.method, self.cards.get("ar")
        if method == "ar":
            shown = replace(shown, speed_up=1.0)
        elif ar and not (ar.outdated or ar.shown.recorded) and ar.shown.task == shown.task:
            shown = replace(shown, speed_up=speed_up(shown.take, ar.shown.take))
        others = {key: card for key, card in self.cards.items() if key != method}
        return replace(self._remembering(shown), cards={**others, method: Card(shown)})

    def _remembering(self, shown: ShownTake) -> "Session":
        """Add a take to the history, in place of an equal one."""
        number = self.history[-1].number + 1 if self.history else 1
        others = [kept for kept in self.history if not _is_again(kept.shown, shown)]
        return replace(self, history=(*others, Kept(number, shown))[-REMEMBERED:])

    def with_verdict(self, sound: Path, verdict: "JudgedTake") -> "Session":
        known = {kept.shown.sound for kept in self.history}
        verdicts = {path: judged for path, judged in self.verdicts.items() if path in known}
        return replace(self, verdicts={**verdicts, sound: verdict})

    def verdict(self, shown: ShownTake) -> "JudgedTake | None":
        return self.verdicts.get(shown.sound) if shown.sound else None

    def kept(self, number: object) -> Kept:
        """Return the take of that number in the history; raise InputError where there is none."""
        for kept in self.history:
            if kept.number == number and type(number) is int:
                return kept
        raise InputError("take", str(number)[:40], "the number of a take in the history")

    def number_of(self, shown: ShownTake | None) -> int | None:
        """Return the number of that take in the history; None where it is gone."""
        return next((kept.number for kept in self.history if kept.shown is shown), None)

    def holding(self, number: object) -> "Session":
        """Take a take of the history in hand."""
        return replace(self, held=self.kept(number).number)

    def in_hand(self, key: str) -> ShownTake | None:
        """Return the take of the history that is held; else that of the card `key`, of PCG, or of the newest card."""
        if held := [kept.shown for kept in self.history if kept.number == self.held]:
            return held[0]
        card = self.cards.get(key) or self.cards.get("pcg") or next(reversed(self.cards.values()), None)
        return card.shown if card else None


def _is_again(old: ShownTake, new: ShownTake) -> bool:
    """Return whether a take repeats another; AR does so with any settings of the other methods."""
    before, settings = old.take.settings, new.take.settings
    alike = before.method == settings.method and (settings.method == "ar" or before == settings)
    return alike and old.task == new.task and not old.recorded


class Turn:
    """Counts the runs on one visitor's page: a run that sees a higher number has been replaced, and stops.

    Attributes:
        session: the takes of the current run so far, None before the first; the page gets them when the run ends.
        stopped: the takes of the run that was stopped last.
    """

    def __init__(self) -> None:
        self.number = 0
        self.session: Session | None = None
        self.stopped: Session | None = None

    def begin(self, session: Session) -> tuple[int, Session]:
        """Start a run; return its number and its session: `session`, or that of the run that it replaces."""
        self.number += 1
        return self.number, self.session or session

    def halt(self) -> None:
        """Cancel the current run; the next one starts with its session."""
        self.number += 1

    def stop(self) -> None:
        """End the current run, and keep its takes for the page."""
        self.number += 1
        self.session, self.stopped = None, self.session

    def end(self, number: int) -> None:
        """End the run of that number; the page has its takes."""
        if self.number == number:
            self.session = None
