"""PCG: the drawn groups have the target's coarse law, whichever residual; with singletons it is exact speculative decoding."""

from dataclasses import replace

import pytest
import torch

from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.groups.neighbours import build_neighbours
from pcg.rules import THINNING_TRIALS, coarse, exact

ALMOST_ONE = 1 - 2**-53
EOS = 7
BOTH = pytest.mark.parametrize("residual", ["dense", "thinning"])


def cell(law, index):
    """The coins just inside both ends of an outcome's share."""
    end = float(law[: index + 1].sum())
    return end - float(law[index]) + 1e-9, end - 1e-9


def test_coupling_acceptance_and_residual_add_up_to_the_coarse_target(groups, laws, coins):
    p, q = laws
    proposed, accepted = torch.zeros(2, len(groups), dtype=torch.float64)
    for token in range(8):
        labels = groups.groups_of(token).tolist()
        for cell in range(len(labels)):
            flip = coins(group=[0.5, (cell + 0.5) / len(labels)], accept=[0, ALMOST_ONE])
            test = coarse(groups)(torch.tensor([0, token]), p, q, flip).tests[1]
            assert test.group in labels
            proposed[test.group] += p[1, token] / len(labels)
            accepted[test.group] += p[1, token] / len(labels) * test.ratio
    mass_p, mass_q = groups.masses(p[1]), groups.masses(q[1])
    residual = (mass_q - mass_p).clamp(min=0) / (mass_q - mass_p).clamp(min=0).sum()
    torch.testing.assert_close(proposed, mass_p, rtol=0, atol=1e-15)
    torch.testing.assert_close(accepted, torch.minimum(mass_p, mass_q), rtol=0, atol=1e-15)
    torch.testing.assert_close(accepted + (1 - accepted.sum()) * residual, mass_q, rtol=0, atol=1e-12)


def test_dense_residual_draws_its_group_and_then_its_token(groups, laws, coins):
    p, q = laws
    excess = (groups.masses(q[1]) - groups.masses(p[1])).clamp(min=0)
    residual = excess / excess.sum()
    assert (residual > 0).sum() > 2
    for k in (residual > 0).nonzero().flatten().tolist():
        inside = q[1, groups.members_of(k)] * groups.weights(k)
        inside = inside / inside.sum()
        for outer in cell(residual, k):
            for j, token in enumerate(groups.members_of(k).tolist()):
                for inner in cell(inside, j):
                    flip = coins(accept=[0, ALMOST_ONE], residual=[outer, inner])
                    verdict = coarse(groups)(torch.tensor([0, EOS]), p, q, flip)
                    assert (verdict.next_group, verdict.next_token) == (k, token)
                    assert (verdict.next_group_size, verdict.next_kind, verdict.trials) == (len(inside), "resampled", 0)


def test_singleton_groups_give_the_tokens_of_exact_decoding(random_laws, play):
    p, q = random_laws(50, 3, seed=4)
    expected = play(exact, p, q, rounds=300)
    embedding = torch.randn(49, 8, generator=torch.Generator().manual_seed(0))
    for groups in (Groups.singletons(50), build_neighbours(embedding, floor=0.2).groups_at(1.0)):
        for verdict, reference in zip(play(coarse(groups), p, q, rounds=300), expected, strict=True):
            assert (verdict.accepted, verdict.next_kind, verdict.next_token) == (
                reference.accepted,
                reference.next_kind,
                reference.next_token,
            )
    assert {v.next_kind for v in expected} == {"resampled", "bonus"}


