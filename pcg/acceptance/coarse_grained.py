"""PCG: principled coarse-grained acceptance (Yanuka et al., arXiv 2511.13732, section 2.2 and Algorithm 1).

With P_c(K) and Q_c(K) the masses that draft and target give group K (a token's mass is shared by the groups that it is in),
a drafted token x, whose group K is drawn among those that hold it,

    is accepted      if coin < min(1, Q_c(K) / P_c(K))                       (Eq. 7)
    or is replaced   by K ~ [Q_c - P_c]_+, then x ~ q(. | K)                 (Eq. 8 and 10; by thinning: Eq. 9)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from pcg.acceptance.sampler import Sampler, as_array, draw
from pcg.acceptance.verdict import Coins, Rule, Test, Verdict, all_accepted, capped_ratio
from pcg.errors import InputError
from pcg.groups.groups import Grouping

RESIDUALS = ("dense", "thinning")


@dataclass(frozen=True)
class Replacement:
    """A token drawn from `group`, and how many thinning trials it took."""

    token: int
    group: int
    group_size: int
    trials: int = 0

    def verdict(self, accepted: int, kind: str, tests: Sequence[Test]) -> Verdict:
        return Verdict(accepted, self.token, kind, tuple(tests), self.trials, self.group, self.group_size)


def coarse(groups: Grouping, residual: str = "dense", redraw: bool = False) -> Rule:
    """Accept or reject the drafted token's group; `residual` says how a rejected group is replaced ("dense" or "thinning").

    Exact: the group drawn at each tested position, given what came before, has the target's probabilities Q_c (Eq. 11), by
    either residual. Not exact: the token within an accepted group, which is the draft's (it follows p there, not q), and so the
    tokens and everything said after it. With singleton groups and the dense residual this is `exact`, coin for coin.

    redraw: after a full acceptance, in place of the bonus token, draw the last accepted token again from its group by the
    target (Eq. 10). Whether it comes to that depends on no test behind the token, so groups keep Q_c, and the last drafted
    position of a round, where the text reaches it, has exactly the target's token probabilities q if the number of drafted
    tokens does not depend on the tokens. The price is a token a fully accepted round; with one drafted token a round every
    emitted token is exact, at a token a target call.
    """
    if residual not in RESIDUALS:
        raise InputError("residual", residual, "one of " + ", ".join(RESIDUALS))
    replace = dense_replacement if residual == "dense" else thinned_replacement

    def rule(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
        if q.shape[1] != groups.vocabulary:
            raise InputError("groups", f"made for {groups.vocabulary} tokens", f"groups over the {q.shape[1]} tokens of q")
        p, q, tests = as_array(p), as_array(q), []
        labels, accept = coins.group.tolist(), coins.accept.tolist()
        for i, x in enumerate(drafted.tolist()):
            group = groups.label(x, labels[i])
            p_group, q_group = groups.mass(p[i], group), groups.mass(q[i], group)
            ratio = capped_ratio(q_group, p_group)
            seen = float(p[i, x]), float(q[i, x])
            tests.append(Test(x, *seen, p_group, q_group, ratio, accept[i], accept[i] < ratio, group, groups.size(group)))
            if not tests[-1].accepted:
                return replace(groups, p[i], q[i], coins).verdict(i, "resampled", tests)
        if redraw and tests:
            last = len(tests) - 1
            return _within(groups, tests[last].group, q[last], coins).verdict(last, "redrawn", tests)
        return all_accepted(tests, q, coins)

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
    # Rounding can reject although Q_c nowhere exceeds P_c; the group then comes from Q_c itself.
    group = draw(excess if excess.any() else groups.masses(q), float(coins.residual[0]))
    return _within(groups, group, q, coins, trials)


def thinned_replacement(groups: Grouping, p: np.ndarray, q: np.ndarray, coins: Coins) -> Replacement:
    """(y, K) ~ Q_c until one passes a(K) = [1 - P_c / Q_c]_+ (Eq. 9), in at most as many trials as there are coins.

    a(K) does not look at y, so y already has the q-conditional of Eq. 10 within K, and is emitted. When the trials run out the
    dense draw has the same probabilities, so the bound on them costs no exactness.
    """
    target, rows = Sampler(q), coins.thinning.tolist()
    for trial, (token_coin, group_coin, accept_coin) in enumerate(rows, start=1):
        token = target.draw(token_coin)
        group = groups.label(token, group_coin)
        if accept_coin < 1 - groups.mass(p, group) / groups.mass(q, group):
            return Replacement(token, group, groups.size(group), trial)
    return dense_replacement(groups, p, q, coins, trials=len(rows))
