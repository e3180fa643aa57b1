"""Many listeners: what their records say together. A listener counts as one, however many trials it was."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pcg.errors import InputError, PCGError
from pcg.experiments.listening_tests.design import KINDS, TIE, VERSION
from pcg.experiments.listening_tests.outcome import MISSED_SHARE, RECOGNISED
from pcg.metrics.estimate import Estimate, bootstrap

LARGEST_BYTES = 4 << 20


@dataclass(frozen=True)
class Listener:
    """One record. answers: for each trial that was voted on, the vote by system: a score, or 1 for the chosen one, .5 each for
    a tie."""

    kind: str
    systems: tuple[str, ...]
    reference: str | None
    answers: tuple[dict[str, float], ...]

    def mean(self, system: str) -> float:
        return sum(answer[system] for answer in self.answers) / len(self.answers)

    @property
    def attentive(self) -> bool:
        """Whether the hidden reference was recognised often enough (ITU-R BS.1534-3, 4.1.2)."""
        missed = sum(answer[self.reference] < RECOGNISED for answer in self.answers) if self.reference else 0
        return missed <= MISSED_SHARE * len(self.answers)


@dataclass(frozen=True)
class Pooled:
    """What `listeners` of one kind of test say of the same systems. shares: of a system the share of votes, or its mean score,
    over listeners. left_out: listeners who missed the hidden reference. p: of the sign test over listeners of the first system
    against the second, None in a rating and where nobody prefers any."""

    kind: str
    listeners: int
    trials: int
    left_out: int
    shares: dict[str, Estimate]
    p: float | None

    def as_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        shares = {name: [round(x, 4) for x in (e.value, e.low, e.high)] for name, e in self.shares.items()}
        return {name: getattr(self, name) for name in ("kind", "listeners", "trials", "left_out", "p")} | {"shares": shares}


def read_listener(path: Path) -> Listener:
    """A record as the page exports it (JSON); InputError for any other file."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ValueError
        told = json.loads(path.read_text(encoding="utf-8"))
        design = told["design"]
        if told["version"] != VERSION or design["kind"] not in KINDS:
            raise ValueError
        voted = [trial for trial in told["trials"] if trial["vote"] is not None]
        answers = tuple(_by_system(design["kind"], trial["order"], trial["vote"]["answer"]) for trial in voted)
        systems = tuple(sorted(answers[0])) if answers else tuple(sorted(design["systems"]))
        if any(tuple(sorted(answer)) != systems for answer in answers):
            raise ValueError
        return Listener(design["kind"], systems, design["reference"], answers)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError("file", path.name, "a record of a listening test, as the page exports it") from error


def pool(listeners: Sequence[Listener]) -> list[Pooled]:
    """One result for each kind of test and set of systems; PCGError where nobody voted."""
    groups: dict[tuple[str, tuple[str, ...]], list[Listener]] = {}
    for listener in listeners:
        if listener.answers:
            groups.setdefault((listener.kind, listener.systems), []).append(listener)
    if not groups:
        raise PCGError("None of these records has a vote.")
    return [_pooled(*key, group) for key, group in groups.items()]


def _pooled(kind: str, systems: tuple[str, ...], group: Sequence[Listener]) -> Pooled:
    kept = [listener for listener in group if kind != "rating" or listener.attentive]
    shares = {name: bootstrap([listener.mean(name) for listener in kept]) for name in systems} if kept else {}
    trials = sum(len(listener.answers) for listener in kept)
    return Pooled(kind, len(kept), trials, len(group) - len(kept), shares, _p_value(kind, systems, kept))


def _p_value(kind: str, systems: tuple[str, ...], kept: Sequence[Listener]) -> float | None:
    from scipy.stats import binomtest

    better = [each.mean(systems[0]) - (0.5 if kind == "abx" else each.mean(systems[-1])) for each in kept]
    decided = [difference for difference in better if difference]
    if kind == "rating" or not decided:
        return None
    return float(binomtest(sum(difference > 0 for difference in decided), len(decided)).pvalue)


def _by_system(kind: str, order: dict[str, str], answer: object) -> dict[str, float]:
    if kind == "rating":
        letters = [letter for letter in order if letter != "R"]
        return {order[letter]: float(score) for letter, score in zip(letters, answer, strict=True)}
    if kind == "abx":
        return {"recognised": float(order[answer] == order["X"])}
    return {system: 0.5 if answer == TIE else float(order[answer] == system) for system in order.values()}