def test_wider_groups_accept_more(random_laws, play):
    p, q = random_laws(60, 3, seed=5)
    embedding = torch.randn(59, 4, generator=torch.Generator().manual_seed(0))
    neighbours = build_neighbours(embedding, floor=0.2)
    counts = [sum(v.accepted for v in play(coarse(neighbours.groups_at(t)), p, q, rounds=300)) for t in (0.2, 0.6, 1.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 1.2 * counts[2]


def test_a_large_vocabulary_is_added_up_piece_by_piece(random_laws):
    embedding = torch.randn(1124, 4, generator=torch.Generator().manual_seed(0))
    groups = build_neighbours(embedding, floor=0.9).groups_at(0.95)
    assert len(groups) > 1024
    _, q = random_laws(groups.vocabulary, 1, seed=6)
    singly = [groups.mass(q[0], k) for k in range(len(groups))]
    assert sum(singly) == pytest.approx(1.0, abs=1e-6)
    assert groups.masses(q[0]).tolist() == pytest.approx(singly, rel=1e-12)


@BOTH
def test_the_end_of_speech_is_judged_alone(residual, groups, laws, coins):
    p, q = laws
    verdict = coarse(groups, residual)(torch.tensor([0, EOS]), p, q, coins(accept=[0, 0.1]))
    test = verdict.tests[1]
    assert (test.group_size, groups.members_of(test.group).tolist()) == (1, [EOS])
    assert (test.mass_p, test.mass_q, test.ratio) == pytest.approx((0.3, 0.05, 0.05 / 0.3))


@BOTH
def test_tokens_without_probability_are_never_drawn(residual, groups, play):
    p = torch.tensor([[0.0, 0.3, 0.0, 0.3, 0.2, 0.0, 0.1, 0.1]] * 2)
    q = torch.tensor([[0.3, 0.0, 0.3, 0.0, 0.0, 0.2, 0.0, 0.2]] * 3)
    drawn = {v.next_token for v in play(coarse(groups, residual), p, q, rounds=500)}
    assert drawn == {0, 2, 5, 7}


@BOTH
def test_a_group_without_target_mass_is_rejected(residual, groups, coins):
    p = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]])
    q = torch.tensor([[0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]] * 2)
    verdict = coarse(groups, residual)(torch.tensor([6]), p, q, coins(lookahead=1, accept=[0.0]))
    assert (verdict.accepted, verdict.tests[0].ratio, verdict.next_group_size) == (0, 0.0, 2)
    assert verdict.next_token in (0, 1)


@pytest.mark.parametrize("tiny", [1e-300, 5e-324])
def test_a_tiny_draft_probability_is_harmless(tiny, groups, coins):
    p = torch.tensor([[tiny, 0, 0, 0, 0, 0, 0.5, 0.5]], dtype=torch.float64)
    q = torch.full((2, 8), 0.125, dtype=torch.float64)
    verdict = coarse(groups)(torch.tensor([0]), p, q, coins(lookahead=1, accept=[ALMOST_ONE]))
    assert (verdict.accepted, verdict.tests[0].ratio, verdict.tests[0].mass_q) == (1, 1.0, 0.25)


def test_thinning_accepts_by_equation_9(groups, laws, coins):
    p, q = laws
    passing = (1 - groups.masses(p[1]) / groups.masses(q[1])).clamp(min=0)
    assert {bool(a > 0) for a in passing} == {True, False}
    for token in range(8):
        labels = groups.groups_of(token).tolist()
        for j, group in enumerate(labels):
            share = float(passing[group])
            for coin in {max(share - 1e-9, 0.0), share + 1e-9}:
                trial = [cell(q[1], token)[0], (j + 0.5) / len(labels), coin]
                flip = coins(accept=[0, ALMOST_ONE], thinning=[trial] + [[0.0, 0.5, 0.0]] * (THINNING_TRIALS - 1))
                verdict = coarse(groups, "thinning")(torch.tensor([0, 2]), p, q, flip)
                assert (verdict.trials == 1) == (coin < share)
                if coin < share:
                    assert (verdict.next_token, verdict.next_group) == (token, group)


def test_thinning_counts_its_trials(groups, laws, coins):
    p, q = laws
    refused, passed = [0.99, 0.5, 0.0], [0.0, 0.5, 0.0]
    rows = [refused, refused, passed] + [passed] * (THINNING_TRIALS - 3)
    verdict = coarse(groups, "thinning")(torch.tensor([0, 2]), p, q, coins(accept=[0, ALMOST_ONE], thinning=rows))
    assert (verdict.trials, verdict.next_token, verdict.next_group, verdict.next_group_size) == (3, 0, 0, 2)


def test_exhausted_thinning_draws_densely(groups, laws, coins):
    p, q = laws
    for coin in (0.1, 0.5, 0.9):
        flip = coins(accept=[0, ALMOST_ONE], residual=[coin, coin], thinning=[[0.5, 0.5, ALMOST_ONE]] * THINNING_TRIALS)
        thinned = coarse(groups, "thinning")(torch.tensor([0, 2]), p, q, flip)
        assert thinned.trials == THINNING_TRIALS
        assert replace(thinned, trials=0) == coarse(groups, "dense")(torch.tensor([0, 2]), p, q, flip)


def test_an_unknown_residual_is_refused(groups):
    with pytest.raises(InputError, match="dense, thinning"):
        coarse(groups, "sparse")


def test_groups_of_another_vocabulary_are_refused(random_laws, play):
    with pytest.raises(InputError, match="made for 9 tokens"):
        play(coarse(Groups.singletons(9)), *random_laws(8, 2, seed=0), rounds=1)
