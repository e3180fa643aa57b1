"""Acceptance rules: pure functions of drafted tokens, probabilities and coins.

With p the draft's probabilities and q the target's (as in the PCG and SSD papers; Leviathan et al. swap
them), a drafted token x stands if

    SD     coin < min(1, q(x) / p(x))                 exact: every token follows q             (arXiv 2211.17192, Algorithm 1)
    SSD    coin < min(1, q(x) / p(x)) + beta          no guarantee for beta > 0                (arXiv 2505.15380, Eq. 5)
    PCG    coin < min(1, Q_c(K) / P_c(K))             exact over groups, given the text so far (arXiv 2511.13732, Eq. 7)

where K is a group of x, drawn among those that hold it, and P_c, Q_c are the masses of a group (a token's mass is shared by the
groups that it is in). The first token that fails is replaced by a draw from the residual, and the tokens behind it are dropped:

    SD, SSD   [q - p]_+                                          (SSD Eq. 6)
    PCG       K ~ [Q_c - P_c]_+, then x ~ q(. | K)               (Eq. 8 and 10; by thinning: Eq. 9)

Tokens are indices: speech codes first, the end of speech last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.groups.neighbours import Neighbours
from pcg.sampling import Draws, as_array, draw

THINNING_TRIALS = 64
"""At 65,536 tokens a trial takes microseconds and the dense draw after the last one milliseconds: it has to stay rare."""


@dataclass(frozen=True)
class Coins:
    """The random numbers of one round, uniform in [0, 1), float64.

    draft `[L]` draws the drafted tokens; accept `[L]` and group `[L]` serve each position's test; residual `[2]` draws the
    group (or token) and the token in it after a rejection; thinning `[TRIALS, 3]` holds each trial's coins for token, group and
    acceptance; bonus draws the token after a full acceptance.
    """

    draft: np.ndarray
    accept: np.ndarray
    group: np.ndarray
    residual: np.ndarray
    thinning: np.ndarray
    bonus: float

    @classmethod
    def draw(cls, lookahead: int, generator: torch.Generator) -> "Coins":
        """Draw the coins of a round of up to `lookahead` drafted tokens."""
        flat = torch.rand(3 * lookahead + 3 + 3 * THINNING_TRIALS, generator=generator, dtype=torch.float64).numpy()
        draft, accept, group = flat[: 3 * lookahead].reshape(3, lookahead)
        rest = flat[3 * lookahead :]
        return cls(draft, accept, group, rest[:2], rest[3:].reshape(THINNING_TRIALS, 3), float(rest[2]))


@dataclass(frozen=True)
class Test:
    """The test of one drafted token: accepted means coin < ratio.

    `mass_p` and `mass_q` are P_c and Q_c of the drawn `group` under PCG, else p and q of the token; `group` is -1 where
    the rule knows no groups.
    """

    token: int
    p: float
    q: float
    mass_p: float
    mass_q: float
    ratio: float
    coin: float
    accepted: bool
    group: int = -1
    group_size: int = 1

    __test__ = False  # pytest would collect it


@dataclass(frozen=True)
class Verdict:
    """How many drafted tokens stand, which token follows them, and why.

    `next_kind` is "bonus" after a full acceptance and "resampled" after a rejection. `trials` counts thinning trials.
    `next_group` and `next_group_size` describe the group that the next token was drawn from (-1 and 1 where there is none).
    """

    accepted: int
    next_token: int
    next_kind: str
    tests: tuple[Test, ...]
    trials: int = 0
    next_group: int = -1
    next_group_size: int = 1


class Rule(Protocol):
    """drafted `[L]` int64, p `[L, V]`, q `[L + 1, V]` (rows sum to one), coins -> Verdict."""

    def __call__(self, drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict: ...


def capped_ratio(q: float, p: float) -> float:
    """Return min(1, q / p), and zero where q is zero."""
    if q <= 0:
        return 0.0
    return 1.0 if q >= p else q / p


def all_accepted(tests: Sequence[Test], q: np.ndarray, coins: Coins) -> Verdict:
    """Make the verdict of a full acceptance: a bonus token from the target's last row of `q [L + 1, V]` follows."""
    return Verdict(len(tests), draw(q[len(tests)], coins.bonus), "bonus", tuple(tests))


# SD and SSD

Aim = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
"""(p [V], q [V], drafted token) -> the distribution [V] that a rule keeps at a position."""


