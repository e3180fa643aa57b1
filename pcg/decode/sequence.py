"""How many tokens to draft: what a round costs, and what was accepted so far, decide before anything of a round is drawn.

The number depends on past rounds alone, and the coins of a round are drawn anew. Whatever a rule promises of a round, it
promises for any number of drafts, given the past: so what is exact stays exact.

What a clock says would make a take irreproducible. So a take is given the cost as a number (`Settings.lookahead_cost`) that is
stored with it; `pcg.synthesis.costs.lookahead_cost` measures it where nobody names one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import mul
from typing import Self

import torch

from pcg.sampling import SamplerState
from pcg.take import Round

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


@dataclass
class DecodingSequence:
    """`emitted` holds token indices without the end of speech. `limit`: the most tokens of the whole utterance. `pause`: a loop
    stops before its next call, and can be taken up again, where as many tokens are emitted; the last call may go beyond it.
    `past`: the tests of its rounds so far."""

    row: int
    limit: int
    generator: torch.Generator
    memory: SamplerState
    pause: int | None = None
    emitted: list[int] = field(default_factory=list)
    ended: bool = False
    past: Acceptances = field(default_factory=Acceptances)

    @property
    def speaking(self) -> bool:
        goal = self.limit if self.pause is None else min(self.limit, self.pause)
        return not self.ended and len(self.emitted) < goal

    def say(self, round_: Round, memory: SamplerState) -> None:
        self.emitted += round_.tokens
        self.ended |= round_.ended
        self.memory = memory

    def fork(self, row: int, generator: torch.Generator) -> Self:
        """Itself again in another row, with coins of its own."""
        return replace(self, row=row, generator=generator, emitted=list(self.emitted))


def begin(memory: SamplerState, limits: Sequence[int], generators: Sequence[torch.Generator]) -> list[DecodingSequence]:
    """Utterances that have said nothing, one in each row, all with the same sampler."""
    return [
        DecodingSequence(row, limit, each, memory) for row, (limit, each) in enumerate(zip(limits, generators, strict=True))
    ]
