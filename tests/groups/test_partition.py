"""A hard partition: every token in one group, of the mean size asked for, and alike within."""

import faiss
import pytest
import torch

from pcg.errors import InputError
from pcg.groups.variants import partition


@pytest.fixture(scope="module")
def vectors() -> torch.Tensor:
    return torch.randn(400, 6, generator=torch.Generator().manual_seed(0))


def members(groups) -> list[list[int]]:
    return [groups.members_of(k).tolist() for k in range(len(groups))]


@pytest.mark.parametrize("wanted", [1.3, 4.0, 25.0, 100.0])
def test_the_mean_size_is_reached_and_nothing_overlaps(vectors, wanted):
    groups = partition(vectors, None, wanted)
    assert groups.statistics().mean_size == pytest.approx(wanted, rel=0.03)
    assert sorted(groups.members.tolist()) == list(range(401))
    assert groups.count.tolist() == [1.0] * 401


def test_both_ends_are_reached(vectors):
    assert partition(vectors, None, 1.0).statistics().max_size == 1
    together = partition(vectors, None, (400**2 + 1) / 401)
    assert sorted(together.sizes.tolist()) == [1, 400]


def test_codes_without_a_direction_and_the_end_of_speech_stand_alone(vectors):
    eligible = torch.ones(400, dtype=torch.bool)
    eligible[::4] = False
    odd = vectors.clone()
    odd[1] = 0
    groups = partition(odd, eligible, 8.0)
    alone = [*range(0, 400, 4), 1, 400]
    assert all(groups.size(int(groups.group_of_centre[t])) == 1 for t in alone)
    assert groups.statistics().mean_size == pytest.approx(8.0, rel=0.05)


def test_only_directions_count_and_those_that_lie_together_are_together():
    """Ten tight bundles of twenty, in groups of five."""
    generator = torch.Generator().manual_seed(0)
    bundle = torch.arange(200) % 10
    near = torch.eye(10)[bundle] + 0.02 * torch.randn(200, 10, generator=generator)
    groups = partition(near, None, 5.0)
    assert all(len({t % 10 for t in of_group}) == 1 for of_group in members(groups))
    longer = near * 2.0 ** torch.randint(-2, 3, (200, 1), generator=generator)
    assert members(partition(longer, None, 5.0)) == members(groups)


def test_groups_are_alike_within(vectors):
    unit = torch.nn.functional.normalize(vectors, dim=1)
    cosine = unit @ unit.T

    def within(number):
        same = (number[:, None] == number) & ~torch.eye(400, dtype=torch.bool)
        return float(cosine[same].mean())

    number = partition(vectors, None, 10.0).group_of_centre[:400]
    assert within(number) > 0.5
    assert abs(within(number[torch.randperm(400, generator=torch.Generator().manual_seed(1))])) < 0.1


def test_a_seed_gives_one_partition_and_faiss_keeps_its_threads(vectors):
    threads = faiss.omp_get_max_threads()
    first, again, other = (members(partition(vectors, None, 10.0, seed)) for seed in (3, 3, 4))
    assert first == again != other
    assert faiss.omp_get_max_threads() == threads


@pytest.mark.parametrize("size", [0.5, 400.0, float("nan")])
def test_a_size_out_of_reach_is_refused(vectors, size):
    with pytest.raises(InputError, match="mean_size"):
        partition(vectors, None, size)


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_a_seed_that_faiss_cannot_take_is_refused(vectors, seed):
    with pytest.raises(InputError, match="seed"):
        partition(vectors, None, 10.0, seed)
