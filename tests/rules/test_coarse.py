"""PCG: the drawn groups have the target's coarse law, whichever residual; with singletons it is exact speculative decoding."""

from dataclasses import replace

import pytest
import torch

from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.groups.neighbours import build_neighbours
from pcg.rules import THINNING_TRIALS, coarse

ALMOST_ONE = 1 - 2**-53
EOS = 7
BOTH = pytest.mark.parametrize("residual", ["dense", "thinning"])


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


def test_thinning_accepts_by_equation_9(groups, laws, coins):
    p, q = laws
    passing = (1 - groups.masses(p[1]) / groups.masses(q[1])).clamp(min=0)
    assert {bool(a > 0) for a in passing} == {True, False}
    for token in range(8):
        labels = [k for k in range(len(groups)) if token in groups.members_of(k)]
        for j, group in enumerate(labels):
            share = float(passing[group])
            for coin in {max(share - 1e-9, 0.0), share + 1e-9}:
                trial = [float(q[1, :token].sum()) + 1e-9, (j + 0.5) / len(labels), coin]
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
    with pytest.raises(InputError, match="dense or thinning"):
        coarse(groups, "sparse")


def test_groups_of_another_vocabulary_are_refused(random_laws, play):
    with pytest.raises(InputError, match="made for 9 tokens"):
        play(coarse(Groups.singletons(9)), *random_laws(8, 2, seed=0), rounds=1)
