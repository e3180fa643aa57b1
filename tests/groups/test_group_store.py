"""Neighbour lists on disk: found again by content, rebuilt with a warning when the file is not what its name says."""

import warnings
from pathlib import Path

import pytest
import torch

from pcg.groups import library
from pcg.groups.library import load_or_build_neighbours
from pcg.groups.neighbours import Neighbours


@pytest.fixture
def embedding() -> torch.Tensor:
    return torch.randn(60, 6, generator=torch.Generator().manual_seed(0))


def same(a: Neighbours, b: Neighbours) -> bool:
    return a.floor == b.floor and all(torch.equal(getattr(a, n), getattr(b, n)) for n in ("indptr", "neighbours", "similarity"))


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_the_second_call_reads_the_file(embedding, tmp_path, monkeypatch):
    built = load_or_build_neighbours(embedding, 0.3, None, tmp_path / "cache")
    monkeypatch.delattr(library, "build_neighbours")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(
            load_or_build_neighbours(embedding.clone(), 0.3, torch.ones(60, dtype=torch.bool), tmp_path / "cache"), built
        )


def test_other_content_is_another_file(embedding, tmp_path):
    eligible = torch.arange(60) > 0
    nudged = embedding.clone()
    nudged[0, 0] += 1e-6
    for table, floor, mask in (
        (embedding, 0.3, None),
        (nudged, 0.3, None),
        (embedding, 0.31, None),
        (embedding, 0.3, eligible),
        (embedding.bfloat16(), 0.3, None),
    ):
        load_or_build_neighbours(table, floor, mask, tmp_path)
    assert len(list(tmp_path.iterdir())) == 5


def of_another_embedding(path: Path) -> None:
    other = load_or_build_neighbours(torch.ones(60, 6), 0.3, None, path.parent / "other")
    assert other.vocabulary == 61
    only_file(path.parent / "other").replace(path)


def test_a_file_that_is_not_what_it_claims_is_rebuilt(embedding, tmp_path):
    cache = tmp_path / "cache"
    built = load_or_build_neighbours(embedding, 0.3, None, cache)
    path = only_file(cache)
    of_another_embedding(path)
    with pytest.warns(UserWarning, match=path.name):
        assert same(load_or_build_neighbours(embedding, 0.3, None, cache), built)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(load_or_build_neighbours(embedding, 0.3, None, cache), built)
