"""Two baselines that look at the target's probabilities alone: the k likeliest tokens, and Medusa's typical acceptance.

Neither reads the draft's probabilities, so neither has any guarantee: what they emit follows neither the target's probabilities
nor those of groups, however small the draft's error is.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import entr
from torch import Tensor

from pcg.acceptance.sampler import as_array, draw
from pcg.acceptance.verdict import Coins, Rule, Test, Verdict, all_accepted
from pcg.errors import InputError


def membership(k: int) -> Rule:
    """Accept token x iff it is among the target's k most probable tokens (LLaSA+ verifies like this, with k = 50).

    No distribution is guaranteed. Tokens that tie with the k-th are all in; a token with q(x) = 0 never is. A rejected token is
    replaced by a draw from q itself.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError("k", k, "a whole number from 1 up")
    return _accept_where(lambda q, token: np.count_nonzero(q > q[token]) < k and q[token] > 0)


def typical(epsilon: float, delta: float) -> Rule:
    """Accept token x iff q(x) > min(epsilon, delta exp(-H(q))), H being q's entropy in nats.

    This is Medusa's typical acceptance (Cai et al., arXiv 2401.10774, section 2.3.1). No distribution is guaranteed.
    Medusa's own values are epsilon 0.09 and delta 0.3, its square root; Medusa also takes the first token of a round greedily,
    while here a rejected token is replaced by a draw from q itself.
    """
    if not 0 <= epsilon <= 1:
        raise InputError("epsilon", epsilon, "a number from 0 to 1")
    if not 0 <= delta < float("inf"):
        raise InputError("delta", delta, "a finite number from 0 up")
    return _accept_where(lambda q, token: q[token] > min(epsilon, delta * np.exp(-entr(q, dtype=np.float64).sum())))


def _accept_where(accepts: Callable[[np.ndarray, int], bool]) -> Rule:
    """The rule that accepts a token where `accepts(q [V], token)` says so, whatever its coin."""

    def rule(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
        accept, p, q, tests = coins.accept.tolist(), as_array(p), as_array(q), []
        for i, x in enumerate(drafted.tolist()):
            seen, ratio = (float(p[i, x]), float(q[i, x])), float(accepts(q[i], x))
            tests.append(Test(x, *seen, *seen, ratio, accept[i], accept[i] < ratio))
            if not tests[-1].accepted:
                return Verdict(i, draw(q[i], float(coins.residual[0])), "resampled", tuple(tests))
        return all_accepted(tests, q, coins)

    return rule
