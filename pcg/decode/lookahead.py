"""How many tokens to draft: what a round costs, and what was accepted so far, decide before anything of a round is drawn.

The number depends on past rounds alone, and the coins of a round are drawn anew. Whatever a rule promises of a round, it
promises for any number of drafts, given the past: so what is exact stays exact.

What a clock says would make a take irreproducible. So a take is given the cost as a number (`Settings.lookahead_cost`) that is
stored with it; `pcg.synthesis.costs.lookahead_cost` measures it where nobody names one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

HOPE = 0.5
"""The assumed chance that the first drafted token is accepted, before any test."""
WEIGHT = 4.0
"""The assumption counts as much as this many tests."""
DECAY = 0.99
"""Each further round multiplies the weight of all older tests by this."""


@dataclass(frozen=True)
class Acceptances:
    """How many tests were passed at each position of a round, `accepted` of `tested`, older ones weighing less."""

    tested: tuple[float, ...] = ()
    accepted: tuple[float, ...] = ()

    def after(self, passed: Sequence[bool]) -> "Acceptances":
        """With one more round: whether each of its tests was passed, up to the first that was not."""
        seen = max(len(self.tested), len(passed))
        new = [(1.0, float(each)) for each in passed] + [(0.0, 0.0)] * (seen - len(passed))
        old = [*zip(self.tested, self.accepted, strict=True), *[(0.0, 0.0)] * (seen - len(self.tested))]
        both = [(DECAY * t + n, DECAY * a + m) for (t, a), (n, m) in zip(old, new, strict=True)]
        return Acceptances(tuple(t for t, _ in both), tuple(a for _, a in both))

    def expected(self, positions: int) -> list[float]:
        """The chance to pass at each position if all before it passed. Few tests at one say little: it leans on all of them."""
        pooled = (sum(self.accepted) + WEIGHT * HOPE) / (sum(self.tested) + WEIGHT)
        known = [(a + WEIGHT * pooled) / (t + WEIGHT) for t, a in zip(self.tested, self.accepted, strict=True)]
        return [*known, *[pooled] * (positions - len(known))][:positions]


def choose_lookahead(costs: Sequence[float], acceptances: Sequence[float]) -> int:
    """The number of drafts L = 1, 2, ... with the most expected tokens for a round's cost; the smallest of equals.

    costs: of a round with L drafts, in any unit. acceptances: the chance of each position if all before it stand, at least as
    many. Expected tokens are 1 + a_1 + a_1 a_2 + .. (Leviathan et al., arXiv 2211.17192, Eq. 1, with an a for each position).
    """
    stands = accumulate(acceptances[: len(costs)], mul)
    tokens = [1 + more for more in accumulate(stands)]
    rates = [length / cost for length, cost in zip(tokens, costs, strict=True)]
    return 1 + rates.index(max(rates))


def linear_costs(cost: float, most: int) -> list[float]:
    """The costs of rounds with 1 .. `most` drafts, in rounds without any; each draft costs `cost` of such a round."""
    return [1 + cost * count for count in range(1, most + 1)]
