"""What every rule shares: the walk over the drafted tokens, and the two halves of rejection sampling on tokens."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from pcg.acceptance.sampler import as_array
from pcg.acceptance.verdict import Coins, Test, Verdict, draw


@dataclass(frozen=True)
class Replacement:
    """The token that takes a drafted one's place, the group it was drawn from (-1: none) and the thinning trials it took."""

    token: int
    group: int = -1
    group_size: int = 1
    trials: int = 0


def walk(
    drafted: Tensor,
    q: np.ndarray,
    coins: Coins,
    test: Callable[[int], Test],
    resample: Callable[[int], Replacement],
    redraw: Callable[[Test, int], Replacement] | None = None,
    redraw_after_rejection: bool = False,
) -> Verdict:
    """Test position after position; resample at the first rejection, or draw a bonus token (PCG Algorithm 1).

    With `redraw`, the last token of a full acceptance (with `redraw_after_rejection`, the last accepted one of any round) is
    drawn again, and nothing that was conditioned on it is kept.
    """
    tests: list[Test] = []
    for position in range(len(drafted)):
        tests.append(test(position))
        if not tests[-1].accepted:
            break
    accepted = sum(test.accepted for test in tests)
    if redraw and accepted and (redraw_after_rejection or accepted == len(drafted)):
        accepted -= 1
        new, kind = redraw(tests[accepted], accepted), "redrawn"
    elif accepted < len(drafted):
        new, kind = resample(accepted), "resampled"
    else:
        new, kind = Replacement(draw(q[accepted], coins.bonus)), "bonus"
    return Verdict(accepted, new.token, kind, tuple(tests), new.trials, new.group, new.group_size)


def capped_ratio(q: float, p: float) -> float:
    """min(1, q / p); zero where q is, whatever p."""
    if q <= 0:
        return 0.0
    return 1.0 if q >= p else q / p


def judge_tokens(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins, bias: float) -> Verdict:
    """Accept token x if coin < min(1, q(x) / p(x)) + bias, else draw from [q - p]_+ (SSD Eq. 5 and 6)."""
    tokens, accept, p, q = drafted.tolist(), coins.accept.tolist(), as_array(p), as_array(q)

    def test(i: int) -> Test:
        mass_p, mass_q = float(p[i, tokens[i]]), float(q[i, tokens[i]])
        ratio = min(1.0, capped_ratio(mass_q, mass_p) + bias)
        return Test(tokens[i], mass_p, mass_q, mass_p, mass_q, ratio, accept[i], accept[i] < ratio)

    def resample(i: int) -> Replacement:
        excess = np.subtract(q[i], p[i], dtype=np.float64).clip(min=0)
        # Rounding can reject although q nowhere exceeds p; the law to emit is then q itself.
        return Replacement(draw(excess if excess.any() else q[i], float(coins.residual[0])))

    return walk(drafted, q, coins, test, resample)
