"""Block verification: drafted tokens are judged together, not one after the other (Sun et al., arXiv 2403.10444, Algorithm 2).

Both rules emit what token verification promises, and keep more of the draft: if the draft says one token too often and a later
one too seldom, the two errors cancel. With r_i the ratio of position i (q / p of the token; Q_c / P_c of its group),

    w_0 = 1,  w_i = min(1, w_{i-1} r_i)          the share of prefix i that stands, over all that the draft may say after it
    S_i = sum_x [w_i q(x) - p(x)]_+              what the draft then lacks at position i + 1
    h_i = S_i / (S_i + 1 - w_i),  h_L = w_L      the chance that a coin of its own keeps prefix i

and the longest prefix stands whose coin says so, L being how many tokens were drafted. If that is prefix i < L, the next token
comes from [w_i q - p]_+. Keeping prefix i *exactly* then has chance S_i, so that the next token x has probability
min(w_i q(x), p(x)) + [w_i q(x) - p(x)]_+ = w_i q(x): the target's, whatever i. Never fewer tokens are expected than with token
verification, since w_i >= min(1, r_1) .. min(1, r_i) for every draft. L may be decided prefix by prefix, as adaptive drafting
does, since h_L = w_L gives a prefix its share wherever it stops.

Here the coins are read from the front, which gives the same lengths with the same chances and keeps what a `Test` says: given
all drafted tokens, prefix i stands with chance g_i = h_i + (1 - h_i) g_{i+1}, so that position i, once all before it stand, is
accepted iff its coin is below `ratio` = g_i / g_{i-1}. That ratio looks at the later tokens, too; with one drafted token it is
min(1, r_1), and the rules are those of token verification, coin for coin.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from torch import Tensor

from pcg.acceptance.coarse_grained import RESIDUALS, dense_replacement, group_excess, thinned_replacement
from pcg.acceptance.sampler import as_array, draw
from pcg.acceptance.verdict import Coins, Rule, Test, Verdict, all_accepted, capped_ratio
from pcg.errors import InputError
from pcg.groups.groups import Grouping


def block(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
    """SD with block verification: the emitted text has exactly the target's probabilities, as with `exact`.

    What replaces the first token that does not stand comes from [w q - p]_+, which is the residual of SD only where w = 1.
    """
    tokens, accept, p, q = drafted.tolist(), coins.accept.tolist(), as_array(p), as_array(q)
    at = [(float(p[i, token]), float(q[i, token])) for i, token in enumerate(tokens)]
    shares = prefix_shares(at)

    @cache
    def excess(i: int) -> np.ndarray:
        return (shares[i] * q[i].astype(np.float64) - p[i]).clip(min=0)

    ratios = stand_ratios(shares, lambda i: float(excess(i).sum()))

    tests: list[Test] = []
    for i, x in enumerate(tokens):
        tests.append(Test(x, *at[i], *at[i], ratios[i], accept[i], accept[i] < ratios[i]))
        if not tests[-1].accepted:
            # Rounding can reject although w q nowhere exceeds p; the token then comes from q itself.
            replacement = draw(excess(i) if excess(i).any() else q[i], float(coins.residual[0]))
            return Verdict(i, replacement, "resampled", tuple(tests))
    return all_accepted(tests, q, coins)


def coarse_block(groups: Grouping, residual: str = "dense") -> Rule:
    """PCG with block verification: ratios and residuals are those of groups.

    Exact: the group at each position, given the text so far, has the target's probabilities Q_c (PCG Eq. 11), as with `coarse`.
    That the drafted prefix stands with share w_i is a matter of drafted tokens and coins alone, so it does not matter by which
    probabilities a token is drawn within the group that replaces a rejected one: it is q(. | K), Eq. 10, as in `coarse`.
    For each *token* to have the hybrid probabilities Q_c(K) p(x | K), replacements and bonus tokens would have to be drawn
    from p(. | K) as well.

    Not exact, as in `coarse`: the token within an accepted group follows p there. Since min(w Q_c, P_c) / w of a group's
    probability stands as it was drafted, and not min(Q_c, P_c), more of the text is of that kind.

    The price is time: the masses of all groups at up to L - 1 positions a round, 0.5 ms each with the embedded voice, 8 ms
    at 65,536 tokens in groups of 140. That is more than the further tokens of a round save on a CPU (docs/acceptance.md).

    residual: "dense", or "thinning" where w = 1 (elsewhere the masses of all groups were needed for the chances, and are at
    hand). With singleton groups and the dense residual this is `block`, coin for coin.
    """
    if residual not in RESIDUALS:
        raise InputError("residual", residual, "one of " + ", ".join(RESIDUALS))
    replace = dense_replacement if residual == "dense" else thinned_replacement

    def rule(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
        if q.shape[1] != groups.vocabulary:
            raise InputError("groups", f"made for {groups.vocabulary} tokens", f"groups over the {q.shape[1]} tokens of q")
        tokens, accept, p, q = drafted.tolist(), coins.accept.tolist(), as_array(p), as_array(q)
        labels = [groups.label(token, coin) for token, coin in zip(tokens, coins.group.tolist(), strict=False)]
        at = [(groups.mass(p[i], label), groups.mass(q[i], label)) for i, label in enumerate(labels)]
        shares = prefix_shares(at)

        @cache
        def excess(i: int) -> Tensor:
            return group_excess(groups, p[i], q[i], shares[i])

        ratios = stand_ratios(shares, lambda i: float(excess(i).sum()))

        tests: list[Test] = []
        for i, (x, group) in enumerate(zip(tokens, labels, strict=True)):
            seen = float(p[i, x]), float(q[i, x])
            tests.append(Test(x, *seen, *at[i], ratios[i], accept[i], accept[i] < ratios[i], group, groups.size(group)))
            if not tests[-1].accepted:
                lone = shares[i] == 1
                new = replace(groups, p[i], q[i], coins) if lone else dense_replacement(groups, p[i], q[i], coins, 0, excess(i))
                return new.verdict(i, "resampled", tests)
        return all_accepted(tests, q, coins)

    return rule


def prefix_shares(at: Sequence[tuple[float, float]]) -> list[float]:
    """w_0 .. w_L from what draft and target give each drafted token (or its group)."""
    shares = [1.0]
    for of_draft, of_target in at:
        shares.append(capped_ratio(shares[-1] * of_target, of_draft))
    return shares


def stand_ratios(shares: Sequence[float], lacking: Callable[[int], float]) -> list[float]:
    """The chance of each of L positions to stand if those before it do, given all drafted tokens.

    shares: w_0 .. w_L. lacking: S_i, asked for where 0 < w_i < 1 alone, as it costs a look at all probabilities.
    """
    standing = [shares[-1]]
    for i in range(len(shares) - 2, -1, -1):
        if 0 < shares[i] < 1:
            spare = lacking(i)
            keep = spare / (spare + 1 - shares[i])
        else:
            keep = shares[i]
        standing.append(keep + (1 - keep) * standing[-1])
    standing.reverse()
    return [after / before if before > 0 else 0.0 for before, after in pairwise(standing)]
