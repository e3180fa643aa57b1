"""Who is heard against whom, in which order and under which letters: drawn from a seed, before anybody listens."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from pcg.errors import InputError

VERSION = 1
KINDS = ("ab", "abx", "rating")
MOST_TRIALS, MOST_RATED = 60, 6
ANCHOR, TIE, OPEN, UNKNOWN = "anchor", "tie", "R", "X"
LETTERS = "ABCDEFG"
BEST = 100

Answer = str | tuple[float, ...]


@dataclass(frozen=True)
class Design:
    """What is asked, and of which `systems`, by name.

    kind: "ab", which of two is better (ties allowed); "abx", which of two X is; "rating", 0 to 100 for each, after ITU-R
    BS.1534 (MUSHRA): `reference` is heard openly and hidden among the others, with `anchor` a low-passed copy of it, too.
    """

    kind: str
    systems: tuple[str, ...]
    reference: str | None = None
    anchor: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError("design", self.kind, "one of " + ", ".join(KINDS))
        low, high = (2, MOST_RATED) if self.kind == "rating" else (2, 2)
        if not low <= len(self.systems) <= high or len(set(self.systems)) < len(self.systems) or ANCHOR in self.systems:
            count = "exactly 2" if low == high else f"{low} to {high}"
            raise InputError("what is compared", ", ".join(self.systems) or "nothing", f"{count} that differ")
        if self.kind == "rating" and self.reference not in self.systems:
            raise InputError("reference", self.reference, "one of " + ", ".join(self.systems))
        if self.kind != "rating" and (self.reference is not None or self.anchor):
            raise InputError("reference or anchor", self.reference or ANCHOR, "left out, except in a rating")

    @property
    def rated(self) -> tuple[str, ...]:
        """Everything that hides behind a letter of its own."""
        return (*self.systems, ANCHOR) if self.anchor else self.systems

    @property
    def letters(self) -> tuple[str, ...]:
        """What a listener sees in each trial: the open reference is "R", what is to be recognised is "X"."""
        letters = tuple(LETTERS[: len(self.rated)])
        return {"ab": letters, "abx": (*letters, UNKNOWN), "rating": (OPEN, *letters)}[self.kind]


@dataclass(frozen=True)
class Trial:
    """One question. item: which of the texts is said; seed: of every take in it; systems: who stands behind each letter."""

    item: int
    seed: int
    systems: tuple[str, ...]


@dataclass(frozen=True)
class Vote:
    """answer: a letter or "tie", or, in a rating, a score for each of A, B, ...; plays: of each of the design's letters."""

    answer: Answer
    plays: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A whole test. Everything in it but the design follows from the seed."""

    design: Design
    trials: tuple[Trial, ...]
    seed: int


def draw_plan(design: Design, items: int, count: int, seed: int) -> Plan:
    """Draw `count` trials over `items` texts: each text once before any comes twice, and each letter by a fair coin of its own.

    The coins are independent, so that a listener who always says "A" prefers nobody, which the exact tests rely on.
    """
    if items < 1:
        raise InputError("number of texts", items, "at least 1")
    if isinstance(count, bool) or not isinstance(count, int | float) or not 1 <= count <= MOST_TRIALS or count != int(count):
        raise InputError("number of trials", count, f"a whole number from 1 to {MOST_TRIALS}")
    coins = np.random.default_rng(int(seed))
    order = [int(item) for _ in range(0, int(count), items) for item in coins.permutation(items)][: int(count)]
    return Plan(design, tuple(_trial(design, item, coins) for item in order), int(seed))


def _trial(design: Design, item: int, coins: np.random.Generator) -> Trial:
    seed = int(coins.integers(2**32))
    hidden = tuple(design.rated[i] for i in coins.permutation(len(design.rated)))
    if design.kind == "abx":
        hidden += (hidden[int(coins.integers(2))],)
    elif design.kind == "rating":
        hidden = (str(design.reference), *hidden)
    return Trial(item, seed, hidden)


def check_vote(design: Design, answer: object, plays: object) -> Vote:
    """The vote, if it answers the question and everything was played; else InputError."""
    letters = design.letters
    if not _whole(plays) or len(plays) != len(letters):
        raise InputError("plays", plays, f"{len(letters)} whole numbers, for {', '.join(letters)}")
    if not all(plays):
        unheard = ", ".join(letter for letter, count in zip(letters, plays, strict=True) if not count)
        raise InputError("vote", f"given before {unheard} was played", "given after everything was played")
    return Vote(_scores(design, answer) if design.kind == "rating" else _letter(design, answer), tuple(plays))


def _letter(design: Design, answer: object) -> str:
    allowed = ("A", "B", TIE) if design.kind == "ab" else ("A", "B")
    if answer not in allowed:
        raise InputError("answer", answer, "one of " + ", ".join(allowed))
    return str(answer)


def _scores(design: Design, answer: object) -> tuple[float, ...]:
    count = len(design.rated)
    scores = answer if isinstance(answer, Sequence) and not isinstance(answer, str) else ()
    numbers = [s for s in scores if isinstance(s, int | float) and not isinstance(s, bool) and isfinite(s) and 0 <= s <= BEST]
    if len(scores) != count or len(numbers) != count:
        raise InputError("answer", answer, f"{count} scores from 0 to {BEST}")
    return tuple(float(score) for score in numbers)


def _whole(plays: object) -> bool:
    return isinstance(plays, Sequence) and all(type(count) is int and 0 <= count < 10**6 for count in plays)
