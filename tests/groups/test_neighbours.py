"""Neighbour lists and the groups cut from them, against brute force, on any device; vectors without a direction are refused."""

import pytest
import torch

from pcg.errors import InputError
from pcg.groups import neighbours as module
from pcg.groups.neighbours import Neighbours, build_neighbours

CODES = 700  # more than one block of queries
FLOOR = 0.2


@pytest.fixture(scope="module")
def embedding() -> torch.Tensor:
    table = torch.randn(CODES, 8, generator=torch.Generator().manual_seed(0))
    table[11] = 3 * table[10]
    return table


@pytest.fixture(scope="module", params=["cpu", "cpu:0"], ids=["faiss", "blocks of products"])
def built(request, embedding) -> Neighbours:
    return build_neighbours(embedding, FLOOR, device=request.param)


def near(embedding: torch.Tensor, theta: float) -> torch.Tensor:
    """Eq. 1 by brute force, `[V, V]`, with similarities at the stored precision."""
    unit = embedding.double() / embedding.double().norm(dim=1, keepdim=True)
    result = torch.eye(len(embedding) + 1, dtype=torch.bool)
    result[:-1, :-1] |= (unit @ unit.T).half().double() > theta
    return result


def groups_of_centres(groups) -> list[list[int]]:
    return [groups.members_of(k).tolist() for k in groups.group_of_centre.tolist()]


@pytest.mark.parametrize("theta", [0.2, 0.35, 0.45, 0.7, 0.95, 1.0])
def test_groups_equal_brute_force(theta, embedding, built):
    expected = near(embedding, theta)
    groups = built.groups_at(theta)
    assert groups_of_centres(groups) == [row.nonzero().flatten().tolist() for row in expected]
    assert len(groups) == len(expected.unique(dim=0))
    assert (groups.theta, groups.vocabulary) == (theta, CODES + 1)


def test_membership_is_symmetric_even_at_a_similarity(built):
    _, similarity = built.of(5)
    for theta in (0.3, float(similarity[3]), float(similarity[30])):
        pairs = {(t, other) for t, row in enumerate(groups_of_centres(built.groups_at(theta))) for other in row}
        assert pairs == {(other, t) for t, other in pairs}
        assert len(pairs) > CODES + 1


def test_lists_begin_with_the_token_and_descend(built):
    for token in range(CODES + 1):
        tokens, similarity = built.of(token)
        assert (int(tokens[0]), float(similarity[0])) == (token, 1.0)
        assert (similarity.float().diff() <= 0).all()
        assert len(set(tokens.tolist())) == len(tokens)


def test_parallel_vectors_share_a_group_until_theta_is_one(built):
    assert built.groups_at(0.999).group_of_centre[10] == built.groups_at(0.999).group_of_centre[11]
    singles = built.groups_at(1.0)
    assert singles.sizes.tolist() == [1] * (CODES + 1)
    assert singles.group_of_centre.tolist() == list(range(CODES + 1))


def test_the_end_of_speech_is_never_grouped(embedding):
    groups = build_neighbours(embedding, -1.0).groups_at(-1.0)
    assert groups.members_of(int(groups.group_of_centre[CODES])).tolist() == [CODES]
    assert groups.count[CODES] == 1
    assert groups.size(int(groups.group_of_centre[0])) > CODES - 5


def test_ineligible_codes_stand_alone_and_the_others_are_untouched(embedding, built):
    eligible = torch.ones(CODES, dtype=torch.bool)
    eligible[::7] = False
    groups = build_neighbours(embedding, FLOOR, eligible).groups_at(0.4)
    keep = torch.cat([eligible, torch.tensor([True])])
    for token, (members, before) in enumerate(
        zip(groups_of_centres(groups), groups_of_centres(built.groups_at(0.4)), strict=True)
    ):
        assert members == ([m for m in before if keep[m]] if keep[token] else [token])


def test_a_vector_of_zeros_has_no_neighbours(embedding):
    table = embedding.clone()
    table[3] = 0
    assert build_neighbours(table, -1.0).of(3)[0].tolist() == [3]


@pytest.mark.parametrize("theta", [0.19, -1.0, float("nan")])
def test_a_threshold_below_the_floor_is_refused(theta, built):
    with pytest.raises(InputError, match=r"theta .* at least 0\.2"):
        built.groups_at(theta)


def test_too_many_pairs_are_refused(embedding, monkeypatch):
    monkeypatch.setattr(module, "MAX_PAIRS", 1000)
    with pytest.raises(InputError, match="floor"):
        build_neighbours(embedding, FLOOR)


def vectors(seed: int = 0, codes: int = 20) -> torch.Tensor:
    return torch.randn(codes, 6, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused_with_their_place(value):
    features = vectors()
    features[13, 2] = value
    with pytest.raises(InputError, match="not finite at code 13"):
        build_neighbours(features, 0.3)


@pytest.mark.parametrize("floor", [-1.5, 1.1, float("nan")])
def test_a_floor_that_is_no_cosine_is_refused(floor):
    with pytest.raises(InputError, match="floor"):
        build_neighbours(vectors(), floor)
