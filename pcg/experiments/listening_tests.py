"""Blind listening tests: who is heard in which order, how loud, which votes are valid, and what they show."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from pcg.errors import InputError, PCGError, counted
from pcg.metrics.estimate import Estimate, bootstrap, share

VERSION = 1
KINDS = ("ab", "abx", "cmos", "nmos", "rating")
SCALES = {"cmos": (-3, 3), "nmos": (1, 5), "rating": (0, 100)}
RATED = ("nmos", "rating")
MOST_RATED = 6
TIE, OPEN, UNKNOWN, RECOGNISED = "tie", "R", "X", "recognised"
TIED = 0.5
ANCHOR, ANCHOR_HERTZ = "low anchor", 3500
"""BS.1534-3, 5.1: the reference through a low pass, which every listener should rate low."""
LETTERS = "ABCDEFG"
# EBU R128: programmes at -23 LUFS, with true peaks at -1 dB at most.
TARGET_LUFS, PEAK_DB = -23.0, -1.0
BLOCK_SECONDS, SHORTEST_SECONDS = 0.4, 0.1
STEP = 2.0**-15
LEVEL = 0.05
# Votes that reach LEVEL in the exact test if all agree: it is one-sided for ABX alone.
FEWEST_VOTES, FEWEST_ABX = 6, 5
# ITU-R BS.1534-3, 4.1.2: a listener who rates the hidden reference lower in more than 15 % of the trials is left out.
RECOGNISED_SCORE, MISSED_SHARE = {"rating": 90, "nmos": 4}, 0.15

Answer = str | tuple[float, ...]


@dataclass(frozen=True)
class Design:
    """A test of `systems`, by name.

    kind: "ab", which of two is better (ties allowed); "abx", which of two X is; "cmos", by how much B is better than A, -3 to 3
    (ITU-T P.800, annex E); "nmos", naturalness of each, 1 to 5 (P.800, annex B); "rating", 0 to 100 for each, after ITU-R
    BS.1534 (MUSHRA), where `reference` is also heard openly. Where there is a reference it is hidden among the others, and so
    is a low anchor that is made of it.
    """

    kind: str
    systems: tuple[str, ...]
    reference: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError("design", self.kind, "one of " + ", ".join(KINDS))
        most = MOST_RATED if self.kind in RATED else 2
        if not 2 <= len(self.systems) <= most or len(set(self.systems)) < len(self.systems):
            count = "exactly 2" if most == 2 else f"2 to {most}"
            raise InputError("what is compared", ", ".join(self.systems) or "nothing", f"{count} that differ")
        if self.kind == "rating" or (self.kind == "nmos" and self.reference is not None):
            if self.reference not in self.systems:
                raise InputError("reference", self.reference, "one of " + ", ".join(self.systems))
        elif self.reference is not None:
            raise InputError("reference", self.reference, "left out, except where systems are rated")

    @property
    def heard(self) -> tuple[str, ...]:
        """The systems, and the low anchor where there is one."""
        return (*self.systems, ANCHOR) if self.reference else self.systems

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of each trial: the open reference is "R", the system to be recognised "X"."""
        letters = tuple(LETTERS[: len(self.heard)])
        return {"abx": (*letters, UNKNOWN), "rating": (OPEN, *letters)}.get(self.kind, letters)


@dataclass(frozen=True)
class Trial:
    """A question. item: the number of the text; seed: of every take in it; systems: one behind each letter."""

    item: int
    seed: int
    systems: tuple[str, ...]


