"""What a draft proposes: tokens, and the probabilities that each was drawn from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcg.sampling import SamplerState

ENTROPY_WEIGHT = 0.2


@dataclass(frozen=True)
class Proposal:
    """Drafted tokens `[L]` (int64) and their probabilities `[L, V]`; L may be 0 where drafting looked hopeless from the
    start."""

    drafted: Tensor
    probs: Tensor

    def first(self, count: int) -> "Proposal":
        """No more than the first `count` tokens."""
        return self if count >= len(self.drafted) else Proposal(self.drafted[:count], self.probs[:count])


@dataclass(frozen=True, eq=False)
class RowRequest:
    """What a model reads in one row: the `unread` emitted tokens, then `drafted` ones to be verified; or, for a draft, which
    draws a token by each of `coins [L]`."""

    row: int
    unread: Sequence[int]
    sampler: SamplerState
    drafted: Sequence[int] = ()
    coins: np.ndarray | Tensor | None = None


def acceptance_bound(p: Tensor) -> float:
    """How probable it is that a token of the draft's probabilities `p [V]` will be accepted, judged by their entropy alone.

    AdaEDL's bound 1 - sqrt(gamma H(p)) (Agrawal et al., arXiv 2410.18351), with gamma 0.2 and H in nats.
    """
    return 1.0 - (ENTROPY_WEIGHT * float(torch.special.entr(p).sum())) ** 0.5


def entropy_limit(confidence: float | None) -> float:
    """The entropy in nats above which `acceptance_bound` is below `confidence`: infinite without one."""
    if confidence is None:
        return math.inf
    return (1.0 - confidence) ** 2 / ENTROPY_WEIGHT if confidence <= 1 else -math.inf
