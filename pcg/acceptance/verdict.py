"""What every acceptance rule takes and returns: drafted tokens, probabilities and coins in, a Verdict out.

Notation follows the PCG and SSD papers: `p` are the draft's probabilities and `q` the target's (Leviathan et al. write it the
other way round). Tokens are indices into them: speech codes first, the end-of-speech token last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pcg.acceptance.sampler import draw

# At 65,536 tokens a trial takes microseconds, the dense draw after the last one milliseconds: it has to stay rare.
THINNING_TRIALS = 64


@dataclass(frozen=True)
class Coins:
    """The randomness of one round as data, uniform in [0, 1), float64.

    draft `[L]` draws the drafted tokens; accept `[L]` and group `[L]` serve each position's test; residual `[2]` draws the
    group (or token) and then the token in it after a rejection; thinning `[TRIALS, 3]` is used instead where the residual is
    drawn by thinning: each row is one trial's coins for token, group and acceptance; bonus draws the token that follows a full
    acceptance.
    """

    draft: np.ndarray
    accept: np.ndarray
    group: np.ndarray
    residual: np.ndarray
    thinning: np.ndarray
    bonus: float

    @classmethod
    def draw(cls, lookahead: int, generator: torch.Generator) -> "Coins":
        """Draw the coins of a round with up to `lookahead` drafted tokens (torch.rand is below 1)."""
        flat = torch.rand(3 * lookahead + 3 + 3 * THINNING_TRIALS, generator=generator, dtype=torch.float64).numpy()
        draft, accept, group = flat[: 3 * lookahead].reshape(3, lookahead)
        rest = flat[3 * lookahead :]
        return cls(draft, accept, group, rest[:2], rest[3:].reshape(THINNING_TRIALS, 3), float(rest[2]))


@dataclass(frozen=True)
class Test:
    """What happened at one drafted position. `mass_p` and `mass_q` are P_c and Q_c of the drawn group under PCG, else p and q
    of the token; `ratio` is what the coin was compared with (accepted means coin < ratio); `group` is the group's number, or -1
    where the rule knows no groups."""

    token: int
    p: float
    q: float
    mass_p: float
    mass_q: float
    ratio: float
    coin: float
    accepted: bool
    group: int = -1
    group_size: int = 1

    __test__ = False  # pytest would collect it


@dataclass(frozen=True)
class Verdict:
    """How many drafted tokens stand, which token follows them, and why.

    `next_kind` is "bonus" after a full acceptance, "resampled" after a rejection, and "redrawn" where an accepted token was
    drawn again and ends the round: it is not counted in `accepted` although its test says so. `trials` counts the thinning
    trials (0 where the residual was drawn densely or not needed). `next_group` and `next_group_size` tell of the group that
    the next token was drawn from (-1 and 1 where the rule knows no groups, and for a bonus).
    """

    accepted: int
    next_token: int
    next_kind: str
    tests: tuple[Test, ...]
    trials: int = 0
    next_group: int = -1
    next_group_size: int = 1


class Rule(Protocol):
    """drafted `[L]` int64, p `[L, V]`, q `[L + 1, V]` (rows sum to one), coins -> Verdict."""

    def __call__(self, drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict: ...


def all_accepted(tests: Sequence[Test], q: np.ndarray, coins: Coins) -> Verdict:
    """Every drafted token stands, and a bonus token from the target's last probabilities, of q `[L + 1, V]`, follows."""
    return Verdict(len(tests), draw(q[len(tests)], coins.bonus), "bonus", tuple(tests))


def capped_ratio(q: float, p: float) -> float:
    """min(1, q / p); zero where q is, whatever p."""
    if q <= 0:
        return 0.0
    return 1.0 if q >= p else q / p
