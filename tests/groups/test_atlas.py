"""The map: the same every time, near what is near, and stored or shipped."""

import numpy as np
import pytest
import torch

from pcg.errors import InputError
from pcg.groups.atlas import Atlas, build_atlas
from pcg.groups.library import load_or_build_atlas
from pcg.groups.neighbours import build_neighbours

CODES, K = 150, 6


@pytest.fixture(scope="module")
def embedding() -> torch.Tensor:
    """Three far clusters."""
    generator = torch.Generator().manual_seed(0)
    centres = 4 * torch.randn(3, 12, generator=generator)
    return centres[torch.arange(CODES) % 3] + torch.randn(CODES, 12, generator=generator)


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map without UMAP, which takes half a minute to compile."""
    monkeypatch.setattr("pcg.groups.atlas._umap", lambda plane, *_: plane)


@pytest.fixture
def atlas(embedding, flat) -> Atlas:
    return build_atlas(build_neighbours(embedding, 0.6), embedding, k=K)


def test_the_nearest_are_those_of_brute_force(embedding, atlas):
    unit = torch.nn.functional.normalize(embedding, dim=1)
    cosine = (unit @ unit.T).fill_diagonal_(-2)
    expected = cosine.topk(K, dim=1).values
    # The lists keep half precision.
    torch.testing.assert_close(atlas.similarity, expected, rtol=0, atol=1e-3)
    torch.testing.assert_close(cosine.gather(1, atlas.nearest.long()), expected, rtol=0, atol=2e-3)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_map_and_clusters_stay_together(embedding):
    atlas, again = (build_atlas(build_neighbours(embedding, 0.6), embedding, k=K) for _ in range(2))
    assert torch.equal(atlas.x, again.x)
    assert torch.equal(atlas.y, again.y)
    places = torch.stack([atlas.x, atlas.y], 1)
    gaps = torch.cdist(places, places).fill_diagonal_(torch.inf)
    assert float((gaps.argmin(1) % 3 == torch.arange(CODES) % 3).float().mean()) > 0.95


def test_codes_without_a_place_lie_outside(embedding, flat):
    eligible = torch.ones(CODES, dtype=torch.bool)
    eligible[[4, 90]] = False
    atlas = build_atlas(build_neighbours(embedding, 0.6, eligible), embedding, eligible, k=K)
    places = torch.stack([atlas.x, atlas.y], 1)
    middle = (places[eligible].amin(0) + places[eligible].amax(0)) / 2
    reach = (places - middle).norm(dim=1)
    assert reach[~eligible].min() > reach[eligible].max()
    assert not np.isin(atlas.nearest[eligible].numpy(), [4, 90]).any()
    assert atlas.nearest[4].unique().tolist() == [4]


def test_a_shipped_map_is_read_and_nothing_is_written(embedding, flat, tmp_path):
    lists, shipped, cache = build_neighbours(embedding, 0.6), tmp_path / "voice", tmp_path / "cache"
    built = load_or_build_atlas(lists, embedding, None, shipped)
    found = load_or_build_atlas(lists, embedding, None, cache, shipped)
    assert torch.equal(found.x, built.x)
    assert not cache.exists()


def test_lists_of_another_embedding_are_refused(embedding):
    with pytest.raises(InputError, match="neighbours"):
        build_atlas(build_neighbours(embedding[:-1], 0.6), embedding)
    with pytest.raises(InputError, match="k is 0"):
        build_atlas(build_neighbours(embedding, 0.6), embedding, k=0)