@dataclass(frozen=True)
class Vote:
    """answer: a letter or "tie", or a score for each of A, B, ... (in "cmos" that of B over A); plays: of each letter."""

    answer: Answer
    plays: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A whole test, drawn from its seed."""

    design: Design
    trials: tuple[Trial, ...]
    seed: int


def draw_plan(design: Design, items: int, count: int, seed: int) -> Plan:
    """Draw `count` trials over `items` texts: each text once before any comes twice, and each letter by a fair coin of its own.

    The coins are independent, so that a listener who always says "A" prefers no system, which the exact tests rely on.
    """
    coins = np.random.default_rng(seed)
    order = [int(item) for _ in range(0, count, items) for item in coins.permutation(items)][:count]
    trials = []
    for item in order:
        take_seed = int(coins.integers(2**32))
        hidden = tuple(design.heard[i] for i in coins.permutation(len(design.heard)))
        if design.kind == "abx":
            hidden += (hidden[int(coins.integers(2))],)
        elif design.kind == "rating":
            hidden = (str(design.reference), *hidden)
        trials.append(Trial(item, take_seed, hidden))
    return Plan(design, tuple(trials), seed)


def check_vote(design: Design, answer: object, plays: object) -> Vote:
    """Return the vote; raise InputError unless it answers the question and everything was played."""
    letters = design.letters
    counts = plays if isinstance(plays, Sequence) and all(type(n) is int and 0 <= n < 10**6 for n in plays) else ()
    if len(counts) != len(letters):
        raise InputError("plays", plays, f"{len(letters)} whole numbers, for {', '.join(letters)}")
    if unheard := [letter for letter, count in zip(letters, counts, strict=True) if not count]:
        raise InputError("vote", f"given before {', '.join(unheard)} was played", "given after everything was played")
    if design.kind in SCALES:
        (low, high), wanted = SCALES[design.kind], 1 if design.kind == "cmos" else len(design.heard)
        scores = answer if isinstance(answer, Sequence) and not isinstance(answer, str) else ()
        numbers = [float(s) for s in scores if type(s) in (int, float) and isfinite(s) and low <= s <= high]
        if len(scores) != wanted or len(numbers) != len(scores):
            raise InputError("answer", answer, f"{counted(wanted, 'score')} from {low} to {high}")
        return Vote(tuple(numbers), tuple(counts))
    allowed = ("A", "B", TIE) if design.kind == "ab" else ("A", "B")
    if answer not in allowed:
        raise InputError("answer", answer, "one of " + ", ".join(allowed))
    return Vote(str(answer), tuple(counts))


def by_system(kind: str, order: Mapping[str, str], answer: Answer) -> dict[str, float]:
    """Return an answer by system: a score (in "cmos" that over the other system), or 1 for the chosen system and TIED for both
    of a tie; in "abx" whether X was recognised.

    order: the systems by letter.
    """
    if kind == "cmos":
        return {order["A"]: -float(answer[0]), order["B"]: float(answer[0])}
    if kind in RATED:
        letters = [letter for letter in order if letter != OPEN]
        return {order[letter]: float(score) for letter, score in zip(letters, answer, strict=True)}
    if kind == "abx":
        return {RECOGNISED: float(order[answer] == order[UNKNOWN])}
    return {system: TIED if answer == TIE else float(order[answer] == system) for system in order.values()}


def loudness(samples: np.ndarray, sample_rate: int) -> float:
    """Return the integrated loudness of `samples [N]` in LUFS (EBU R128, ITU-R BS.1770-4); -inf in silence."""
    from pyloudnorm import Meter

    if not np.any(samples):
        return -np.inf
    block = min(BLOCK_SECONDS, len(samples) / sample_rate)
    return float(Meter(sample_rate, block_size=block).integrated_loudness(np.asarray(samples, np.float64)))


def matched(sounds: Sequence[np.ndarray], sample_rate: int) -> list[np.ndarray]:
    """Return `sounds [N_i]` as float64 `[M]` of one length and loudness: TARGET_LUFS, or less where peaks pass PEAK_DB."""
    gains = [10 ** ((TARGET_LUFS - level) / 20) if np.isfinite(level := loudness(s, sample_rate)) else 1.0 for s in sounds]
    peaks = [gain * float(np.abs(sound).max(initial=0)) for gain, sound in zip(gains, sounds, strict=True)]
    together = min(1.0, 10 ** (PEAK_DB / 20) / max(max(peaks, default=0), 1e-9))
    length = max(int(SHORTEST_SECONDS * sample_rate), *map(len, sounds))
    return [np.pad(together * gain * s.astype(np.float64), (0, length - len(s))) for gain, s in zip(gains, sounds, strict=True)]


def low_anchor(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """Return `samples [N]` without what lies above ANCHOR_HERTZ."""
    from scipy.signal import butter, sosfiltfilt

    return sosfiltfilt(butter(8, ANCHOR_HERTZ, fs=sample_rate, output="sos"), samples) if len(samples) > 64 else samples


def dithered(samples: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    """Return `samples [N]` as int16 with triangular dither of two steps.

    Two copies of one sound differ as files: X, or a hidden reference, could be told by its digest or size otherwise.
    """
    drawn = noise.random((2, len(samples)))
    return np.clip(np.round(samples / STEP + drawn[0] - drawn[1]), -(2**15), 2**15 - 1).astype(np.int16)


@dataclass(frozen=True)
class Figure:
    """A share of votes, with their `count`, or a mean score over `n` votes, with its 95 % interval."""

    name: str
    n: int
    estimate: Estimate | None
    count: int | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of `n` votes without `ties`.

    p: of the exact binomial test against chance, in "cmos" of the signs; None where systems are rated. missed: trials in which
    the hidden reference was not recognised.
    """

    kind: str
    n: int
    ties: int
    figures: tuple[Figure, ...]
    p: float | None
    missed: int = 0

    @property
    def fewest(self) -> int:
        return FEWEST_ABX if self.kind == "abx" else FEWEST_VOTES

    @property
    def too_small(self) -> bool:
        return self.n < self.fewest

    @property
    def sentences(self) -> tuple[str, ...]:
        """The outcome in words."""
        what = "a difference was heard" if self.kind == "abx" else "one is preferred"
        if self.too_small:
            verdict = f"n too small: {counted(self.n, 'vote')}; it takes at least {self.fewest} to show anything."
        elif self.kind in RATED:
            verdict = "Intervals over the trials of this listener; systems whose differences hold 0 were not told apart."
        else:
            verdict = f"That {what} is {'shown' if self.p < LEVEL else 'not shown'} (p = {self.p:.3g}, n = {self.n})."
        notes = [f"{counted(self.ties, 'tie')} left out."] if self.ties else []
        if self.missed:
            doubt = "; by BS.1534 these ratings would be left out" if self.missed > MISSED_SHARE * self.n else ""
            least = RECOGNISED_SCORE[self.kind]
            notes.append(f"The hidden reference got less than {least} in {self.missed} of {self.n} trials{doubt}.")
        return (verdict, *notes, "One listener, one sitting.")


