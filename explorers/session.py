"""The state of one visitor's page: its takes with their sounds and verdicts. Knows nothing of gradio."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from pcg.audio import load_audio
from pcg.errors import InputError, PCGError
from pcg.settings import Settings
from pcg.take import Take, pack_take, unpack_take
from pcg.text.prompt import Reference

GONE = "This take is no longer kept: generate it again."
NO_TAKE = "There is no take yet: generate one first."
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

    packed: the take without its sound (`pcg.take`); samples, sound: the length of its sound, and its WAV file, None where it is
    silent. reference: the visitor's own voice, if that spoke it. speed_up: tokens per second over AR of the same run. recorded:
    whether it belongs to the shipped example. number: counts the takes of a page from 1."""

    packed: bytes = field(repr=False, compare=False)
    samples: int
    sound: Path | None = None
    reference: Reference | None = field(default=None, repr=False, compare=False)
    speed_up: float | None = None
    recorded: bool = False
    number: int = 0

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


@dataclass(frozen=True, eq=False)
class Session:
    """The takes of one visitor's page. Compared by identity, by which gradio sees that it changed.

    cards: the newest take of each method; outdated: those with another task than the last request. history: the last REMEMBERED
    takes, the oldest first; held: the number of one that was taken in hand again, None while a card is in hand. heard: by the
    judge, the words of each file."""

    cards: Mapping[str, ShownTake] = field(default_factory=dict)
    outdated: frozenset[str] = frozenset()
    history: tuple[ShownTake, ...] = ()
    held: int | None = None
    heard: Mapping[Path, str] = field(default_factory=dict)

    def with_marks(self, task: tuple[object, ...], renewed: Collection[str] = ()) -> "Session":
        """Mark the cards that are being renewed or have another task; one of the cards is in hand again."""
        outdated = frozenset(key for key, shown in self.cards.items() if key in renewed or shown.task != task)
        return replace(self, outdated=outdated, held=None)

    def with_take(self, shown: ShownTake) -> "Session":
        """Add a take on its method's card and to the history, where it replaces an equal one.

        It is compared with AR's card if that has the same task and is not outdated."""
        settings, ar = shown.take.settings, self.cards.get("ar")
        method, number = settings.method, self.history[-1].number + 1 if self.history else 1
        shown = replace(shown, number=number, speed_up=1.0 if method == "ar" else shown.speed_up)
        comparable = ar and method != "ar" and "ar" not in self.outdated and ar.recorded == shown.recorded
        if comparable and ar.task == shown.task:
            shown = replace(shown, speed_up=speed_up(shown.take, ar.take))
        others = {key: card for key, card in self.cards.items() if key != method}
        history = []
        for old in self.history:
            before = old.take.settings
            # AR gives the same take with any settings of the other methods.
            alike = before.method == method and (method == "ar" or before == settings)
            if old.recorded or not alike or old.task != shown.task:
                history.append(old)
        kept = (*history, shown)[-REMEMBERED:]
        return replace(self, cards={**others, method: shown}, outdated=self.outdated - {method}, history=kept)

    def with_transcript(self, sound: Path, words: str) -> "Session":
        known = {shown.sound for shown in self.history}
        return replace(self, heard={path: said for path, said in self.heard.items() if path in known} | {sound: words})

    def holding(self, number: object) -> "Session":
        """Take a take of the history in hand; raise InputError where there is none of that number."""
        if type(number) is not int or all(shown.number != number for shown in self.history):
            raise InputError("take", str(number)[:40], "the number of a take in the history")
        return replace(self, held=number)

    def in_hand(self, key: str) -> ShownTake | None:
        """Return the take of the history that is held; else that of the card `key`, of PCG, or of the newest card."""
        if held := [shown for shown in self.history if shown.number == self.held]:
            return held[0]
        return self.cards.get(key) or self.cards.get("pcg") or next(reversed(self.cards.values()), None)


class Turn:
    """Counts the runs on one visitor's page: a run that sees a higher number has been replaced, and stops.

    session: the takes of the current run so far, None before the first; the page gets them when the run ends. stopped: those of
    the run that was stopped last."""

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
