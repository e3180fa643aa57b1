"""Block verification, by enumeration of texts over several rounds and by many draws."""

import numpy as np
import pytest
import torch

from pcg.groups.groups import Groups
from pcg.rules import Coins, block, coarse, coarse_block, exact
from pcg.sampling import draw
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

LOOKAHEADS = pytest.mark.parametrize("lookahead", [1, 2, 3])


@pytest.fixture(scope="module")
def world():
    return World(seed=5)


@pytest.fixture(scope="module")
def groups():
    return overlapping()


@LOOKAHEADS
def test_the_text_has_the_targets_probabilities_over_several_rounds(world, lookahead):
    assert Enumeration(block, world, lookahead).furthest(target_of(world)) < 1e-12


def test_so_it_has_with_four_codes():
    world = World(seed=2, codes=4)
    assert Enumeration(block, world, 2).furthest(target_of(world)) < 1e-12


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


@LOOKAHEADS
def test_over_groups_every_group_has_the_targets_probability_given_the_text(world, groups, lookahead):
    assert Enumeration(coarse_block(groups), world, lookahead, groups).furthest(coarse_target_of(world, groups)) < 1e-12


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


def second_tokens(rule, world, lookahead, draws, seed=0):
    """How often each pair of first tokens is said, `[V, V]`, by rounds with coins of their own."""
    generator, found = torch.Generator().manual_seed(seed), np.zeros((world.codes,) * 2)
    for _ in range(draws):
        text = ()
        while len(text) < 2:
            coins, drafted = Coins.draw(lookahead, generator), ()
            for coin in coins.draft.tolist():
                drafted += (draw(world.behind((*text, *drafted))[0], coin),)
            verdict = rule(torch.tensor(drafted), *world.round(text, drafted), coins)
            text += (*drafted[: verdict.accepted], verdict.next_token)
        found[text[:2]] += 1
    return found / draws


@pytest.mark.slow
def test_many_draws_agree():
    """Of nine outcomes a sample strays by about 0.4 sqrt(9 / draws); the mistaken residual shows."""
    world, draws = World(seed=10), 200_000
    bound = 1.6 * 0.4 * (9 / draws) ** 0.5
    first = world.behind(())[1]
    wanted = first[:, None] * np.array([world.behind((x,))[1] for x in range(CODES)])
    assert np.abs(second_tokens(block, world, 3, draws) - wanted).sum() / 2 < bound
    assert np.abs(second_tokens(mistaken(Groups.singletons(CODES)), world, 3, draws // 4) - wanted).sum() / 2 > bound
