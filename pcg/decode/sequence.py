"""A DecodingSequence is one row of a batch while it is decoded: its rule, its sampler, its coins and what it emitted.

Models read its RowRequests, and a draft answers one with a Proposal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from pcg.rules import Coins, Rule
from pcg.sampling import SamplerState
from pcg.take import Round


@dataclass(frozen=True)
class Proposal:
    """Drafted tokens `[L]` (int64) and the probabilities `[L, V]` that each was drawn from."""

    drafted: Tensor
    probs: Tensor


@dataclass(frozen=True, eq=False)
class RowRequest:
    """A row's input: the `unread` emitted tokens, then `drafted` ones to verify; or `coins [L]`, for a draft to draw by."""

    row: int
    unread: Sequence[int]
    sampler: SamplerState
    drafted: Sequence[int] = ()
    coins: np.ndarray | Tensor | None = None


@dataclass(eq=False)
class DecodingSequence:
    """One row: `emitted` holds token indices without the end of speech.

    limit: the most tokens of the whole utterance. rule: accepts drafted tokens, `lookahead` of them a round; without one the
    target speaks alone. pause: a loop stops before its next call where so many tokens are emitted, and can be taken up again.
    coins and proposal: those of the round that is open.
    """

    row: int
    limit: int
    generator: torch.Generator
    sampler: SamplerState
    rule: Rule | None = None
    lookahead: int = 0
    pause: int | None = None
    emitted: list[int] = field(default_factory=list)
    ended: bool = False
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
        self.coins = Coins.draw(self.lookahead, self.generator)
        return RowRequest(self.row, self.emitted[read:], self.sampler, coins=self.coins.draft)

    def to_verify(self, read: int) -> RowRequest:
        """Ask a target that has `read` so many tokens for its probabilities at the drafted ones and behind the last."""
        return RowRequest(self.row, self.emitted[read:], self.sampler, self.drafted)

    def commit(self, round_: Round, sampler: SamplerState) -> None:
        """Append what the round emitted, and close it."""
        self.emitted += round_.tokens
        self.ended |= round_.ended
        self.sampler, self.coins, self.proposal = sampler, None, None

    def fork(self, row: int, generator: torch.Generator) -> Self:
        """Copy it into another row, with coins of its own."""
        return replace(self, row=row, generator=generator, emitted=list(self.emitted))
