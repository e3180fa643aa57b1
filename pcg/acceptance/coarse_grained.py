"""PCG: principled coarse-grained acceptance (Yanuka et al., arXiv 2511.13732, section 2.2 and Algorithm 1)."""

import numpy as np
from torch import Tensor

from pcg.acceptance.sampler import Sampler, as_array
from pcg.acceptance.verdict import Coins, Rule, Test, Verdict, draw
from pcg.acceptance.walk import Replacement, capped_ratio, walk
from pcg.errors import InputError
from pcg.groups.groups import Grouping

RESIDUALS = ("dense", "thinning")
REDRAWS = ("never", "full", "last")


def coarse(groups: Grouping, residual: str = "dense", redraw: str = "never") -> Rule:
    """Accept or reject the drafted token's group; `residual` says how a rejected group is replaced.

    Exact: the group drawn at each tested position, given what came before, has the target's coarse law Q_c (Eq. 11), by either
    residual. Not exact: the token within an accepted group, which is the draft's (it follows p there, not q), and so the token
    law and everything said after it. With singleton groups and the dense residual this is exact speculative decoding, coin for
    coin.

    `redraw` says when the last accepted token is drawn again from its group by the target (Eq. 10), and ends the round:

    - "full": after a full acceptance, in place of the bonus token. Whether it comes to that depends on no test behind the
      token, so groups keep the law Q_c, and the last drafted position of a round, where the text reaches it, has exactly the
      target's token law q. The price is a token a fully accepted round.
    - "last": after every round that accepted something. With one drafted token a round it is "full". With more, the first
      token of a round has a group of the law Q_c, and the token that ends a round follows q within its group; nothing else
      is kept, because where a round ends depends on the test of the next draft. The tokens before the last follow p within
      their groups, tilted towards those after which that test passes; and the later groups, which stand only if they passed
      it, follow min(P_c, Q_c) in their round instead of Q_c. The text leans towards the draft, even with singleton groups.

    With one drafted token a round, either gives every emitted token exactly the target's law, at a token a target call.
    """
    if residual not in RESIDUALS:
        raise InputError("residual", residual, "one of " + ", ".join(RESIDUALS))
    if redraw not in REDRAWS:
        raise InputError("redraw", redraw, "one of " + ", ".join(REDRAWS))
    replace = dense_replacement if residual == "dense" else thinned_replacement

    def rule(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
        if q.shape[1] != groups.vocabulary:
            raise InputError(
                "groups", f"made for {groups.vocabulary} tokens", f"groups over the {q.shape[1]} tokens of the laws"
            )
        tokens, p, q = drafted.tolist(), as_array(p), as_array(q)
        label_coins, accept_coins = coins.group.tolist(), coins.accept.tolist()

        def test(i: int) -> Test:
            group, coin = groups.label(tokens[i], label_coins[i]), accept_coins[i]
            mass_p, mass_q = groups.mass(p[i], group), groups.mass(q[i], group)
            ratio = capped_ratio(mass_q, mass_p)
            token_p, token_q = float(p[i, tokens[i]]), float(q[i, tokens[i]])
            return Test(tokens[i], token_p, token_q, mass_p, mass_q, ratio, coin, coin < ratio, group, groups.size(group))

        def resample(i: int) -> Replacement:
            return replace(groups, p[i], q[i], coins)

        def draw_again(accepted: Test, i: int) -> Replacement:
            return _within(groups, accepted.group, q[i], coins)

        return walk(drafted, q, coins, test, resample, None if redraw == "never" else draw_again, redraw == "last")

    return rule


def _within(groups: Grouping, group: int, q: np.ndarray, coins: Coins, trials: int = 0) -> Replacement:
    """A token of the group by the q-conditional (Eq. 10)."""
    members = groups.members_of(group).numpy()
    token = int(members[draw(q[members] * groups.weights(group).numpy(), float(coins.residual[1]))])
    return Replacement(token, group, len(members), trials)


def group_excess(groups: Grouping, p: np.ndarray, q: np.ndarray, share: float = 1.0) -> Tensor:
    """[share Q_c - P_c]_+ of every group, `[M]` float64, from `p [V]` and `q [V]`."""
    return groups.masses(share * q.astype(np.float64) - p).clamp(min=0)


def dense_replacement(
    groups: Grouping, p: np.ndarray, q: np.ndarray, coins: Coins, trials: int = 0, excess: Tensor | None = None
) -> Replacement:
    """K ~ [Q_c - P_c]_+ over all groups (Eq. 8), or another `excess [M]`, then a token of it."""
    excess = group_excess(groups, p, q) if excess is None else excess
    # Rounding can reject although Q_c nowhere exceeds P_c; the law to emit is then Q_c itself.
    group = draw(excess if excess.any() else groups.masses(q), float(coins.residual[0]))
    return _within(groups, group, q, coins, trials)


def thinned_replacement(groups: Grouping, p: np.ndarray, q: np.ndarray, coins: Coins) -> Replacement:
    """(y, K) ~ Q_c until one passes a(K) = [1 - P_c / Q_c]_+ (Eq. 9), in at most as many trials as there are coins.

    a(K) does not look at y, so y already has the q-conditional of Eq. 10 within K, and is emitted. When the trials run out the
    dense draw has the same law, so the bound on them costs no exactness.
    """
    target, rows = Sampler(q), coins.thinning.tolist()
    for trial, (token_coin, group_coin, accept_coin) in enumerate(rows, start=1):
        token = target.draw(token_coin)
        group = groups.label(token, group_coin)
        if accept_coin < 1 - groups.mass(p, group) / groups.mass(q, group):
            return Replacement(token, group, groups.size(group), trial)
    return dense_replacement(groups, p, q, coins, trials=len(rows))
