"""Acoustic Similarity Groups at one threshold, and the mass of probabilities over them (PCG sections 2.1 and 2.2, Eq. 1-5).

Knows sets of tokens only: neither embeddings nor models. Groups are sets: centres with the same neighbours share one group.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor


@njit(nogil=True, cache=True)
def prefix_sizes(indptr, bits, lowest):
    """Return how far each row of descending float16 `bits` (as int16) reaches down to the rank `lowest`, `[R]` int64."""
    sizes = np.empty(len(indptr) - 1, np.int64)
    for row in range(len(sizes)):
        low, high = indptr[row] + 1, indptr[row + 1]
        while low < high:
            middle = (low + high) // 2
            value = np.int32(bits[middle])
            if (value if value >= 0 else -32768 - value) >= lowest:
                low = middle + 1
            else:
                high = middle
        sizes[row] = low - indptr[row]
    return sizes


@njit(nogil=True, cache=True)
def running_names(entries, names):
    """Running sums of the `entries`' names, `[E + 1]` int64, wrapping around: a stretch's sum is a difference of two."""
    sums = np.empty(len(entries) + 1, np.int64)
    total = np.int64(0)
    sums[0] = total
    for i in range(len(entries)):
        total += names[entries[i]]
        sums[i + 1] = total
    return sums


@njit(nogil=True, cache=True)
def number_sets(hashes):
    """Number equal hashes `[V]` int64 alike, in order of their first appearance: those firsts `[M]` and the numbers `[V]`."""
    slots = 2
    while slots < 2 * len(hashes):
        slots *= 2
    table = np.full(slots, -1, np.int64)
    first, number = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
    found = 0
    for row in range(len(hashes)):
        slot = hashes[row] & (slots - 1)
        while table[slot] >= 0 and hashes[first[table[slot]]] != hashes[row]:
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot] = found
            first[found] = row
            found += 1
        number[row] = table[slot]
    return first[:found].copy(), number


@njit(nogil=True, cache=True)
def subtract_entries(starts, sizes, entries, counts):
    """Take one from `counts [V]` for every entry of every row, in place."""
    for row in range(len(starts)):
        for i in range(starts[row], starts[row] + sizes[row]):
            counts[entries[i]] -= 1


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})
def row_sums(starts, sizes, entries, values):
    """Return the sum of `values [V]` float64 over each row's entries, `[R]` float64."""
    sums = np.empty(len(starts), np.float64)
    for row in range(len(starts)):
        total = 0.0
        for entry in entries[starts[row] : starts[row] + sizes[row]]:
            total += values[entry]
        sums[row] = total
    return sums


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})
def weighed(values, weights, entries):
    """Return the sum over the `entries` of values `[V]` times weights `[V]`, in float64."""
    total = 0.0
    for entry in entries:
        total += values[entry] * weights[entry]
    return total


@njit(nogil=True, cache=True)
def number_at(coin, numbers, entries):
    """Return the number at `coin` in [0, 1) among the ascending `numbers [V]` of the `entries`; -1 stands for none."""
    found, count = np.empty(len(entries), numbers.dtype), 0
    for entry in entries:
        found[count] = numbers[entry]
        count += numbers[entry] >= 0
    if count == 0:
        raise ValueError("the token is in no group")
    place = int(coin * count)
    return np.partition(found[:count], place)[place]


@dataclass(frozen=True)
class GroupStatistics:
    """The shape of a grouping. Mean size is that of |G(t)| over the tokens t; weighted by `usage` where one was given."""

    vocab: int
    groups: int
    mean_size: float
    max_size: int
    singletons: int
    multi_member_share: float
    usage_weighted_mean_size: float | None


class Rows(NamedTuple):
    """R stretches of one list: row i is `entries[starts[i] : starts[i] + sizes[i]]`, int32, each entry once, in any order."""

    starts: np.ndarray
    sizes: np.ndarray
    entries: np.ndarray

    def of(self, row: int) -> np.ndarray:
        start = self.starts[row]
        return self.entries[start : start + self.sizes[row]]

    def at(self, rows: np.ndarray) -> "Rows":
        """Select rows of the same list."""
        return Rows(self.starts[rows], self.sizes[rows], self.entries)


