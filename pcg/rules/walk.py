"""What every rule shares: the walk over the drafted tokens, and the two halves of rejection sampling on tokens."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from pcg.rules.verdict import Coins, Test, Verdict, draw


@dataclass(frozen=True)
class Resampled:
    """The token that takes a rejected one's place, the group it was drawn from (-1: none) and the thinning trials it took."""

    token: int
    group: int = -1
    group_size: int = 1
    trials: int = 0


def walk(
    drafted: Tensor, q: Tensor, coins: Coins, test: Callable[[int], Test], resample: Callable[[int], Resampled]
) -> Verdict:
    """Test position after position; resample at the first rejection, or draw a bonus token (PCG Algorithm 1)."""
    tests: list[Test] = []
    for position in range(len(drafted)):
        tests.append(test(position))
        if not tests[-1].accepted:
            new = resample(position)
            return Verdict(position, new.token, "resampled", tuple(tests), new.trials, new.group, new.group_size)
    return Verdict(len(drafted), draw(q[len(drafted)], coins.bonus), "bonus", tuple(tests))


def capped_ratio(q: float, p: float) -> float:
    """min(1, q / p); zero where q is, whatever p."""
    if q <= 0:
        return 0.0
    return 1.0 if q >= p else q / p


def judge_tokens(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins, bias: float) -> Verdict:
    """Accept token x if coin < min(1, q(x) / p(x)) + bias, else draw from [q - p]_+ (SSD Eq. 5 and 6)."""
    tokens = drafted.tolist()

    def test(i: int) -> Test:
        mass_p, mass_q, coin = float(p[i, tokens[i]]), float(q[i, tokens[i]]), float(coins.accept[i])
        ratio = min(1.0, capped_ratio(mass_q, mass_p) + bias)
        return Test(tokens[i], mass_p, mass_q, mass_p, mass_q, ratio, coin, coin < ratio)

    def resample(i: int) -> Resampled:
        excess = (q[i].double() - p[i].double()).clamp(min=0)
        # Rounding can reject although q nowhere exceeds p; the law to emit is then q itself.
        return Resampled(draw(excess if excess.any() else q[i], float(coins.residual[0])))

    return walk(drafted, q, coins, test, resample)
