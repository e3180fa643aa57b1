"""Many rounds under seeded coins: what they emit has the probabilities that each rule promises, and a bad rule shows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pcg.rules import coarse, exact, tolerant

# Sampling noise over at most 8 outcomes is about 0.4 sqrt(8 / 4000) = 0.018.
ROUNDS, BOUND = 4000, 0.03
RESIDUALS = pytest.mark.parametrize("residual", ["dense", "thinning"])


@pytest.fixture
def emitted(laws, play):
    """The token (or the group) at position 1, which every round of the fixture laws reaches."""

    def collect(rule, of_groups=False, seed=0):
        tested = [(v, v.tests[1]) for v in play(rule, *laws, ROUNDS, seed)]
        if of_groups:
            return [test.group if test.accepted else v.next_group for v, test in tested]
        return [test.token if test.accepted else v.next_token for v, test in tested]

    return collect


def gullible(rule):
    return lambda drafted, p, q, coins: rule(drafted, p, q, replace(coins, accept=np.zeros_like(coins.accept)))


def tolerant_law(beta, p, q):
    reach = (beta + torch.minimum(p, q) / p).clamp(max=1) * p
    residual = (q - p).clamp(min=0)
    return reach + (1 - reach.sum()) * residual / residual.sum()


def coarse_law(groups, p, q):
    """The law of the emitted token by Eq. 7, 8 and 10: the draft's conditional if accepted, the target's if resampled."""
    mass_p, mass_q = groups.masses(p), groups.masses(q)
    residual = (mass_q - mass_p).clamp(min=0)
    law = torch.zeros_like(q)
    for k in range(len(groups)):
        members, weights = groups.members_of(k), groups.weights(k)
        law[members] += torch.minimum(mass_p[k], mass_q[k]) * p[members] * weights / mass_p[k]
        law[members] += residual[k] * q[members] * weights / mass_q[k]
    return law


def test_exact_decoding_emits_the_target(laws, emitted, distance):
    target = laws[1][1]
    assert distance(emitted(exact), target) < BOUND
    assert distance(emitted(gullible(exact)), target) > BOUND


def test_tolerance_bends_the_law(laws, emitted, distance):
    p, q = (law[1] for law in laws)
    tokens = emitted(tolerant(0.3))
    assert distance(tokens, tolerant_law(0.3, p, q)) < BOUND
    assert distance(tokens, q) > BOUND


@RESIDUALS
def test_groups_have_the_targets_coarse_law(residual, groups, laws, emitted, distance):
    target, rule = groups.masses(laws[1][1]), coarse(groups, residual)
    assert distance(emitted(rule, of_groups=True), target) < BOUND
    assert distance(emitted(gullible(rule), of_groups=True), target) > BOUND


@RESIDUALS
def test_both_residuals_emit_one_token_law_which_is_not_the_targets(residual, groups, laws, emitted, distance):
    p, q = (law[1] for law in laws)
    tokens = emitted(coarse(groups, residual), seed=1)
    assert distance(tokens, coarse_law(groups, p, q)) < BOUND
    assert distance(tokens, q) > BOUND