def outcome(plan: Plan, votes: Sequence[Vote]) -> Outcome:
    """Return the outcome of `votes` on the first trials."""
    design, kind = plan.design, plan.design.kind
    orders = (dict(zip(design.letters, trial.systems, strict=True)) for trial in plan.trials[: len(votes)])
    answers = [by_system(kind, order, vote.answer) for order, vote in zip(orders, votes, strict=True)]
    if kind in RATED:
        columns = {name: [answer[name] for answer in answers] for name in design.heard}
        reference = columns.get(str(design.reference), [])
        for name in design.heard if reference else ():
            if name != design.reference:
                columns[f"{name} less {design.reference}"] = [a - b for a, b in zip(columns[name], reference, strict=True)]
        missed = sum(score < RECOGNISED_SCORE[kind] for score in reference)
        return Outcome(kind, len(answers), 0, tuple(_mean(*column) for column in columns.items()), None, missed)
    if kind == "cmos":
        first, second = design.systems
        scores = [answer[second] for answer in answers]
        signs = [score > 0 for score in scores if score]
        figure = _mean(f"{second} over {first}", scores)
        return Outcome(kind, len(scores), len(scores) - len(signs), (figure,), _p_value(signs, kind))
    decided = [answer for answer in answers if TIED not in answer.values()]
    titles = {RECOGNISED: f"{UNKNOWN} recognised"} if kind == "abx" else {name: f"{name} preferred" for name in design.systems}
    hits = {title: [answer[name] == 1 for answer in decided] for name, title in titles.items()}
    n = len(decided)
    figures = tuple(Figure(title, n, share(sum(hit), n) if n else None, sum(hit)) for title, hit in hits.items())
    return Outcome(kind, n, len(answers) - n, figures, _p_value(next(iter(hits.values())), kind))


def _mean(name: str, scores: Sequence[float]) -> Figure:
    return Figure(name, len(scores), bootstrap(scores) if scores else None)


def _p_value(hits: Sequence[bool], kind: str) -> float | None:
    """Return p of the exact binomial test of `hits` against a half, for "abx" that there are more; None without any."""
    from scipy.stats import binomtest

    alternative = "greater" if kind == "abx" else "two-sided"
    return float(binomtest(sum(hits), len(hits), alternative=alternative).pvalue) if hits else None


