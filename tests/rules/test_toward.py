"""The rules that are SD toward another distribution than the target's, and that they keep it."""

import numpy as np
import pytest
import torch

from pcg.errors import InputError
from pcg.rules import cascade, ensemble, exact, lantern

ALMOST_ONE = 1 - 2**-53
P = torch.tensor([[0.4, 0.3, 0.1, 0.1, 0.1, 0.0]], dtype=torch.float64)
Q = torch.tensor([[0.1, 0.2, 0.3, 0.0, 0.2, 0.2]] * 2, dtype=torch.float64)
STEPS = 500
"""Evenly spaced coins that draw a replacement: shares are good to one in STEPS for each token."""
NEAR = {0: [1, 2], 1: [0, 2], 2: [3, 4], 3: [2, 4], 4: [2, 5], 5: [4, 2]}


def ratio(rule, coins, token, p=P, q=Q):
    return rule(torch.tensor([token]), p, q, coins(lookahead=1, accept=[0.0])).tests[0].ratio


def spoken(rule, coins, p=P, q=Q):
    """The distribution of the first token, by every draft and every turn of both coins."""
    said = np.zeros(6)
    for token, chance in enumerate(p[0].tolist()):
        passes = ratio(rule, coins, token, p, q)
        said[token] += chance * passes
        if chance and passes < 1:
            for step in range(STEPS):
                flip = coins(lookahead=1, accept=[ALMOST_ONE], residual=[(step + 0.5) / STEPS, 0.5])
                said[rule(torch.tensor([token]), p, q, flip).next_token] += chance * (1 - passes) / STEPS
    return said


@pytest.mark.parametrize("weight", [0.25, 0.75])
def test_an_ensemble_speaks_the_mixture(weight, coins):
    mixture = (weight * Q[0] + (1 - weight) * P[0]).numpy()
    said = spoken(ensemble(weight), coins)
    assert said == pytest.approx(mixture, abs=6 / STEPS)
    assert np.abs(said - Q[0].numpy()).sum() > 0.1
    accepted = sum(p * ratio(ensemble(weight), coins, token) for token, p in enumerate(P[0].tolist()))
    assert accepted == pytest.approx(1 - weight * 0.5 * float((P[0] - Q[0]).abs().sum()))


def test_the_ends_of_an_ensemble_are_sd_and_the_draft(coins):
    for token in range(5):
        assert ratio(ensemble(1), coins, token) == ratio(exact, coins, token)
        assert ratio(ensemble(0), coins, token) == 1


def test_a_cascade_speaks_as_the_model_that_it_chooses(coins):
    """max p = .4 and max q = .3, or the other way round; their distance is .5."""
    assert spoken(cascade(0), coins) == pytest.approx(P[0].numpy())
    other_way = {"p": Q[:1], "q": torch.cat([P, P])}
    assert spoken(cascade(0), coins, **other_way) == pytest.approx(P[0].numpy(), abs=6 / STEPS)
    assert spoken(cascade(0.3), coins, **other_way) == pytest.approx(Q[0].numpy())


def test_lantern_adds_the_nearest_that_hold_no_more_than_delta(coins):
    rule = {delta: lantern(lambda token: np.array(NEAR[token]), delta) for delta in (0.0, 0.2, 0.5)}
    assert [ratio(rule[0.0], coins, t) for t in range(5)] == [ratio(exact, coins, t) for t in range(5)]
    assert ratio(rule[0.2], coins, 0) == pytest.approx((0.1 + 0.2) / 0.4)  # token 2 would be too much
    assert ratio(rule[0.5], coins, 0) == 1
    verdict = rule[0.2](torch.tensor([0]), P, Q, coins(lookahead=1, accept=[ALMOST_ONE], residual=[0.0, 0.5]))
    assert verdict.next_token == 2  # the first one with more than the draft gives it, as token 1 is excluded with token 0
    assert np.abs(spoken(rule[0.5], coins) - Q[0].numpy()).sum() > 0.1


@pytest.mark.parametrize("make", [ensemble, lambda value: lantern(lambda token: np.array([]), value)])
def test_shares_lie_between_zero_and_one(make):
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="from 0 to 1"):
            make(bad)


def test_alpha_is_finite_and_not_negative():
    for bad in (-0.1, float("inf"), float("nan")):
        with pytest.raises(InputError, match="from 0 up"):
            cascade(bad)
