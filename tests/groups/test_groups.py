"""Groups as sets: deduplicated, overlapping, and dividing every law's mass without loss."""

import pytest
import torch

from pcg.groups.groups import Groups

# Codes 0, 1 and 4 have the same neighbours; 2 and 3 overlap with 1; 5 is the end of speech.
SETS = [[0, 1, 4], [0, 1, 4], [1, 2], [1, 2, 3], [0, 1, 4], [5]]


def build(sets: list[list[int]]) -> Groups:
    starts = torch.tensor([0] + [len(s) for s in sets]).cumsum(0)
    return Groups.from_sets(0.4, starts, torch.cat([torch.tensor(s) for s in sets]))


@pytest.fixture(scope="module")
def hand_made() -> Groups:
    return build(SETS)


@pytest.fixture(scope="module")
def random_groups() -> Groups:
    generator = torch.Generator().manual_seed(0)
    near = torch.rand(200, 200, generator=generator) < 0.05
    near = near | near.T | torch.eye(200, dtype=torch.bool)
    near[50:60] = near[50]
    return build([row.nonzero().flatten().tolist() for row in near] + [[200]])


def test_equal_neighbour_sets_are_one_group(hand_made):
    assert len(hand_made) == 4
    assert [hand_made.members_of(k).tolist() for k in range(4)] == [[0, 1, 4], [1, 2], [1, 2, 3], [5]]
    assert hand_made.group_of_centre.tolist() == [0, 0, 1, 2, 0, 3]
    assert hand_made.sizes.tolist() == [hand_made.size(k) for k in range(4)] == [3, 2, 3, 1]


def test_every_token_knows_its_groups(hand_made):
    assert [hand_made.groups_of(t).tolist() for t in range(6)] == [[0], [0, 1, 2], [1, 2], [2], [0], [3]]
    assert hand_made.count.tolist() == [1, 3, 2, 1, 1, 1]


def test_masses_by_hand(hand_made):
    law = torch.tensor([0.1, 0.3, 0.2, 0.1, 0.1, 0.2], dtype=torch.float64)
    expected = [0.1 + 0.1 + 0.1, 0.1 + 0.1, 0.1 + 0.1 + 0.1, 0.2]
    assert hand_made.masses(law).tolist() == pytest.approx(expected, abs=1e-15)
    assert hand_made.weights(1).tolist() == pytest.approx([1 / 3, 1 / 2])


def test_deduplication_of_many_groups_is_that_of_sets(random_groups):
    distinct = {tuple(random_groups.members_of(k).tolist()) for k in range(len(random_groups))}
    assert len(distinct) == len(random_groups) < 200
    centres = [int((random_groups.group_of_centre == k).nonzero()[0]) for k in range(len(random_groups))]
    assert centres == sorted(centres)


def test_both_directions_agree(random_groups):
    inside = {(k, t) for k in range(len(random_groups)) for t in random_groups.members_of(k).tolist()}
    assert inside == {(k, t) for t in range(201) for k in random_groups.groups_of(t).tolist()}
    assert all(random_groups.groups_of(t).diff().gt(0).all() for t in range(201))


def test_weights_of_a_token_sum_to_one(random_groups):
    total = torch.zeros(201, dtype=torch.float64)
    for k in range(len(random_groups)):
        total[random_groups.members_of(k)] += random_groups.weights(k)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masses_are_a_law_and_agree_with_single_masses(random_groups, dtype):
    law = torch.randn(201, generator=torch.Generator().manual_seed(1), dtype=dtype).softmax(0)
    masses = random_groups.masses(law)
    assert masses.dtype == torch.float64
    assert float(masses.sum()) == pytest.approx(float(law.double().sum()), abs=1e-13)
    assert [random_groups.mass(law, k) for k in range(len(random_groups))] == pytest.approx(masses.tolist(), abs=1e-15)


def test_singletons_leave_a_law_as_it_is():
    groups = Groups.singletons(50)
    law = torch.rand(50, generator=torch.Generator().manual_seed(2))
    assert torch.equal(groups.masses(law), law.double())
    assert [groups.members_of(k).tolist() for k in range(50)] == [[k] for k in range(50)]


def test_statistics(hand_made):
    plain = hand_made.statistics()
    assert (plain.vocab, plain.groups, plain.max_size, plain.singletons) == (6, 4, 3, 1)
    assert (plain.mean_size, plain.multi_member_share) == pytest.approx((15 / 6, 5 / 6))
    assert plain.usage_weighted_mean_size is None


@pytest.mark.parametrize("usage", [[0, 0, 3, 0, 1], [0, 0, 3, 0, 1, 0]])
def test_usage_weights_the_mean_size(hand_made, usage):
    weighted = hand_made.statistics(torch.tensor(usage)).usage_weighted_mean_size
    assert weighted == pytest.approx((3 * 2 + 1 * 3) / 4)
