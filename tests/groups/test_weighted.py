"""Groups that share by similarity: the same sets, and weights of which each token's sum to one."""

import numpy as np
import pytest
import torch

from pcg.errors import InputError
from pcg.groups.neighbours import Neighbours, build_neighbours
from pcg.groups.variants import WeightedGroups

THETA = 0.4


@pytest.fixture(scope="module")
def hand_made() -> WeightedGroups:
    """Codes 0 and 1 are near each other alone; 2, 3 and 4 form a chain; 5 is the end of speech."""
    first, second = np.array([1, 3, 4], np.int32), np.array([0, 2, 3], np.int32)
    return WeightedGroups.at(Neighbours.from_pairs(THETA, 6, first, second, np.array([0.75, 0.5, 1.0], np.float16)), THETA)


@pytest.fixture(scope="module")
def lists() -> Neighbours:
    """200 codes, the last ten of which are one vector and so share one set."""
    vectors = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    vectors[190:] = vectors[190]
    return build_neighbours(vectors, 0.2)


@pytest.fixture(scope="module")
def weighted(lists) -> WeightedGroups:
    return WeightedGroups.at(lists, THETA)


def by_definition(lists: Neighbours) -> torch.Tensor:
    """w `[M, V]`: each token's similarities to the centres around it, added up by the centres' groups."""
    groups = lists.groups_at(THETA)
    weights = torch.zeros(len(groups), groups.vocabulary, dtype=torch.float64)
    for centre in range(groups.vocabulary):
        tokens, similarity = lists.of(centre)
        near = similarity.double() > THETA
        weights[groups.group_of_centre[centre], tokens[near].long()] += similarity[near].double()
    return weights / weights.sum(0)


def test_weights_by_hand(hand_made):
    assert [hand_made.members_of(k).tolist() for k in range(5)] == [[0, 1], [2, 3], [2, 3, 4], [3, 4], [5]]
    # Token 2 is its own centre (1) and near 3 (0.5); token 3 is near 2 (0.5) and 4 (1).
    expected = [[1, 1], [1 / 1.5, 0.5 / 2.5], [0.5 / 1.5, 1 / 2.5, 1 / 2], [1 / 2.5, 1 / 2], [1]]
    for k, of_group in enumerate(expected):
        assert hand_made.weights(k).tolist() == pytest.approx(of_group)


def test_they_are_the_groups_of_theta(lists, weighted):
    groups = lists.groups_at(THETA)
    assert (len(weighted), weighted.vocabulary, weighted.theta) == (len(groups), groups.vocabulary, groups.theta)
    assert len(groups) < groups.vocabulary
    for k in range(len(groups)):
        assert torch.equal(weighted.members_of(k), groups.members_of(k))
        assert weighted.size(k) == groups.size(k)
    for t in range(groups.vocabulary):
        assert torch.equal(weighted.groups_of(t), groups.groups_of(t))


def test_weights_are_those_of_the_definition_and_sum_to_one(lists, weighted):
    found = torch.zeros(len(weighted), weighted.vocabulary, dtype=torch.float64)
    for k in range(len(weighted)):
        found[k, weighted.members_of(k)] = weighted.weights(k)
    torch.testing.assert_close(found, by_definition(lists), rtol=0, atol=1e-14)
    torch.testing.assert_close(found.sum(0), torch.ones(weighted.vocabulary, dtype=torch.float64), rtol=0, atol=1e-14)
    equal = (found > 0) / (found > 0).sum(0)
    assert float((found - equal).abs().max()) > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masses_are_a_law_and_agree_with_single_masses(weighted, lists, dtype):
    law = torch.randn(weighted.vocabulary, generator=torch.Generator().manual_seed(1), dtype=dtype).softmax(0)
    masses = weighted.masses(law)
    torch.testing.assert_close(masses, by_definition(lists) @ law.double(), rtol=0, atol=1e-14)
    assert [weighted.mass(law, k) for k in range(len(weighted))] == pytest.approx(masses.tolist(), abs=1e-15)


def test_a_label_is_drawn_by_the_weights(weighted, lists):
    """Over evenly spaced coins each group comes in its share, to one coin."""
    coins, weights = (np.arange(500) + 0.5) / 500, by_definition(lists)
    for token in (0, 50, 195, 200):
        labels = torch.tensor([weighted.label(token, coin) for coin in coins])
        share = labels.bincount(minlength=len(weighted)) / 500
        assert float((share - weights[:, token]).abs().max()) <= 1 / 500 + 1e-9
        assert weighted.label(token, 1 - 2**-53) == int(weighted.groups_of(token)[-1])


def test_from_one_on_every_token_is_alone(lists):
    alone = WeightedGroups.at(lists, 1.0)
    law = torch.rand(alone.vocabulary, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert torch.equal(alone.masses(law), law)


def test_a_negative_theta_is_refused():
    lists = build_neighbours(torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), -0.5)
    with pytest.raises(InputError, match="theta"):
        WeightedGroups.at(lists, -0.1)
    with pytest.raises(InputError, match="theta"):
        WeightedGroups.at(build_neighbours(torch.eye(3), 0.5), 0.4)
