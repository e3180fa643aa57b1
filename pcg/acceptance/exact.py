"""SD: exact speculative decoding (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318)."""

from torch import Tensor

from pcg.acceptance.verdict import Coins, Verdict
from pcg.acceptance.walk import judge_tokens


def exact(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
    """Accept token x if coin < min(1, q(x) / p(x)), else draw from [q - p]_+ by the first residual coin.

    Every emitted token has exactly the target's law q: min(p, q) + [q - p]_+ = q.
    """
    return judge_tokens(drafted, p, q, coins, bias=0.0)
