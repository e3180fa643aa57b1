"""SSD: acceptance with a tolerance (Lin et al., arXiv 2505.15380)."""

from functools import partial

from pcg.acceptance.verdict import Rule
from pcg.acceptance.walk import judge_tokens
from pcg.errors import InputError


def tolerant(beta: float) -> Rule:
    """Accept token x if coin < min(1, q(x) / p(x)) + beta (their Eq. 5), else draw from [q - p]_+ (their Eq. 6).

    At beta = 0 this is exact speculative decoding; from beta = 1 on it accepts every draft. In between no law is guaranteed,
    and even a token that the target gives no probability is accepted with probability beta.
    """
    if not beta >= 0:
        raise InputError("beta", beta, "a number from 0 up")
    return partial(judge_tokens, bias=beta)
