"""SD and SSD: speculative sampling, token by token.

With p the draft's probabilities and q the target's, a drafted token x

    is accepted      if coin < min(1, q(x) / p(x)) + beta        (SD: beta = 0; SSD: Lin et al., arXiv 2505.15380, Eq. 5)
    or is replaced   by a draw from [q - p]_+ / sum [q - p]_+    (the residual; Leviathan et al., arXiv 2211.17192; SSD Eq. 6)

and the tokens behind a replaced one are dropped. SD emits exactly the target's probabilities: min(p, q) + [q - p]_+ = q.
"""

from functools import partial

import numpy as np
from torch import Tensor

from pcg.acceptance.sampler import as_array, draw
from pcg.acceptance.verdict import Coins, Rule, Test, Verdict, all_accepted, capped_ratio
from pcg.errors import InputError


def exact(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
    """SD: every emitted token has exactly the target's probabilities."""
    return speculative_sampling(drafted, p, q, coins, beta=0.0)


def tolerant(beta: float) -> Rule:
    """SSD: SD with the tolerance `beta`, 0 for SD, from 1 on every draft passes. In between nothing is guaranteed: even a token
    to which the target gives no probability is accepted with probability beta."""
    if not beta >= 0:
        raise InputError("beta", beta, "a number from 0 up")
    return partial(speculative_sampling, beta=beta)


def speculative_sampling(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins, beta: float) -> Verdict:
    """drafted `[L]`, p `[L, V]`, q `[L + 1, V]`: test each token, and replace the first that fails."""
    accept, p, q, tests = coins.accept.tolist(), as_array(p), as_array(q), []
    for i, x in enumerate(drafted.tolist()):
        p_x, q_x = float(p[i, x]), float(q[i, x])
        ratio = min(1.0, capped_ratio(q_x, p_x) + beta)
        tests.append(Test(x, p_x, q_x, p_x, q_x, ratio, accept[i], accept[i] < ratio))
        if not tests[-1].accepted:
            residual = np.subtract(q[i], p[i], dtype=np.float64).clip(min=0)
            # Rounding can reject although q nowhere exceeds p; the token then comes from q itself.
            replacement = draw(residual if residual.any() else q[i], float(coins.residual[0]))
            return Verdict(i, replacement, "resampled", tuple(tests))
    return all_accepted(tests, q, coins)
