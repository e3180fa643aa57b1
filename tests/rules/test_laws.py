"""The probabilities of what rules emit, by enumeration of texts over several rounds.

Exact rules keep those of the target's tokens, rules over groups those of its groups, and others must not.
"""

from dataclasses import fields

import numpy as np
import pytest
import torch

from pcg.groups.groups import Groups
from pcg.rules import block, coarse, coarse_block, exact, tolerant
from tests.rules.enumeration import (
    ALMOST_ONE,
    CODES,
    Enumeration,
    World,
    coarse_target_of,
    mistaken,
    overlapping,
    target_of,
    within_by,
)


class FirstGroups(Groups):
    """Labels a token with the first of its groups, although the masses share it equally among all."""

    def label(self, t, coin):
        return int(self.groups_of(t)[0])


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


@pytest.mark.parametrize(("make_rule", "lookahead"), [(coarse, 1), (coarse, 2), *((coarse_block, n) for n in (1, 2, 3))])
def test_over_groups_every_group_has_the_targets_probability_given_the_text(world, groups, make_rule, lookahead):
    assert Enumeration(make_rule(groups), world, lookahead, groups).furthest(coarse_target_of(world, groups)) < 1e-12


@pytest.mark.parametrize("lookahead", [1, 2])
def test_a_tolerance_and_the_tokens_of_pcg_have_not(world, groups, lookahead):
    assert Enumeration(tolerant(0.3), world, lookahead).furthest(target_of(world)) > 0.05
    assert Enumeration(coarse(groups), world, lookahead, groups).furthest(target_of(world), of_tokens=True) > 0.05


def test_labels_and_masses_of_different_weights_do_not_add_up(world, groups):
    mixed = FirstGroups(*(getattr(groups, field.name) for field in fields(groups)))
    assert Enumeration(coarse(mixed), world, 1, mixed).furthest(coarse_target_of(world, mixed)) > 0.001


@pytest.mark.parametrize("over_groups", [False, True])
def test_drafting_may_stop_where_the_draft_is_unsure(world, groups, over_groups):
    def stops(p):
        return p.max() < 0.6

    lengths = {len(drafted) for drafted, _ in world.drafts((), 3, stops)}
    assert len(lengths) > 1
    rule, wanted = (coarse_block(groups), coarse_target_of(world, groups)) if over_groups else (block, target_of(world))
    assert Enumeration(rule, world, 3, groups if over_groups else None, stops).furthest(wanted) < 1e-12


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
    alone = Groups.singletons(CODES)
    assert Enumeration(mistaken(alone), world, lookahead, alone).furthest(target_of(world)) > 0.004


@pytest.mark.slow
def test_over_groups_the_enumeration_refuses_pcgs_own_residual(world, groups):
    assert Enumeration(mistaken(groups), world, 3, groups).furthest(coarse_target_of(world, groups)) > 0.004


def test_who_draws_within_a_replaced_group_does_not_matter_to_the_groups(world, groups):
    for drawn_by in (lambda p, q: q, lambda p, q: p, lambda p, q: np.ones(CODES)):
        found = Enumeration(within_by(groups, drawn_by), world, 2, groups)
        assert found.furthest(coarse_target_of(world, groups)) < 1e-12


def test_the_hybrid_of_both_takes_tokens_from_the_draft_within_every_group_the_bonus_included(world, groups):
    def hybrid(text):
        """Q_c(K) p(x | K), summed over groups."""
        p, q = world.behind(text)
        found = np.zeros(CODES)
        for k in range(len(groups)):
            members = groups.members_of(k).numpy()
            inside = p[members] * groups.weights(k).numpy()
            found[members] += groups.mass(q, k) * inside / inside.sum()
        return found

    def furthest(drawn_by, bonus=None):
        return Enumeration(within_by(groups, drawn_by), world, 2, groups, bonus=bonus).furthest(hybrid, of_tokens=True)

    assert furthest(lambda p, q: p, hybrid) < 1e-12
    assert furthest(lambda p, q: p) > 0.005
    assert furthest(lambda p, q: q, hybrid) > 0.005


@pytest.mark.parametrize("seed", range(4))
def test_never_fewer_tokens_than_token_verification(groups, seed):
    world = World(seed)
    for rule, other, over in ((block, exact, None), (coarse_block(groups), coarse(groups), groups)):
        gains = [
            Enumeration(rule, world, n, over).accepted() - Enumeration(other, world, n, over).accepted() for n in (1, 2, 3)
        ]
        assert abs(gains[0]) < 1e-12
        assert min(gains[1:]) > -1e-12
        assert gains[2] > 1e-4


def test_one_drafted_token_is_judged_as_in_token_verification(random_laws, play, groups):
    p, q = random_laws(8, 1, seed=4)
    assert play(block, p, q, 300) == play(exact, p, q, 300)
    eight = Groups.singletons(8)
    assert play(coarse_block(eight), p, q, 300) == play(coarse(eight), p, q, 300)


def test_singleton_groups_are_block_verification_of_tokens_coin_for_coin(random_laws, play):
    p, q = random_laws(12, 4, seed=7)
    alone = [(v.accepted, v.next_token, v.next_kind) for v in play(block, p, q, 300)]
    assert [(v.accepted, v.next_token, v.next_kind) for v in play(coarse_block(Groups.singletons(12)), p, q, 300)] == alone


def test_extremes_are_harmless(coins):
    none, half = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
    tiny = torch.tensor([[5e-324, 1.0]], dtype=torch.float64)
    for rule in (block, coarse_block(Groups.singletons(2))):
        outside = rule(torch.tensor([0, 1]), torch.cat([none, half]), torch.cat([none, half, half]), coins(accept=[0.0, 0.0]))
        assert (outside.accepted, outside.next_token) == (0, 1)
        sure = rule(
            torch.tensor([0, 1]), torch.cat([tiny, half]), torch.cat([half, half, half]), coins(accept=[ALMOST_ONE] * 2)
        )
        assert sure.accepted == 2
        equal = rule(torch.tensor([1, 0]), torch.cat([half, half]), torch.cat([half] * 3), coins(accept=[ALMOST_ONE] * 2))
        assert (equal.accepted, equal.next_kind) == (2, "bonus")
