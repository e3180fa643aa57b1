"""Acoustic Similarity Groups at one threshold, and a law's mass over them (PCG sections 2.1 and 2.2, Eq. 1-5).

Knows sets of tokens only: neither embeddings nor models. Groups are sets: centres with the same neighbours share one group.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

ROWS_AT_ONCE = 512


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


class _Arrays(NamedTuple):
    """The tensors' memory as arrays, and `share [V]` = 1 / N(t): a rule's small look-ups cost torch more than they weigh."""

    indptr: np.ndarray
    members: np.ndarray
    containing_indptr: np.ndarray
    containing: np.ndarray
    share: np.ndarray


@dataclass(frozen=True, eq=False)
class Groups:
    """The M distinct groups over a vocabulary of V tokens, the last of which is the end of speech, alone in its group.

    Both directions in compressed rows: `members[indptr[k]:indptr[k + 1]]` is group k, and
    `containing[containing_indptr[t]:containing_indptr[t + 1]]` is S(t), the groups that hold token t; both ascending. Groups
    are numbered by their lowest centre, so that with singletons group k is token k. `count [V]` is N(t) = |S(t)|, float64;
    `group_of_centre [V]` is the number of G(t).
    """

    theta: float
    vocabulary: int
    indptr: Tensor
    members: Tensor
    containing_indptr: Tensor
    containing: Tensor
    count: Tensor
    group_of_centre: Tensor

    @classmethod
    def from_sets(cls, theta: float, indptr: Tensor, members: Tensor) -> "Groups":
        """Build from the V neighbour sets, row t of `(indptr, members)` being G(t) in ascending order."""
        vocabulary, row_sizes = len(indptr) - 1, indptr.diff()
        first_centres, group_of_centre = _distinct(indptr, members)
        is_first = torch.zeros(vocabulary, dtype=torch.bool)
        is_first[first_centres] = True
        members = members[is_first.repeat_interleave(row_sizes)].int()
        sizes = row_sizes[first_centres]
        owners = torch.arange(len(sizes), dtype=torch.int32).repeat_interleave(sizes)
        count = members.bincount(minlength=vocabulary)
        return cls(
            theta=theta,
            vocabulary=vocabulary,
            indptr=row_starts(sizes),
            members=members,
            containing_indptr=row_starts(count),
            containing=owners[members.argsort(stable=True)],
            count=count.double(),
            group_of_centre=group_of_centre,
        )

    @classmethod
    def singletons(cls, vocabulary: int) -> "Groups":
        """Every token alone: what theta >= 1 gives, and where PCG is exact speculative decoding."""
        return cls.from_sets(1.0, torch.arange(vocabulary + 1), torch.arange(vocabulary))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def sizes(self) -> Tensor:
        """|G_k|, `[M]` int64."""
        return self.indptr.diff()

    @cached_property
    def _arrays(self) -> _Arrays:
        tensors = (self.indptr, self.members, self.containing_indptr, self.containing, 1 / self.count)
        return _Arrays(*(tensor.numpy() for tensor in tensors))

    def size(self, k: int) -> int:
        starts = self._arrays.indptr
        return int(starts[k + 1] - starts[k])

    def members_of(self, k: int) -> Tensor:
        return torch.from_numpy(_row(self._arrays.indptr, self._arrays.members, k))

    def groups_of(self, t: int) -> Tensor:
        """S(t), ascending."""
        return torch.from_numpy(_row(self._arrays.containing_indptr, self._arrays.containing, t))

    def weights(self, k: int) -> Tensor:
        """w_{k,t} = 1 / N(t) for the members t of group k (Eq. 3), float64."""
        return 1 / self.count[self.members_of(k)]

    def mass(self, law: Tensor | np.ndarray, k: int) -> float:
        """The mass of group k under `law [V]` (Eq. 5), in O(|G_k|)."""
        # An array is read through numpy's own index type several times faster than through int32.
        members = _row(self._arrays.indptr, self._arrays.members, k).astype(np.intp)
        return float(np.asarray(law)[members].astype(np.float64) @ self._arrays.share[members])

    def masses(self, law: Tensor | np.ndarray) -> Tensor:
        """The masses of all groups under `law [V]` (Eq. 5), `[M]` float64. Linear, so differences of laws are welcome."""
        shares = torch.from_numpy(np.asarray(law) * self._arrays.share)
        masses, starts = np.empty(len(self)), self._arrays.indptr
        # Some rows at a time: what they gather stays in the processor's cache. Rows are never empty, which reduceat needs.
        for first in range(0, len(self), ROWS_AT_ONCE):
            edges = starts[first : first + ROWS_AT_ONCE + 1]
            gathered = shares.index_select(0, self.members[edges[0] : edges[-1]]).numpy()
            masses[first : first + ROWS_AT_ONCE] = np.add.reduceat(gathered, edges[:-1] - edges[0])
        return torch.from_numpy(masses)

    def statistics(self, usage: Tensor | None = None) -> GroupStatistics:
        """`usage [V]`, or `[V - 1]` without the end of speech, says how often each token is spoken."""
        sizes = self.sizes[self.group_of_centre].double()
        weighted = None
        if usage is not None:
            usage = usage.double()
            weighted = float((sizes[: len(usage)] * usage).sum() / usage.sum())
        return GroupStatistics(
            vocab=self.vocabulary,
            groups=len(self),
            mean_size=float(sizes.mean()),
            max_size=int(sizes.max()),
            singletons=int((sizes == 1).sum()),
            multi_member_share=float((sizes > 1).double().mean()),
            usage_weighted_mean_size=weighted,
        )


def _row(starts: np.ndarray, entries: np.ndarray, row: int) -> np.ndarray:
    return entries[starts[row] : starts[row + 1]]


def row_starts(sizes: Tensor) -> Tensor:
    """Row sizes `[R]` -> where each row starts and the last one ends, `[R + 1]` int64."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])


def _distinct(indptr: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
    """The first centre of each distinct set, ascending, and the number of every centre's set.

    A set is known by the sum of its members' random 128-bit names, so that no two rows need to be compared: different sets meet
    with probability 2^-128 a pair.
    """
    vocabulary = len(indptr) - 1
    names = torch.randint(-(2**63), 2**63 - 1, (vocabulary, 2), generator=torch.Generator().manual_seed(0))
    rows = torch.arange(vocabulary).repeat_interleave(indptr.diff())
    sums = torch.zeros(vocabulary, 2, dtype=torch.int64).index_add_(0, rows, names.index_select(0, members))
    _, first, number = np.unique(sums.numpy(), axis=0, return_index=True, return_inverse=True)
    order = first.argsort()
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return torch.from_numpy(first[order]), torch.from_numpy(rank[number])
