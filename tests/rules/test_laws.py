"""The probabilities of what rules emit, by enumeration of texts over several rounds.

Exact rules keep those of the target's tokens, rules over groups those of its groups, and others must not.
"""

from dataclasses import fields

import pytest
import torch

from pcg.groups.groups import Groups
from pcg.rules import block, coarse, exact, tolerant
from tests.rules.enumeration import ALMOST_ONE, CODES, Enumeration, World, coarse_target_of, mistaken, overlapping, target_of


class FirstGroups(Groups):
    """Labels a token with the first of its groups, although the masses share it equally among all."""

    def label(self, t, coin):
        return super().label(t, 0.0)


@pytest.fixture(scope="module")
def world():
    return World(seed=5)


@pytest.fixture(scope="module")
def groups():
    return overlapping()


@pytest.mark.parametrize("rule", [exact, block])
@pytest.mark.parametrize(("codes", "seed", "lookahead"), [(CODES, 5, 1), (CODES, 5, 2), (CODES, 5, 3), (4, 2, 2)])
def test_the_text_has_the_targets_probabilities_over_several_rounds(rule, codes, seed, lookahead):
    world = World(seed, codes)
    assert Enumeration(rule, world, lookahead).furthest(target_of(world)) < 1e-12


@pytest.mark.parametrize("lookahead", [1, 2])
def test_over_groups_every_group_has_the_targets_probability_given_the_text(world, groups, lookahead):
    assert Enumeration(coarse(groups), world, lookahead, groups).furthest(coarse_target_of(world, groups)) < 1e-12


@pytest.mark.parametrize("lookahead", [1, 2])
def test_a_tolerance_and_the_tokens_of_pcg_have_not(world, groups, lookahead):
    assert Enumeration(tolerant(0.3), world, lookahead).furthest(target_of(world)) > 0.05
    assert Enumeration(coarse(groups), world, lookahead, groups).furthest(target_of(world), of_tokens=True) > 0.05


def test_labels_and_masses_of_different_weights_do_not_add_up(world, groups):
    mixed = FirstGroups(*(getattr(groups, field.name) for field in fields(groups)))
    assert Enumeration(coarse(mixed), world, 1, mixed).furthest(coarse_target_of(world, mixed)) > 0.001


def test_drafting_may_stop_where_the_draft_is_unsure(world):
    def stops(p):
        return p.max() < 0.6

    lengths = {len(drafted) for drafted, _ in world.drafts((), 3, stops)}
    assert len(lengths) > 1
    assert Enumeration(block, world, 3, None, stops).furthest(target_of(world)) < 1e-12


@pytest.mark.parametrize("rule", [exact, block])
def test_numbers_that_follow_from_the_past_leave_the_targets_probabilities(rule):
    """The enumeration of several rounds, where each drafts by what the text before it was: any function of the past."""

    class Changing(World):
        def drafts(self, text, lookahead, stops):
            return super().drafts(text, 1 + (sum(text) + len(text)) % 3, stops)

    world = Changing(seed=4)
    assert {len(next(world.drafts((x,), 3, lambda p: False))[0]) for x in range(CODES)} == {1, 2, 3}
    assert Enumeration(rule, world, 3).furthest(target_of(world)) < 1e-12


@pytest.mark.parametrize("lookahead", [2, 3])
def test_the_enumeration_refuses_the_residual_of_token_verification(world, lookahead):
    assert Enumeration(mistaken, world, lookahead).furthest(target_of(world)) > 0.004


@pytest.mark.parametrize("seed", range(4))
def test_never_fewer_tokens_than_token_verification(seed):
    world = World(seed)
    gains = [Enumeration(block, world, n).accepted() - Enumeration(exact, world, n).accepted() for n in (1, 2, 3)]
    assert abs(gains[0]) < 1e-12
    assert min(gains[1:]) > -1e-12
    assert gains[2] > 1e-4


def test_one_drafted_token_is_judged_as_in_token_verification(random_laws, play):
    p, q = random_laws(8, 1, seed=4)
    assert play(block, p, q, 300) == play(exact, p, q, 300)


def test_extremes_are_harmless(coins):
    none, half = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
    tiny = torch.tensor([[5e-324, 1.0]], dtype=torch.float64)
    outside = block(torch.tensor([0, 1]), torch.cat([none, half]), torch.cat([none, half, half]), coins(accept=[0.0, 0.0]))
    assert (outside.accepted, outside.next_token) == (0, 1)
    sure = block(torch.tensor([0, 1]), torch.cat([tiny, half]), torch.cat([half, half, half]), coins(accept=[ALMOST_ONE] * 2))
    assert sure.accepted == 2
    equal = block(torch.tensor([1, 0]), torch.cat([half, half]), torch.cat([half] * 3), coins(accept=[ALMOST_ONE] * 2))
    assert (equal.accepted, equal.next_kind) == (2, "bonus")
