"""The two rules that look at the target's law alone: whom they accept, what replaces the others, and that no law is kept."""

import math

import pytest
import torch

from pcg.errors import InputError
from pcg.rules import membership, typical
from pcg.sampling import draw

ALMOST_ONE = 1 - 2**-53
UNIFORM = torch.full((2, 8), 0.125, dtype=torch.float64)
# The likeliest first: tokens 6, 0, then 2 and 4 alike; 1 and 7 are impossible.
Q = torch.tensor([0.25, 0.0, 0.1, 0.08, 0.1, 0.05, 0.42, 0.0], dtype=torch.float64)
TARGETS = torch.stack([Q, Q])


def accepted(rule, coins, token, coin=ALMOST_ONE):
    verdict = rule(torch.tensor([token]), UNIFORM[:1], TARGETS, coins(lookahead=1, accept=[coin], residual=[0.9, 0.1]))
    (test,) = verdict.tests
    assert (test.p, test.q, test.mass_p, test.mass_q) == (0.125, float(Q[token]), 0.125, float(Q[token]))
    assert test.ratio in (0.0, 1.0)
    assert test.accepted == (coin < test.ratio) == (verdict.accepted == 1)
    if not test.accepted:
        assert (verdict.next_kind, verdict.next_token) == ("resampled", draw(Q, 0.9))
    return test.accepted


@pytest.mark.parametrize(
    ("k", "inside"), [(1, {6}), (2, {0, 6}), (3, {0, 2, 4, 6}), (5, {0, 2, 3, 4, 6}), (50, {0, 2, 3, 4, 5, 6})]
)
@pytest.mark.parametrize("coin", [0.0, ALMOST_ONE])
def test_membership_accepts_the_k_likeliest_whatever_the_coin(k, inside, coin, coins):
    assert {token for token in range(8) if accepted(membership(k), coins, token, coin)} == inside


def test_a_share_of_the_likeliest_narrows_the_membership(coins):
    for share, inside in ((0.0, {0, 2, 3, 4, 6}), (0.2, {0, 2, 4, 6}), (0.5, {0, 6}), (1.0, {6})):
        assert {token for token in range(8) if accepted(membership(5, share), coins, token)} == inside
    with pytest.raises(InputError, match=r"^share is 2, .* from 0 to 1"):
        membership(5, 2)


def test_typical_compares_with_the_smaller_of_both_thresholds(coins):
    spread = math.exp(sum(float(x) * math.log(x) for x in Q if x > 0))
    assert 0.2 < spread < 0.25
    for epsilon, delta in ((0.09, 1.0), (1.0, 0.09 / spread)):
        inside = {token for token in range(8) if accepted(typical(epsilon, delta), coins, token)}
        assert inside == {0, 2, 4, 6}
    assert not accepted(typical(0.25, 9.0), coins, 0)
    assert accepted(typical(0.25, 1.0), coins, 0)
    assert {token for token in range(8) if accepted(typical(0.0, 0.3), coins, token)} == {0, 2, 3, 4, 5, 6}


def test_a_flat_law_lets_every_token_be_typical(coins):
    """Entropy ln 8: the threshold is delta / 8."""
    p, q = UNIFORM[:1], UNIFORM
    for delta, count in ((0.99, 1), (1.01, 0)):
        verdict = typical(1.0, delta)(torch.tensor([5]), p, q, coins(lookahead=1))
        assert (verdict.accepted, verdict.next_kind) == (count, "bonus" if count else "resampled")


@pytest.mark.parametrize("rule", [membership(3), typical(0.15, 1.0)])
def test_neither_keeps_the_targets_law(rule, laws, coins):
    """By enumeration: the mass of the accepted drafts, and the rest of it spread like q."""
    p, q = laws
    law = torch.zeros(8, dtype=torch.float64)
    for token in range(8):
        passed = rule(torch.tensor([token]), p[1:], q[1:], coins(lookahead=1)).accepted
        law += p[1, token] * (torch.eye(8)[token] if passed else q[1])
    assert float(law.sum()) == pytest.approx(1.0)
    assert float((law - q[1]).abs().sum()) > 0.1


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "50", None])
def test_k_is_a_whole_number_from_one_up(k):
    with pytest.raises(InputError, match=r"^k is .* whole number from 1 up"):
        membership(k)


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf")])
def test_thresholds_out_of_range_are_refused(bad):
    with pytest.raises(InputError, match=r"^epsilon is .* from 0 to 1"):
        typical(bad, 0.3)
    with pytest.raises(InputError, match=r"^delta is .* from 0 up"):
        typical(0.09, bad)


def test_epsilon_is_a_probability():
    with pytest.raises(InputError, match="epsilon"):
        typical(1.1, 0.3)
