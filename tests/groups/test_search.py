"""The search finds every pair once, on any device, and refuses what has no direction."""

import numpy as np
import pytest
import torch

from pcg.errors import InputError
from pcg.groups.neighbours import Neighbours, build_neighbours

CODES = 1300  # two whole blocks of queries and a part of one


def vectors(seed: int = 0, codes: int = CODES) -> torch.Tensor:
    return torch.randn(codes, 6, generator=torch.Generator().manual_seed(seed))


def dense(features: torch.Tensor, floor: float) -> set[tuple[int, int]]:
    """All pairs above the floor by brute force, at the stored precision."""
    unit = features.double() / features.double().norm(dim=1, keepdim=True).clamp(min=1e-300)
    close = ((unit @ unit.T).half().double() > floor).nonzero().tolist()
    return {(i, j) for i, j in close if i != j}


def pairs(lists: Neighbours) -> set[tuple[int, int]]:
    return {(t, other) for t in range(lists.vocabulary) for other in lists.of(t)[0].tolist() if other != t}


@pytest.mark.slow
@pytest.mark.parametrize("floor", [0.3, 0.7])
@pytest.mark.parametrize("device", ["cpu", "cpu:0"], ids=["faiss", "blocks of products"])
def test_nothing_above_the_floor_is_missed_and_nothing_below_is_found(floor, device):
    """Recall 1.0, but for pairs within a rounding error of the floor, which either may see."""
    features = vectors()
    found, expected = pairs(build_neighbours(features, floor, device=device)), dense(features, floor)
    sure = dense(features, floor + 1e-3)
    assert sure <= found <= dense(features, floor - 1e-3)
    assert len(found ^ expected) <= 1e-4 * len(expected)


def test_duplicates_and_opposites():
    features = vectors(codes=40)
    features[5], features[6], features[7] = features[4], 1000 * features[4], -features[4]
    lists = build_neighbours(features, -1.0)
    assert {4, 5, 6} == set(lists.groups_at(0.999).members_of(int(lists.groups_at(0.999).group_of_centre[4])).tolist())
    tokens, similarity = lists.of(4)
    assert 7 not in tokens.tolist() or float(similarity[tokens.tolist().index(7)]) == pytest.approx(-1, abs=1e-3)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused_with_their_place(value):
    features = vectors(codes=20)
    features[13, 2] = value
    with pytest.raises(InputError, match="not finite at code 13"):
        build_neighbours(features, 0.3)


@pytest.mark.parametrize("floor", [-1.5, 1.1, float("nan")])
def test_a_floor_that_is_no_cosine_is_refused(floor):
    with pytest.raises(InputError, match="floor"):
        build_neighbours(vectors(codes=20), floor)


def test_the_mean_size_is_counted_without_making_groups():
    lists = build_neighbours(vectors(codes=300), 0.1)
    for theta in np.linspace(0.1, 1, 10):
        assert lists.mean_size_at(theta) == pytest.approx(lists.groups_at(theta).statistics().mean_size)
