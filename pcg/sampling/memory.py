"""The seam of sampling laws: a Memory turns logits into a law, and a drawn token into the next Memory.

A Memory is immutable. To roll back is to go on from an older one, so a rejected draft leaves no trace in it. Target and draft
share the target's: the draft goes on from it on a fork of its own, which is dropped when the round is judged.
"""

from dataclasses import dataclass
from typing import Protocol, Self

from torch import Tensor


@dataclass(frozen=True)
class Warped:
    """The `law [V]` that a token is drawn from, and the `leaders` that compete for it, best first (empty where the law does
    not look at them)."""

    law: Tensor
    leaders: tuple[int, ...] = ()


class Memory(Protocol):
    """What a sampling law keeps of an utterance."""

    def warp(self, logits: Tensor) -> Warped:
        """The law behind `logits [V]` at this point of the utterance, float32 on the CPU."""
        ...

    def after(self, token: int, warped: Warped) -> Self:
        """The memory when `token` has been spoken by the law `warped`."""
        ...
