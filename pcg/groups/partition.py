"""Groups without overlap: a hard partition of the codes by k-means, for PCG's ablation of overlap."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from pcg.errors import InputError
from pcg.groups.groups import Groups, row_starts
from pcg.groups.pairs.search import unit_vectors

ITERATIONS = 20
# Relative; finer than k-means itself, which moves further than this with its seed.
TOLERANCE = 0.005
SEEDS = 2**31


def partition(vectors: Tensor, eligible: Tensor | None, mean_size: float, seed: int = 0) -> Groups:
    """Cluster the codes of `vectors [codes, D]` by spherical k-means into groups of which each token has one.

    The number of clusters is searched so that the mean of |G(t)| over all tokens comes close to `mean_size`; the statistics of
    the groups say what was reached (with few codes, steps are coarse). Codes not in `eligible [codes]` (bool), vectors of zeros
    and the end of speech, which is added as the last token, stand alone, and count in the mean. Runs in one thread; the same
    seed gives the same groups. Their theta is NaN: no threshold made them. Raises InputError for a size out of reach.
    """
    if not 0 <= seed < SEEDS:
        raise InputError("seed", seed, f"a whole number from 0 to {SEEDS - 1}")
    tokens, unit = unit_vectors(vectors, eligible)
    vocabulary = len(vectors) + 1
    largest = _mean_size(np.zeros(len(unit), np.int64), vocabulary)
    if not 1 <= mean_size <= largest:
        raise InputError("mean_size", mean_size, f"from 1 to {largest:g}, which one group of all {len(unit)} codes has")
    with _one_thread():
        clusters = _search(lambda k: _cluster(unit, k, seed), len(unit), mean_size, vocabulary)
    return _groups(tokens, clusters, vocabulary)


def _search(cluster: Callable[[int], np.ndarray], codes: int, wanted: float, vocabulary: int) -> np.ndarray:
    """Of the clusterings that `cluster(k)` gives, one whose mean size comes close to `wanted`.

    The size falls about as 1 / k, which says where to look next; where that leads out of the bracket, its middle does.
    """
    best, gap = np.arange(codes), abs(1 - wanted)
    low, high = 0, codes
    k = round(codes / wanted)
    while high - low > 1 and gap > TOLERANCE * wanted:
        k = k if low < k < high else (low + high) // 2
        clusters = cluster(k)
        size = _mean_size(clusters, vocabulary)
        if abs(size - wanted) < gap:
            best, gap = clusters, abs(size - wanted)
        low, high = (k, high) if size > wanted else (low, k)
        k = round(k * size / wanted)
    return best


def _cluster(unit: np.ndarray, k: int, seed: int) -> np.ndarray:
    """The number of each row's cluster `[n]`, at most k of them, some of which may be empty."""
    import faiss

    # By default it wants more points a cluster than groups have, and leaves some out where there are very many.
    limits = {"min_points_per_centroid": 1, "max_points_per_centroid": len(unit)}
    means = faiss.Kmeans(unit.shape[1], k, niter=ITERATIONS, seed=seed, spherical=True, **limits)
    means.train(unit)
    return means.assign(unit)[1]


def _mean_size(clusters: np.ndarray, vocabulary: int) -> float:
    """The mean of |G(t)| over all tokens, of which those without a cluster stand alone."""
    sizes = np.bincount(clusters)
    return float((sizes @ sizes + vocabulary - len(clusters)) / vocabulary)


def _groups(tokens: np.ndarray, clusters: np.ndarray, vocabulary: int) -> Groups:
    number = clusters.max(initial=0) + 1 + np.arange(vocabulary)
    number[tokens] = clusters
    order = number.argsort(kind="stable")
    sizes = np.bincount(number)
    starts = (sizes.cumsum() - sizes)[number]
    sizes = sizes[number]
    places = np.arange(sizes.sum()) + (starts - sizes.cumsum() + sizes).repeat(sizes)
    return Groups.from_sets(float("nan"), row_starts(torch.from_numpy(sizes)), torch.from_numpy(order[places]))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums of several threads round as the machine has cores."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
