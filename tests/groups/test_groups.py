"""Groups as sets: deduplicated, overlapping, dividing every probability without loss, and the same as views of sorted lists."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcg.groups.groups import Groups
from pcg.groups.neighbours import Neighbours, build_neighbours

# Codes 0, 1 and 4 have the same neighbours; 2 and 3 overlap with 1; 5 is the end of speech.
SETS = [[0, 1, 4], [0, 1, 4], [1, 2], [1, 2, 3], [0, 1, 4], [5]]


def build(sets: list[list[int]]) -> Groups:
    starts = torch.tensor([0] + [len(s) for s in sets]).cumsum(0)
    return Groups.from_sets(0.4, starts, torch.cat([torch.tensor(s) for s in sets]))


@pytest.fixture(scope="module")
def hand_made() -> Groups:
    return build(SETS)


def test_equal_neighbour_sets_are_one_group(hand_made):
    assert len(hand_made) == 4
    assert [hand_made.members_of(k).tolist() for k in range(4)] == [[0, 1, 4], [1, 2], [1, 2, 3], [5]]
    assert hand_made.group_of_centre.tolist() == [0, 0, 1, 2, 0, 3]
    assert hand_made.sizes.tolist() == [hand_made.size(k) for k in range(4)] == [3, 2, 3, 1]


def groups_of(groups: Groups, t: int) -> list[int]:
    """The groups that a label of token t is drawn from."""
    count = int(groups.count[t])
    return [groups.label(t, (i + 0.5) / count) for i in range(count)]


def test_every_token_knows_its_groups(hand_made):
    assert [groups_of(hand_made, t) for t in range(6)] == [[0], [0, 1, 2], [1, 2], [2], [0], [3]]
    assert hand_made.count.tolist() == [1, 3, 2, 1, 1, 1]


def test_masses_by_hand(hand_made):
    law = torch.tensor([0.1, 0.3, 0.2, 0.1, 0.1, 0.2], dtype=torch.float64)
    expected = [0.1 + 0.1 + 0.1, 0.1 + 0.1, 0.1 + 0.1 + 0.1, 0.2]
    assert hand_made.masses(law).tolist() == pytest.approx(expected, abs=1e-15)
    assert hand_made.weights(1).tolist() == pytest.approx([1 / 3, 1 / 2])


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
    assert [groups_of(view, t) for t in range(codes + 1)] == [groups_of(expected, t) for t in range(codes + 1)]
    law = torch.rand(codes + 1, generator=torch.Generator().manual_seed(seed)).double()
    torch.testing.assert_close(view.masses(law), expected.masses(law), rtol=1e-12, atol=1e-12)


def test_sets_that_are_not_symmetric_are_held_both_ways():
    sets = [[0, 1], [1], [0, 1, 2], [0, 1]]
    starts = torch.tensor([0, 2, 3, 6, 8])
    groups = Groups.from_sets(0.4, starts, torch.tensor([t for each in sets for t in each]))
    assert len(groups) == 3
    assert [groups_of(groups, t) for t in (0, 1, 3)] == [[0, 2], [0, 1, 2], []]
