"""The groups' benchmark says what it measured, on an embedding that looks like one; how fast anything is, no test asks."""

import pytest
import torch

from pcg.bench.parts.groups import bench_groups, clustered_embedding, theta_milliseconds
from pcg.errors import InputError
from pcg.groups.pairs.neighbours import build_neighbours
from pcg.groups.similarities import theta_for


def test_it_reaches_the_mean_size_and_says_what_it_ran(capsys):
    cost = bench_groups(600, 32, mean_size=12, repeats=2)
    assert (cost.tokens, cost.dimensions, cost.threads) == (600, 32, torch.get_num_threads())
    assert cost.mean_size == pytest.approx(12, abs=0.5)
    # The milliseconds are rounded, the speed-up was not made from them.
    slow, fast = ((cost.rebuild_ms + r) / max(cost.theta_ms - r / 10, 1e-9) for r in (-0.06, 0.06))
    assert 0.99 * slow <= cost.speedup <= 1.01 * fast
    assert min(cost.theta_ms, cost.build_seconds) > 0
    assert cost.bytes > 600 * 2 * 12 * 6 * 0.8
    assert set(cost.as_dict()) > {"theta", "bytes", "speedup"}
    assert "600 tokens x 32" in capsys.readouterr().out


def test_its_groups_overlap_and_have_many_sizes():
    neighbours = build_neighbours(clustered_embedding(1024, 64), 0.3)
    groups = neighbours.groups_at(theta_for(neighbours, 30))
    sizes = groups.sizes.double()
    assert float(sizes.std()) > 0.5 * float(sizes.mean())
    assert float((groups.count > 1).double().mean()) > 0.5
    assert len(groups) > 500


def test_the_embedding_is_the_same_every_time():
    assert torch.equal(clustered_embedding(300, 8), clustered_embedding(300, 8))
    assert not torch.equal(clustered_embedding(300, 8), clustered_embedding(300, 8, seed=1))


def test_theta_at_the_floor_is_timed_too():
    neighbours = build_neighbours(clustered_embedding(300, 8), 0.8)
    assert theta_milliseconds(neighbours, neighbours.floor, 3) > 0


@pytest.mark.parametrize("options", [{"tokens": 10}, {"tokens": 300, "repeats": 0}])
def test_too_little_to_measure_is_refused(options):
    with pytest.raises(InputError, match=next(reversed(options))):
        bench_groups(**options)
