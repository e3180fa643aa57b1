"""Exact speculative decoding emits the target's law, token by token."""

import pytest
import torch

from pcg.rules import exact
from pcg.sampling import draw

ALMOST_ONE = 1 - 2**-53


def test_accepted_and_residual_mass_add_up_to_the_target(laws, coins):
    p, q = laws
    accepted = torch.zeros(8, dtype=torch.float64)
    for token in range(8):
        verdict = exact(torch.tensor([0, token]), p, q, coins(accept=[0, ALMOST_ONE]))
        accepted[token] = p[1, token] * verdict.tests[1].ratio
    residual = (q[1] - p[1]).clamp(min=0) / (q[1] - p[1]).clamp(min=0).sum()
    torch.testing.assert_close(accepted, torch.minimum(p[1], q[1]), rtol=0, atol=1e-15)
    torch.testing.assert_close(accepted + (1 - accepted.sum()) * residual, q[1], rtol=0, atol=1e-12)
    edges = residual.cumsum(0)
    for token in residual.nonzero().flatten().tolist():
        for coin in (edges[token] - residual[token] + 1e-9, edges[token] - 1e-9):
            verdict = exact(torch.tensor([0, 2]), p, q, coins(accept=[0, ALMOST_ONE], residual=[coin, 0.5]))
            assert (verdict.accepted, verdict.next_kind, verdict.next_token) == (1, "resampled", token)


def test_bonus_is_the_targets_next_token(laws, coins):
    p, q = laws
    for bonus in (0.0, 0.3, 0.9):
        verdict = exact(torch.tensor([0, 0]), p, q[[0, 1, 1]], coins(bonus=bonus))
        assert (verdict.accepted, verdict.next_kind, verdict.next_token) == (2, "bonus", draw(q[1], bonus))
        assert (verdict.next_group, verdict.next_group_size, verdict.trials) == (-1, 1, 0)


@pytest.mark.parametrize("coin", [0.0, ALMOST_ONE])
def test_extreme_coins_stay_inside_the_residual(coin, coins):
    p = torch.tensor([[0.25, 0.25, 0.25, 0.25]])
    q = torch.tensor([[0.0, 0.5, 0.5, 0.0], [0.25, 0.25, 0.25, 0.25]])
    verdict = exact(torch.tensor([0]), p, q, coins(lookahead=1, accept=[coin], residual=[coin, coin]))
    assert verdict.next_token == (1 if coin == 0 else 2)


@pytest.mark.parametrize("tiny", [1e-300, 5e-324])
def test_a_tiny_draft_probability_is_harmless(tiny, coins):
    p = torch.tensor([[tiny, 1.0]], dtype=torch.float64)
    q = torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    sure = exact(torch.tensor([0]), p, q, coins(lookahead=1, accept=[ALMOST_ONE]))
    assert (sure.accepted, sure.tests[0].ratio) == (1, 1.0)
    hopeless = exact(torch.tensor([0]), q[:1], torch.cat([p, q[:1]]), coins(lookahead=1, accept=[1e-200]))
    assert (hopeless.accepted, hopeless.next_token) == (0, 1)


def test_a_draft_outside_both_laws_is_rejected(coins):
    p = torch.tensor([[0.0, 1.0]])
    verdict = exact(torch.tensor([0]), p, torch.cat([p, p]), coins(lookahead=1, accept=[0.0]))
    assert (verdict.accepted, verdict.next_token) == (0, 1)
