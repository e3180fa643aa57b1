"""PCG: principled coarse-grained acceptance (Yanuka et al., arXiv 2511.13732, section 2.2 and Algorithm 1)."""

from torch import Tensor

from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.rules.verdict import Coins, Rule, Test, Verdict, draw
from pcg.rules.walk import Resampled, capped_ratio, walk

RESIDUALS = ("dense", "thinning")


def coarse(groups: Groups, residual: str = "dense") -> Rule:
    """Accept or reject the drafted token's group; `residual` says how a rejected group is replaced.

    Exact: the group drawn at each tested position, given what came before, has the target's coarse law Q_c (Eq. 11), by either
    residual. Not exact: the token within an accepted group, which is the draft's (it follows p there, not q), and so the token
    law and everything said after it. With singleton groups and the dense residual this is exact speculative decoding, coin for
    coin.
    """
    if residual not in RESIDUALS:
        raise InputError("residual", residual, "one of " + ", ".join(RESIDUALS))
    replace = _dense if residual == "dense" else _thinned

    def rule(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
        tokens = drafted.tolist()

        def test(i: int) -> Test:
            group = _group_label(groups, tokens[i], float(coins.group[i]))
            mass_p, mass_q = groups.mass(p[i], group), groups.mass(q[i], group)
            ratio, coin = capped_ratio(mass_q, mass_p), float(coins.accept[i])
            token_p, token_q = float(p[i, tokens[i]]), float(q[i, tokens[i]])
            size = groups.size(group)
            return Test(tokens[i], token_p, token_q, mass_p, mass_q, ratio, coin, coin < ratio, group, size)

        return walk(drafted, q, coins, test, lambda i: replace(groups, p[i], q[i], coins))

    return rule


def _group_label(groups: Groups, token: int, coin: float) -> int:
    """K ~ w_{k,x} over S(x) (Eq. 6); equal split makes it uniform."""
    candidates = groups.groups_of(token)
    return int(candidates[int(coin * len(candidates))])


def _dense(groups: Groups, p: Tensor, q: Tensor, coins: Coins, trials: int = 0) -> Resampled:
    """K ~ [Q_c - P_c]_+ over all groups (Eq. 8), then a token of it by the q-conditional (Eq. 10)."""
    excess = groups.masses(q.double() - p.double()).clamp(min=0)
    # Rounding can reject although Q_c nowhere exceeds P_c; the law to emit is then Q_c itself.
    group = draw(excess if excess.any() else groups.masses(q), float(coins.residual[0]))
    members = groups.members_of(group)
    token = int(members[draw(q[members].double() * groups.weights(group), float(coins.residual[1]))])
    return Resampled(token, group, len(members), trials)


def _thinned(groups: Groups, p: Tensor, q: Tensor, coins: Coins) -> Resampled:
    """(y, K) ~ Q_c until one passes a(K) = [1 - P_c / Q_c]_+ (Eq. 9), in at most as many trials as there are coins.

    a(K) does not look at y, so y already has the q-conditional of Eq. 10 within K, and is emitted. When the trials run out the
    dense draw has the same law, so the bound on them costs no exactness.
    """
    rows = coins.thinning.tolist()
    for trial, (token_coin, group_coin, accept_coin) in enumerate(rows, start=1):
        token = draw(q, token_coin)
        group = _group_label(groups, token, group_coin)
        if accept_coin < 1 - groups.mass(p, group) / groups.mass(q, group):
            return Resampled(token, group, groups.size(group), trial)
    return _dense(groups, p, q, coins, trials=len(rows))