def as_dict(
    plan: Plan, texts: Sequence[str], votes: Sequence[Vote], systems: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """Return a finished test ready for JSON. texts: by item of the plan. systems: facts about each, by name."""
    letters = plan.design.letters
    trials = [
        {"text": texts[trial.item], "take_seed": trial.seed, "order": dict(zip(letters, trial.systems, strict=True))}
        | {"vote": asdict(votes[i]) if i < len(votes) else None}
        for i, trial in enumerate(plan.trials)
    ]
    facts = {"version": VERSION, "design": asdict(plan.design), "seed": plan.seed, "systems": systems, "trials": trials}
    return facts | {"outcome": asdict(outcome(plan, votes))}


@dataclass(frozen=True)
class Listener:
    """A record of one listener: the answers by system (`by_system`), and the trial that each answer is about."""

    kind: str
    systems: tuple[str, ...]
    reference: str | None
    answers: tuple[dict[str, float], ...]
    trials: tuple[str, ...]

    def mean(self, system: str) -> float:
        return sum(answer[system] for answer in self.answers) / len(self.answers)

    @property
    def attentive(self) -> bool:
        """Whether the hidden reference, if there is one, was recognised often enough."""
        least = RECOGNISED_SCORE.get(self.kind, 0)
        missed = sum(answer[self.reference] < least for answer in self.answers) if self.reference else 0
        return missed <= MISSED_SHARE * len(self.answers)


@dataclass(frozen=True)
class Pooled:
    """The votes of `listeners` on the same systems; a listener counts as one, however many the trials.

    shares: the share of votes of a system, or its mean score, over listeners. left_out: listeners who missed the hidden
    reference. p: of the sign test over listeners, None where systems are rated and where no listener prefers any. agreement:
    Krippendorff's alpha of the listeners' answers on the trials that several heard (1: all agree, 0: as by chance); None
    without such trials.
    """

    kind: str
    listeners: int
    trials: int
    left_out: int
    shares: dict[str, Estimate]
    p: float | None
    agreement: float | None = None


def read_listener(path: Path) -> Listener:
    """Read a record as the page exports it (JSON); raise InputError for any other file."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        design = record["design"]
        voted = [trial for trial in record["trials"] if trial["vote"] is not None]
        answers = tuple(by_system(design["kind"], trial["order"], trial["vote"]["answer"]) for trial in voted)
        systems = {tuple(sorted(answer)) for answer in answers} or {tuple(sorted(design["systems"]))}
        if record["version"] != VERSION or design["kind"] not in KINDS or len(systems) > 1:
            raise ValueError
        trials = tuple(f"{trial['take_seed']} {trial['text']}" for trial in voted)
        return Listener(design["kind"], systems.pop(), design["reference"], answers, trials)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError("file", path.name, "a record of a listening test, as the page exports it") from error


def pool(listeners: Sequence[Listener]) -> list[Pooled]:
    """Return a result for each kind of test and set of systems; raise PCGError where there are no votes."""
    groups: dict[tuple[str, tuple[str, ...]], list[Listener]] = {}
    for listener in listeners:
        if listener.answers:
            groups.setdefault((listener.kind, listener.systems), []).append(listener)
    if not groups:
        raise PCGError("None of these records has a vote.")
    pooled = []
    for (kind, systems), group in groups.items():
        kept = [listener for listener in group if listener.attentive]
        shares = {name: bootstrap([listener.mean(name) for listener in kept]) for name in systems} if kept else {}
        better = [each.mean(systems[0]) - (0.5 if kind == "abx" else each.mean(systems[-1])) for each in kept]
        # Listeners are tested two-sided: one may recognise X less often than by chance.
        p = None if kind in RATED else _p_value([difference > 0 for difference in better if difference], "listeners")
        trials = sum(len(listener.answers) for listener in kept)
        pooled.append(Pooled(kind, len(kept), trials, len(group) - len(kept), shares, p, _agreement(kept)))
    return pooled


def _agreement(listeners: Sequence[Listener]) -> float | None:
    """Compute Krippendorff's alpha for interval data (Hayes and Krippendorff, 2007, eq. 1)."""
    units: dict[tuple[str, str], list[float]] = {}
    for listener in listeners:
        for trial, answer in zip(listener.trials, listener.answers, strict=True):
            # Of two that are compared the answers mirror each other.
            for system in listener.systems if listener.kind in RATED else listener.systems[:1]:
                units.setdefault((trial, system), []).append(answer[system])
    shared = [values for values in units.values() if len(values) > 1]
    every = np.concatenate(shared) if shared else np.zeros(0)
    if not shared or not every.std():
        return None
    observed = sum(len(values) * np.var(values, ddof=1) for values in shared) / len(every)
    return float(1 - observed / np.var(every, ddof=1))