@dataclass(frozen=True, eq=False)
class Groups:
    """The M distinct groups over a vocabulary of V tokens, the last of which is the end of speech, alone in its group.

    A view: `sets` has a row a group, its members, and `holders` a row a token, the centres whose sets hold it; both may be
    stretches of one list that other thetas share, so that groups at a new theta copy no list. Groups are numbered by their
    lowest centre, so that with singletons group k is token k. `count [V]` is N(t) = |S(t)|, float64; `group_of_centre [V]` is
    the number of G(t), int64.
    """

    theta: float
    vocabulary: int
    sets: Rows
    holders: Rows
    first_centres: np.ndarray
    count: Tensor
    group_of_centre: Tensor

    @classmethod
    def from_rows(cls, theta: float, rows: Rows, holders: Rows, hashes: np.ndarray) -> "Groups":
        """Build from the V neighbour sets `rows` and their transpose `holders` (the same rows if membership is symmetric).

        hashes `[V]`, int64: the sum of the random names (`token_names`) of each set's members, by which a set is known, so that
        no two rows need to be compared: different sets meet with probability 2^-64 a pair.
        """
        first, number = number_sets(hashes)
        # N(t): the centres whose sets hold t, less those that repeat the set of an earlier centre.
        counts = holders.sizes.astype(np.int64)
        subtract_entries(*rows.at(np.setdiff1d(np.arange(len(hashes)), first, assume_unique=True)), counts)
        count = torch.from_numpy(counts.astype(np.float64))
        return cls(theta, len(hashes), rows.at(first), holders, first, count, torch.from_numpy(number))

    @classmethod
    def from_sets(cls, theta: float, indptr: Tensor, members: Tensor) -> "Groups":
        """Build from any V sets, row t of `(indptr, members)` being G(t); they need not be symmetric."""
        starts, entries = indptr.numpy(), members.int().numpy()
        vocabulary = len(starts) - 1
        running = running_names(entries, token_names(vocabulary))
        owners = np.arange(vocabulary, dtype=np.int32).repeat(np.diff(starts))
        held = np.bincount(entries, minlength=vocabulary)
        holders = Rows(held.cumsum() - held, held, owners[entries.argsort(kind="stable")])
        rows = Rows(starts[:-1], np.diff(starts), entries)
        return cls.from_rows(theta, rows, holders, running[starts[1:]] - running[starts[:-1]])

    @classmethod
    def singletons(cls, vocabulary: int) -> "Groups":
        """Every token alone: what theta >= 1 gives, and where PCG is exact speculative decoding."""
        return cls.from_sets(1.0, torch.arange(vocabulary + 1), torch.arange(vocabulary))

    def __len__(self) -> int:
        return len(self.first_centres)

    @property
    def sizes(self) -> Tensor:
        """|G_k|, `[M]` int64."""
        return torch.from_numpy(self.sets.sizes)

    @property
    def indptr(self) -> Tensor:
        """Where each group starts in `members` and the last one ends, `[M + 1]` int64."""
        return row_starts(self.sizes)

    @cached_property
    def members(self) -> Tensor:
        """All groups' members, one group after the other, each ascending, int32. Made on demand: nothing else needs it."""
        return torch.cat([self.members_of(k) for k in range(len(self))])

    @cached_property
    def _share(self) -> np.ndarray:
        """1 / N(t), `[V]`: the weight of t in each of its groups (Eq. 3)."""
        return 1 / self.count.numpy()

    @cached_property
    def _group_of_first(self) -> np.ndarray:
        """The group's number where a token is its lowest centre, else -1, `[V]` int32."""
        numbers = np.full(self.vocabulary, -1, np.int32)
        numbers[self.first_centres] = np.arange(len(self), dtype=np.int32)
        return numbers

    def size(self, k: int) -> int:
        return int(self.sets.sizes[k])

    def members_of(self, k: int) -> Tensor:
        """Return the members of group k, ascending, int32."""
        return torch.from_numpy(np.sort(self.sets.of(k)))

    def label(self, t: int, coin: float) -> int:
        """K ~ w_{k,t} over S(t) by `coin` in [0, 1) (Eq. 6); equal split makes it uniform."""
        return number_at(coin, self._group_of_first, self.holders.of(t))

    def weights(self, k: int) -> Tensor:
        """w_{k,t} = 1 / N(t) for the members t of group k, in the order of `members_of` (Eq. 3), float64."""
        return torch.from_numpy(self._share[np.sort(self.sets.of(k))])

    def mass(self, probs: Tensor | np.ndarray, k: int) -> float:
        """Return the mass of group k under `probs [V]` (Eq. 5), in O(|G_k|)."""
        return weighed(np.asarray(probs), self._share, self.sets.of(k))

    def masses(self, probs: Tensor | np.ndarray) -> Tensor:
        """Return the masses of all groups under `probs [V]`, or a difference of two (Eq. 5), `[M]` float64."""
        return torch.from_numpy(row_sums(*self.sets, np.asarray(probs) * self._share))

    def statistics(self, usage: Tensor | None = None) -> GroupStatistics:
        """`usage [V]`, or `[V - 1]` without the end of speech, says how often each token is spoken."""
        sizes = self.sets.sizes[self.group_of_centre.numpy()]
        weighted = None
        if usage is not None:
            spoken = usage.double().numpy()
            weighted = float(sizes[: len(spoken)] @ spoken / spoken.sum())
        return GroupStatistics(
            vocab=self.vocabulary,
            groups=len(self),
            mean_size=float(sizes.mean()),
            max_size=int(sizes.max()),
            singletons=int((sizes == 1).sum()),
            multi_member_share=float((sizes > 1).mean()),
            usage_weighted_mean_size=weighted,
        )


def row_starts(sizes: Tensor) -> Tensor:
    """Row sizes `[R]` -> where each row starts and the last one ends, `[R + 1]` int64."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])


def token_names(vocabulary: int) -> np.ndarray:
    """Return a random number for every token, `[V]` int64, always the same."""
    return np.random.default_rng(0).integers(-(2**63), 2**63, vocabulary, dtype=np.int64)
