"""Exact speculative decoding emits the target's law, token by token."""

from dataclasses import replace

import pytest
import torch

from pcg.acceptance.rejection import exact
from pcg.acceptance.sampler import draw

ROUNDS = 4000
# Sampling noise over 8 outcomes is about 0.4 sqrt(8 / 4000) = 0.018.
BOUND = 0.03
ALMOST_ONE = 1 - 2**-53


def second_token(verdict):
    """What was emitted at position 1, which every round of the fixture laws reaches."""
    return verdict.tests[1].token if verdict.tests[1].accepted else verdict.next_token


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


def test_emitted_law_is_the_target(laws, play, distance):
    p, q = laws
    assert distance([second_token(v) for v in play(exact, p, q, ROUNDS)], q[1]) < BOUND


def test_the_bound_catches_a_rule_that_always_accepts(laws, play, distance):
    p, q = laws

    def gullible(drafted, p, q, coins):
        return exact(drafted, p, q, replace(coins, accept=torch.zeros_like(coins.accept)))

    assert distance([second_token(v) for v in play(gullible, p, q, ROUNDS)], q[1]) > BOUND


def test_bonus_is_the_targets_next_token(laws, coins):
    p, q = laws
    for bonus in (0.0, 0.3, 0.9):
        verdict = exact(torch.tensor([0, 0]), p, q[[0, 1, 1]], coins(bonus=bonus))
        assert (verdict.accepted, verdict.next_kind, verdict.next_token) == (2, "bonus", draw(q[1], bonus))
        assert (verdict.next_group, verdict.next_group_size, verdict.trials) == (-1, 1, 0)


def test_nothing_drafted_gives_one_token_of_the_target(laws, coins):
    verdict = exact(torch.empty(0, dtype=torch.int64), torch.empty(0, 8), laws[1][1:2], coins(bonus=0.2))
    assert (verdict.accepted, verdict.next_token, verdict.tests) == (0, draw(laws[1][1], 0.2), ())


def test_stops_at_the_first_rejection(random_laws, play):
    verdicts = play(exact, *random_laws(20, 4, seed=1), rounds=200)
    assert {v.accepted for v in verdicts} == {0, 1, 2, 3, 4}
    for verdict in verdicts:
        flags = [test.accepted for test in verdict.tests]
        assert flags == [True] * verdict.accepted + [False] * (verdict.next_kind == "resampled")
        assert all(test.accepted == (test.coin < test.ratio) for test in verdict.tests)


def test_tokens_without_probability_are_never_drawn(random_laws, play):
    p, q = random_laws(12, 3, seed=2)
    q[:, ::2] = 0
    p[:, ::3] = 0
    q, p = q / q.sum(1, keepdim=True), p / p.sum(1, keepdim=True)
    for verdict in play(exact, p, q, rounds=500):
        assert all(q[i, test.token] > 0 for i, test in enumerate(verdict.tests) if test.accepted)
        assert q[verdict.accepted, verdict.next_token] > 0


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


def test_an_empty_residual_falls_back_to_the_target(coins):
    p = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    q = torch.tensor([[0.5 - 2**-54, 0.5], [0.5, 0.5]], dtype=torch.float64)
    for coin, token in ((0.25, 0), (0.75, 1)):
        verdict = exact(torch.tensor([0]), p, q, coins(lookahead=1, accept=[ALMOST_ONE], residual=[coin, 0.5]))
        assert (verdict.next_kind, verdict.next_token) == ("resampled", token)
