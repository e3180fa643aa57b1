"""What the votes show, and when they show nothing: intervals, exact tests, and how many votes it would take."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pcg.experiments.listening_tests.design import OPEN, TIE, UNKNOWN, Plan, Vote
from pcg.metrics.estimate import Estimate, bootstrap, share

LEVEL, POWER, CLEAR_SHARE = 0.05, 0.8, 0.75
# ITU-R BS.1534-3, 4.1.2: who rates the hidden reference lower than this in more than 15 % of the trials is left out there.
RECOGNISED, MISSED_SHARE = 90, 0.15


@dataclass(frozen=True)
class Figure:
    """Something counted or rated in `n` votes: `count` of them, or a mean rating; `estimate` with its 95 % interval."""

    name: str
    n: int
    estimate: Estimate | None
    count: int | None = None


@dataclass(frozen=True)
class Outcome:
    """n: votes that decide something; ties: those that do not. p: of the exact binomial test against chance, None in a rating.

    fewest: with fewer votes not even equal ones reach p < 0.05. enough: about how many find a share of 75 % in four tests of
    five. missed: trials in which the hidden reference was not recognised as such.
    """

    kind: str
    n: int
    ties: int
    figures: tuple[Figure, ...]
    p: float | None
    fewest: int
    enough: int
    missed: int = 0

    @property
    def too_small(self) -> bool:
        return self.n < self.fewest

    @property
    def sentences(self) -> tuple[str, ...]:
        """In words, for whoever reads the figures."""
        return tuple(filter(None, (self._verdict(), self._ties(), self._reference(), "One listener, one sitting.")))

    def _verdict(self) -> str:
        if self.too_small:
            needed = f"at least {self.fewest}"
            if self.kind != "rating":
                needed += f", if all agree, and about {self.enough} to find a share of {CLEAR_SHARE:.0%} four times of five"
            return f"n too small: {self.n} {_votes(self.n)}; to show anything it takes {needed}."
        if self.kind == "rating":
            return "Intervals over the trials of this listener; systems whose differences hold 0 were not told apart."
        found = "shown" if self.p is not None and self.p < LEVEL else "not shown"
        what = "a difference was heard" if self.kind == "abx" else "one is preferred"
        more = f"; about {self.enough} votes would find a share of {CLEAR_SHARE:.0%} four times of five"
        # To have shown nothing is no proof that there is nothing.
        return f"That {what} is {found} (p = {self.p:.3g}, n = {self.n}{'' if found == 'shown' else more})."

    def _ties(self) -> str:
        return f"{self.ties} {'tie' if self.ties == 1 else 'ties'} left out." if self.ties else ""

    def _reference(self) -> str:
        if not self.missed:
            return ""
        doubt = "; by BS.1534 these ratings would be left out" if self.missed > MISSED_SHARE * self.n else ""
        return f"The hidden reference got less than {RECOGNISED} in {self.missed} of {self.n} trials{doubt}."


def outcome(plan: Plan, votes: Sequence[Vote]) -> Outcome:
    """What `votes` show; the first is of the first trial, and the last trials may lack theirs."""
    if len(votes) > len(plan.trials):
        raise ValueError("there are more votes than trials")
    return {"ab": _preference, "abx": _recognition, "rating": _ratings}[plan.design.kind](plan, votes)


def _preference(plan: Plan, votes: Sequence[Vote]) -> Outcome:
    chosen = [chosen_system(plan, i, vote) for i, vote in enumerate(votes)]
    decided = [system for system in chosen if system is not None]
    n, counts = len(decided), {system: decided.count(system) for system in plan.design.systems}
    figures = tuple(Figure(f"{name} preferred", n, share(k, n) if n else None, k) for name, k in counts.items())
    p = _p_value(figures[0].count, n, "two-sided") if n else None
    return Outcome("ab", n, len(votes) - n, figures, p, fewest("two-sided"), votes_needed("two-sided"))


def _recognition(plan: Plan, votes: Sequence[Vote]) -> Outcome:
    right = sum(chosen_system(plan, i, vote) == plan.trials[i].systems[-1] for i, vote in enumerate(votes))
    n = len(votes)
    figure = Figure(f"{UNKNOWN} recognised", n, share(right, n) if n else None, right)
    p = _p_value(right, n, "greater") if n else None
    return Outcome("abx", n, 0, (figure,), p, fewest("greater"), votes_needed("greater"))


def _ratings(plan: Plan, votes: Sequence[Vote]) -> Outcome:
    design, n = plan.design, len(votes)
    scores = [scores_of(plan, i, vote) for i, vote in enumerate(votes)]
    columns = {system: [row[system] for row in scores] for system in design.rated}
    figures = [Figure(system, n, bootstrap(column) if n else None) for system, column in columns.items()]
    reference = columns[str(design.reference)]
    for system, column in columns.items():
        if system != design.reference:
            difference = [a - b for a, b in zip(column, reference, strict=True)]
            figures.append(Figure(f"{system} less {design.reference}", n, bootstrap(difference) if n else None))
    missed = sum(score < RECOGNISED for score in reference)
    return Outcome("rating", n, 0, tuple(figures), None, fewest("two-sided"), votes_needed("two-sided"), missed)


def chosen_system(plan: Plan, trial: int, vote: Vote) -> str | None:
    """Who stood behind the letter that was voted for; None for a tie."""
    if vote.answer == TIE:
        return None
    return plan.trials[trial].systems[plan.design.letters.index(str(vote.answer))]


def scores_of(plan: Plan, trial: int, vote: Vote) -> dict[str, float]:
    """The scores of one trial by system."""
    hidden = [s for s, letter in zip(plan.trials[trial].systems, plan.design.letters, strict=True) if letter != OPEN]
    return dict(zip(hidden, vote.answer, strict=True))


@lru_cache
def fewest(alternative: str) -> int:
    """The least n at which votes that are all equal have p < LEVEL."""
    return next(n for n in range(1, 100) if _p_value(n, n, alternative) < LEVEL)


@lru_cache
def votes_needed(alternative: str) -> int:
    """The least n at which the exact test, at LEVEL, finds a share of `CLEAR_SHARE` with probability `POWER` or more."""
    from scipy.stats import binom

    tail = LEVEL / 2 if alternative == "two-sided" else LEVEL
    return next(n for n in range(1, 10_000) if binom.sf(binom.isf(tail, n, 0.5), n, CLEAR_SHARE) >= POWER)


def _p_value(count: int, n: int, alternative: str) -> float:
    """Of the exact binomial test against a half."""
    from scipy.stats import binomtest  # half a second to import, and the page opens without it

    return float(binomtest(count, n, alternative=alternative).pvalue)


def _votes(n: int) -> str:
    return "vote counts" if n == 1 else "votes count"