def exact(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
    """SD: every emitted token has exactly the target's probabilities, since min(p, q) + [q - p]_+ = q."""
    return speculative_sampling(drafted, p, q, coins, beta=0.0)


def tolerant(beta: float) -> Rule:
    """SSD with tolerance `beta`: 0 is SD; from 1 on every draft passes, even one that the target excludes."""
    if not beta >= 0:
        raise InputError("beta", beta, "a number from 0 up")
    return partial(speculative_sampling, beta=beta)


def speculative_sampling(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins, beta: float, aim: Aim | None = None) -> Verdict:
    """SD and SSD; with an `aim`, SD toward its distribution in place of q, and `mass_q` of a Test is its chance."""
    accept, p, q, tests = coins.accept.tolist(), as_array(p), as_array(q), []
    for i, x in enumerate(drafted.tolist()):
        wanted = aim(p[i], q[i], x) if aim else q[i]
        p_x, wanted_x = float(p[i, x]), float(wanted[x])
        ratio = min(1.0, capped_ratio(wanted_x, p_x) + beta)
        tests.append(Test(x, p_x, float(q[i, x]), p_x, wanted_x, ratio, accept[i], accept[i] < ratio))
        if not tests[-1].accepted:
            residual = np.subtract(wanted, p[i], dtype=np.float64).clip(min=0)
            # Rounding can reject although nothing exceeds p; the token then comes from q itself.
            replacement = draw(residual if residual.any() else q[i], float(coins.residual[0]))
            return Verdict(i, replacement, "resampled", tuple(tests))
    return all_accepted(tests, q, coins)


# PCG


@dataclass(frozen=True)
class Replacement:
    """A token drawn from `group`, and how many thinning trials it took."""

    token: int
    group: int
    group_size: int
    trials: int = 0

    def verdict(self, accepted: int, tests: Sequence[Test]) -> Verdict:
        return Verdict(accepted, self.token, "resampled", tuple(tests), self.trials, self.group, self.group_size)


def coarse(groups: Groups, residual: Literal["dense", "thinning"] = "dense") -> Rule:
    """PCG: test the drafted token's group, and replace a rejected group by "dense" or "thinning".

    Exact: the group at each tested position, given the text so far, has the target's probabilities Q_c (Eq. 11), by either
    residual. Not exact: the token within an accepted group follows p, and so everything after it. With singleton groups and the
    dense residual this is `exact`, coin for coin.
    """
    if residual not in ("dense", "thinning"):
        raise InputError("residual", residual, "dense or thinning")
    return partial(coarse_sampling, groups=groups, residual=residual)


def coarse_sampling(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins, groups: Groups, residual: str) -> Verdict:
    if q.shape[1] != groups.vocabulary:
        raise InputError("groups", f"made for {groups.vocabulary} tokens", f"groups over the {q.shape[1]} tokens of q")
    p, q, tests = as_array(p), as_array(q), []
    labels, accept = coins.group.tolist(), coins.accept.tolist()
    for i, x in enumerate(drafted.tolist()):
        group = groups.label(x, labels[i])
        p_group, q_group = groups.mass(p[i], group), groups.mass(q[i], group)
        ratio = capped_ratio(q_group, p_group)
        p_x, q_x = float(p[i, x]), float(q[i, x])
        tests.append(Test(x, p_x, q_x, p_group, q_group, ratio, accept[i], accept[i] < ratio, group, groups.size(group)))
        if not tests[-1].accepted:
            replacement = dense_replacement if residual == "dense" else thinned_replacement
            return replacement(groups, p[i], q[i], coins).verdict(i, tests)
    return all_accepted(tests, q, coins)


def dense_replacement(groups: Groups, p: np.ndarray, q: np.ndarray, coins: Coins, trials: int = 0) -> Replacement:
    """Draw K ~ [Q_c - P_c]_+ over all groups (Eq. 8), then a token of it by q (Eq. 10)."""
    excess = groups.masses(q.astype(np.float64) - p).clamp(min=0)
    # Rounding can reject although Q_c nowhere exceeds P_c; the group then comes from Q_c itself.
    group = draw(excess if excess.any() else groups.masses(q), float(coins.residual[0]))
    members = groups.members_of(group).numpy()
    token = int(members[draw(q[members] * groups.weights(group).numpy(), float(coins.residual[1]))])
    return Replacement(token, group, len(members), trials)


def thinned_replacement(groups: Groups, p: np.ndarray, q: np.ndarray, coins: Coins) -> Replacement:
    """Draw the residual by thinning (Eq. 9): y ~ q with a group K of it, until a coin is below a(K) = [1 - P_c / Q_c]_+.

    a(K) does not look at y, so y already has the q-conditional of Eq. 10 within K, and is emitted. When the trials run out the
    dense draw has the same probabilities, so the bound on them costs no exactness.
    """
    target, rows = Draws(q), coins.thinning.tolist()
    for trial, (token_coin, group_coin, accept_coin) in enumerate(rows, start=1):
        token = target.draw(token_coin)
        group = groups.label(token, group_coin)
        if accept_coin < 1 - groups.mass(p, group) / groups.mass(q, group):
            return Replacement(token, group, groups.size(group), trial)
    return dense_replacement(groups, p, q, coins, trials=len(rows))


# Block verification: drafted tokens are judged together (Sun et al., arXiv 2403.10444, Algorithm 2)
#
# It promises what SD promises and keeps more of the draft. With r_i = q / p of the token at position i,
#
#     w_0 = 1,  w_i = min(1, w_{i-1} r_i)          the share of prefix i that stands, over all that the draft may say after it
#     S_i = sum_x [w_i q(x) - p(x)]_+              what the draft then lacks at position i + 1
#     h_i = S_i / (S_i + 1 - w_i),  h_L = w_L      the chance that a coin of its own keeps prefix i
#
# the longest prefix whose coin says so stands, and the next token comes from [w_i q - p]_+. Prefix i then ends the round with
# chance S_i, so the next token has probability min(w_i q, p) + [w_i q - p]_+ = w_i q: the target's, whatever i is.
#
# The coins are read from the front, which gives the same chances and keeps the meaning of a Test: given all drafted tokens,
# prefix i stands with chance g_i = h_i + (1 - h_i) g_{i+1}, and position i is accepted iff its coin is below g_i / g_{i-1}.


def block(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
    """SD with block verification: the emitted text has exactly the target's probabilities."""
    tokens, accept, p, q = drafted.tolist(), coins.accept.tolist(), as_array(p), as_array(q)
    at = [(float(p[i, token]), float(q[i, token])) for i, token in enumerate(tokens)]
    shares = list(accumulate(at, lambda share, pair: capped_ratio(share * pair[1], pair[0]), initial=1.0))
    excess = [(shares[i] * q[i].astype(np.float64) - p[i]).clip(min=0) for i in range(len(tokens))]
    standing = [shares[-1]]
    for share, lacking in zip(shares[-2::-1], excess[::-1], strict=True):
        spare = float(lacking.sum())
        keep = spare / (spare + 1 - share) if 0 < share < 1 else share
        standing.append(keep + (1 - keep) * standing[-1])
    tests: list[Test] = []
    for i, (before, after) in enumerate(pairwise(standing[::-1])):
        ratio = after / before if before > 0 else 0.0
        tests.append(Test(tokens[i], *at[i], *at[i], ratio, accept[i], accept[i] < ratio))
        if not tests[-1].accepted:
            replacement = draw(excess[i] if excess[i].any() else q[i], float(coins.residual[0]))
            return Verdict(i, replacement, "resampled", tuple(tests))
    return all_accepted(tests, q, coins)


# Other lossy rules
#
# Those of the first kind look at the target's probabilities alone and promise no distribution. Those of the second kind are SD
# toward another distribution than the target's, which they keep exactly where it does not depend on the drafted token.


def membership(k: int, share: float = 0.0) -> Rule:
    """Accept a token that is among the target's `k` most probable ones (LLaSA+ verifies so, with k = 50) and has at least
    `share` of the probability of the first one, as users of serving engines ask for (vLLM #43184, SGLang #7702).

    Tokens that tie with the k-th are all in; one with q(x) = 0 never is. A rejected token is replaced by a draw from q.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError("k", k, "a whole number from 1 up")
    _check_share("share", share)
    return _accept_where(lambda q, token: np.count_nonzero(q > q[token]) < k and q[token] > 0 and q[token] >= share * q.max())


def typical(epsilon: float, delta: float) -> Rule:
    """Accept token x if q(x) > min(epsilon, delta exp(-H(q))), H being q's entropy in nats (Medusa, arXiv 2401.10774, 2.3.1).

    Medusa's own values are 0.09 and 0.3. Medusa takes the first token of a round greedily; here a rejected token is replaced by
    a draw from q.
    """
    _check_share("epsilon", epsilon)
    if not 0 <= delta < float("inf"):
        raise InputError("delta", delta, "a finite number from 0 up")
    return _accept_where(lambda q, token: q[token] > min(epsilon, delta * np.exp(-entropy(q))))


def entropy(q: np.ndarray) -> float:
    """H(q) in nats of probabilities `[V]`."""
    q = q[q > 0].astype(np.float64)
    return float(-(q * np.log(q)).sum())


def _accept_where(accepts: Callable[[np.ndarray, int], bool]) -> Rule:
    def rule(drafted: Tensor, p: Tensor, q: Tensor, coins: Coins) -> Verdict:
        accept, p, q, tests = coins.accept.tolist(), as_array(p), as_array(q), []
        for i, x in enumerate(drafted.tolist()):
            p_x, q_x, ratio = float(p[i, x]), float(q[i, x]), float(accepts(q[i], x))
            tests.append(Test(x, p_x, q_x, p_x, q_x, ratio, accept[i], accept[i] < ratio))
            if not tests[-1].accepted:
                return Verdict(i, draw(q[i], float(coins.residual[0])), "resampled", tuple(tests))
        return all_accepted(tests, q, coins)

    return rule


def ensemble(weight: float) -> Rule:
    """SD toward v = weight q + (1 - weight) p, whose acceptance is 1 - weight TV(q, p): transformers'
    `assistant_ensemble_weight` (arXiv 2604.07622). 1 is SD, 0 accepts every draft."""
    _check_share("weight", weight)
    return _toward(lambda p, q, token: weight * q + (1 - weight) * p)


def cascade(alpha: float) -> Rule:
    """SD toward the draft where it is sure enough, else toward the target: the rule OPT of speculative cascades (arXiv
    2405.19261, section 4). The draft stays unless max p < max q - alpha TV(p, q); 0 compares the maxima alone."""
    if not 0 <= alpha < float("inf"):
        raise InputError("alpha", alpha, "a finite number from 0 up")

    def wanted(p: np.ndarray, q: np.ndarray, token: int) -> np.ndarray:
        distance = 0.5 * float(np.abs(q.astype(np.float64) - p).sum())
        return q if p.max() < q.max() - alpha * distance else p

    return _toward(wanted)


def lantern(near: Callable[[int], np.ndarray], delta: float) -> Rule:
    """Test a token with the mass of its nearest ones added, as many as hold at most `delta` (LANTERN, arXiv 2410.03355).

    The target's distribution is moved by at most `delta` in total variation, but by another set for each drafted token, so none
    is kept. A rejected token's neighbours are excluded with it.

    Args:
        near: the tokens near a token, the nearest first and itself left out, `[K]`.
    """
    _check_share("delta", delta)

    def wanted(p: np.ndarray, q: np.ndarray, token: int) -> np.ndarray:
        others = near(token)
        masses = q[others].cumsum(dtype=np.float64)
        count = int(np.searchsorted(masses, delta, side="right"))
        moved = q.copy()
        moved[others[:count]] = 0
        moved[token] += masses[count - 1] if count else 0
        return moved

    return _toward(wanted)


def _toward(aim: Aim) -> Rule:
    """Make SD toward the distribution of `aim`. As no partial of `speculative_sampling`: it has no program for a GPU."""
    return lambda drafted, p, q, coins: speculative_sampling(drafted, p, q, coins, beta=0.0, aim=aim)


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(name, value, "a number from 0 to 1")


FORMS = (
    *("sd", "ssd:BETA", "pcg:THETA", "membership:K", "relaxed:K:SHARE", "typical:EPSILON:DELTA"),
    *("lantern:DELTA", "ensemble:WEIGHT", "cascade:ALPHA"),
)


def named_rule(name: str, neighbours: Callable[[], Neighbours]) -> Rule:
    """Return the rule that a name of one of `FORMS` stands for; raise InputError for others. neighbours: the lists of similar
    tokens, for the rules that look at them."""
    known: dict[str, tuple[Callable[..., Rule], tuple[type, ...]]] = {
        "sd": (lambda: exact, ()),
        "ssd": (tolerant, (float,)),
        # With singletons dense, which is SD.
        "pcg": (lambda theta: coarse(neighbours().groups_at(theta), "thinning" if theta < 1 else "dense"), (float,)),
        "membership": (membership, (int,)),
        "relaxed": (membership, (int, float)),
        "typical": (typical, (float, float)),
        "lantern": (lambda delta: lantern(lambda token: neighbours().of(token)[0].numpy()[1:], delta), (float,)),
        "ensemble": (ensemble, (float,)),
        "cascade": (cascade, (float,)),
    }
    try:
        kind, *values = name.split(":")
        make, types = known[kind]
        return make(*(kind_of(value) for kind_of, value in zip(types, values, strict=True)))
    except (KeyError, ValueError) as error:
        raise InputError("rule", name, "one of " + ", ".join(FORMS)) from error
