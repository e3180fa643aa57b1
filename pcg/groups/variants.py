"""Groups that share a token by similarity instead of equally: weights of PCG Eq. 2 other than those of Eq. 3."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcg.errors import InputError
from pcg.groups.groups import Groups, Rows, row_starts
from pcg.groups.neighbours import Neighbours, unit_vectors


@dataclass(frozen=True, eq=False)
class WeightedGroups:
    """The groups of `Neighbours.groups_at`, by the same numbers, with weights in proportion to similarity:

        w_{k,t} = sum of s(t, c) over the centres c of group k / sum of s(t, c) over all centres c whose sets hold t

    so that those of a token sum to one (Eq. 2). A set that several centres share counts once for each, where an equal split
    (Eq. 3) counts it once. s(t, t) = 1.

    A `Grouping`. `sets` has a row a group, its members ascending, with `shares` beside its entries: w_{k,t}, float64. `holders`
    has a row a token, the numbers of its groups ascending, with `holder_shares` likewise. Unlike `Groups` these are lists of
    their own, 24 bytes for each member of each group.
    """

    theta: float
    vocabulary: int
    sets: Rows
    shares: np.ndarray
    holders: Rows
    holder_shares: np.ndarray

    @classmethod
    def at(cls, neighbours: Neighbours, theta: float) -> "WeightedGroups":
        """Build at `theta`. Raises InputError below the lists' floor, and below 0, where similarity is no weight."""
        if not theta >= 0:
            raise InputError("theta", theta, "at least 0, so that every similarity within a group is positive")
        groups = neighbours.groups_at(theta)
        vocabulary, near = groups.vocabulary, groups.holders
        # Near pairs are near both ways, so the rows of what is near a token are also those of the centres that hold it.
        places = np.arange(near.sizes.sum()) + (near.starts - near.sizes.cumsum() + near.sizes).repeat(near.sizes)
        tokens = np.arange(vocabulary).repeat(near.sizes)
        similarity = neighbours.similarity.numpy()[places].astype(np.float64)
        parts = similarity / np.bincount(tokens, similarity, vocabulary)[tokens]
        keys = groups.group_of_centre.numpy()[near.entries[places]] * vocabulary + tokens
        found, which = np.unique(keys, return_inverse=True)
        shares = np.bincount(which, parts)
        numbers, members = np.divmod(found, vocabulary)
        by_token = members.argsort(kind="stable")
        sets, holders = _rows(numbers, members, len(groups)), _rows(members[by_token], numbers[by_token], vocabulary)
        return cls(groups.theta, vocabulary, sets, shares, holders, shares[by_token])

    def __len__(self) -> int:
        return len(self.sets.sizes)

    def size(self, k: int) -> int:
        return int(self.sets.sizes[k])

    def members_of(self, k: int) -> Tensor:
        """The members of group k, ascending, int32."""
        return torch.from_numpy(self.sets.of(k))

    def groups_of(self, t: int) -> Tensor:
        """S(t), ascending, int32."""
        return torch.from_numpy(self.holders.of(t))

    def label(self, t: int, coin: float) -> int:
        """K ~ w_{k,t} over S(t) by `coin` in [0, 1) (Eq. 6)."""
        ends = self._beside(self.holder_shares, self.holders, t).cumsum()
        # Rounding may leave the last end a little below one.
        place = min(int(ends.searchsorted(coin, side="right")), len(ends) - 1)
        return int(self.holders.of(t)[place])

    def weights(self, k: int) -> Tensor:
        """w_{k,t} for the members t of group k, in the order of `members_of`, float64."""
        return torch.from_numpy(self._beside(self.shares, self.sets, k))

    def mass(self, probs: Tensor | np.ndarray, k: int) -> float:
        """The mass of group k under `probs [V]` (Eq. 4), in O(|G_k|)."""
        members = self.sets.of(k).astype(np.intp)
        return float(np.asarray(probs)[members].astype(np.float64) @ self._beside(self.shares, self.sets, k))

    def masses(self, probs: Tensor | np.ndarray) -> Tensor:
        """The masses of all groups under `probs [V]` (Eq. 4), `[M]` float64. Linear, so differences of probabilities are
        welcome."""
        return torch.from_numpy(np.add.reduceat(np.asarray(probs)[self.sets.entries] * self.shares, self.sets.starts))

    @staticmethod
    def _beside(values: np.ndarray, rows: Rows, row: int) -> np.ndarray:
        """What stands in `values` beside the entries of a row."""
        start = rows.starts[row]
        return values[start : start + rows.sizes[row]]


def _rows(numbers: np.ndarray, entries: np.ndarray, count: int) -> Rows:
    """Rows of `entries` that stand in the order of their rows' `numbers`."""
    sizes = np.bincount(numbers, minlength=count)
    return Rows(sizes.cumsum() - sizes, sizes, entries.astype(np.int32))


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
