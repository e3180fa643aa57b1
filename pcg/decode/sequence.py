"""A DecodingSequence is one row of a batch while it is decoded: its rule, its sampler, its coins and what it emitted.

How many tokens it drafts may depend on what a round costs and what was accepted so far, before anything of a round is drawn.

The number depends on past rounds alone, and the coins of a round are drawn anew. Whatever a rule promises of a round, it
promises for any number of drafts, given the past: so what is exact stays exact.

What a clock says would make a take irreproducible. So a take is given the cost as a number (`Settings.lookahead_cost`) that is
stored with it; `pcg.synthesis.costs.lookahead_cost` measures it where none is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import mul
from typing import Self

import torch

from pcg.decode.draft import Proposal, RowRequest
from pcg.rules import Coins, Rule, Verdict
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


@dataclass(frozen=True)
class Drafting:
    """How many tokens are drafted a round: `lookahead`; fewer where `confidence` is given (`ModelRunner.propose`), or where
    fewer pay at `cost`, if that is above 0."""

    lookahead: int
    confidence: float | None = None
    cost: float = 0.0

    def count(self, past: Acceptances) -> int:
        """Decide by past rounds alone, before anything of this one is drawn."""
        if self.cost <= 0:
            return self.lookahead
        return choose_lookahead(linear_costs(self.cost, self.lookahead), past.expected(self.lookahead))


@dataclass(eq=False)
class DecodingSequence:
    """One row: `emitted` holds token indices without the end of speech.

    limit: the most tokens of the whole utterance. rule and drafting: who accepts drafted tokens; without them the target speaks
    alone. pause: a loop stops before its next call where so many tokens are emitted, and can be taken up again. past: the tests
    of its rounds so far. coins and proposal: those of the round that is open.
    """

    row: int
    limit: int
    generator: torch.Generator
    sampler: SamplerState
    rule: Rule | None = None
    drafting: Drafting | None = None
    pause: int | None = None
    emitted: list[int] = field(default_factory=list)
    ended: bool = False
    past: Acceptances = field(default_factory=Acceptances)
    coins: Coins | None = None
    proposal: Proposal | None = None

    @property
    def speaking(self) -> bool:
        goal = self.limit if self.pause is None else min(self.limit, self.pause)
        return not self.ended and len(self.emitted) < goal

    @property
    def drafted(self) -> list[int]:
        """The drafted tokens of the open round."""
        return self.proposal.drafted.tolist() if self.proposal else []

    def to_draft(self, read: int) -> RowRequest:
        """Draw the coins of a round, and ask a draft that has `read` so many tokens for a proposal."""
        self.coins = Coins.draw(self.drafting.lookahead, self.generator)
        coins = self.coins.draft[: self.drafting.count(self.past)]
        return RowRequest(self.row, self.emitted[read:], self.sampler, coins=coins)

    def to_verify(self, read: int) -> RowRequest:
        """Ask a target that has `read` so many tokens for its probabilities at the drafted ones and behind the last."""
        return RowRequest(self.row, self.emitted[read:], self.sampler, self.drafted)

    def commit(self, round_: Round, verdict: Verdict, sampler: SamplerState) -> None:
        """Append what the round emitted, and close it."""
        self.emitted += round_.tokens
        self.ended |= round_.ended
        self.past = self.past.after([test.accepted for test in verdict.tests])
        self.sampler, self.coins, self.proposal = sampler, None, None

    def fork(self, row: int, generator: torch.Generator) -> Self:
        """Copy it into another row, with coins of its own."""
        return replace(self, row=row, generator=generator, emitted=list(self.emitted))


def begin(sampler: SamplerState, limits: Sequence[int], generators: Sequence[torch.Generator]) -> list[DecodingSequence]:
    """Make sequences that emitted nothing, one in each row, all with the same sampler."""
    pairs = zip(limits, generators, strict=True)
    return [DecodingSequence(row, limit, generator, sampler) for row, (limit, generator) in enumerate(pairs)]
