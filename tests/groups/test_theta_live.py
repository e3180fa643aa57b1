"""Groups as views of sorted lists are the groups that one would build from sets, at every theta."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcg.groups.groups import Groups
from pcg.groups.neighbours import Neighbours, build_neighbours


def lists(seed: int, codes: int, width: int, floor: float = -0.5) -> Neighbours:
    """Few dimensions of few values: many equal similarities, and many equal sets."""
    generator = torch.Generator().manual_seed(seed)
    return build_neighbours(torch.randint(-2, 3, (codes, width), generator=generator).float(), floor)


def rebuilt(neighbours: Neighbours, theta: float) -> Groups:
    """The same groups the slow way: every row cut, sorted and handed over as sets."""
    rows = []
    for t in range(neighbours.vocabulary):
        tokens, similarity = neighbours.of(t)
        rows.append(sorted({t} | {o for o, s in zip(tokens.tolist(), similarity.tolist(), strict=True) if o == t or s > theta}))
    if theta >= 1:
        rows = [[t] for t in range(neighbours.vocabulary)]
    starts = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0)
    return Groups.from_sets(theta, starts, torch.tensor([member for row in rows for member in row]))


@settings(derandomize=True, deadline=None, max_examples=40, database=None)
@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 4), st.floats(-0.5, 1.2))
def test_the_view_is_what_sets_would_give(seed, codes, width, theta):
    neighbours = lists(seed, codes, width)
    view, expected = neighbours.groups_at(theta), rebuilt(neighbours, theta)
    assert len(view) == len(expected)
    assert view.group_of_centre.tolist() == expected.group_of_centre.tolist()
    assert view.count.tolist() == expected.count.tolist()
    assert [view.members_of(k).tolist() for k in range(len(view))] == [
        expected.members_of(k).tolist() for k in range(len(view))
    ]
    assert [view.groups_of(t).tolist() for t in range(codes + 1)] == [expected.groups_of(t).tolist() for t in range(codes + 1)]
    law = torch.rand(codes + 1, generator=torch.Generator().manual_seed(seed)).double()
    torch.testing.assert_close(view.masses(law), expected.masses(law), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("theta", [-0.5, 0.0, 0.5, 0.9, 1.0])
def test_distinct_sets_are_told_apart_as_python_tells_them(theta):
    neighbours = lists(3, 120, 3)
    groups = neighbours.groups_at(theta)
    sets = [frozenset(groups.members_of(int(groups.group_of_centre[t])).tolist()) for t in range(121)]
    assert len(groups) == len(set(sets))
    assert groups.count.tolist() == [sum(t in each for each in set(sets)) for t in range(121)]
    assert all((t in sets[other]) == (other in sets[t]) for t in range(121) for other in range(121))
    assert all(t in sets[t] for t in range(121))


def test_sets_that_are_not_symmetric_are_held_both_ways():
    sets = [[0, 1], [1], [0, 1, 2], [0, 1]]
    starts = torch.tensor([0, 2, 3, 6, 8])
    groups = Groups.from_sets(0.4, starts, torch.tensor([t for each in sets for t in each]))
    assert len(groups) == 3
    assert groups.groups_of(0).tolist() == [0, 2]
    assert groups.groups_of(1).tolist() == [0, 1, 2]
    assert groups.groups_of(3).tolist() == []


def test_thetas_do_not_disturb_one_another():
    neighbours = lists(5, 80, 3)
    thetas = [0.1, 0.4, 0.8]
    together = [neighbours.groups_at(theta) for theta in thetas]
    alone = [lists(5, 80, 3).groups_at(theta) for theta in thetas]
    for one, other in zip(together, alone, strict=True):
        assert torch.equal(one.members, other.members)
        assert torch.equal(one.count, other.count)
