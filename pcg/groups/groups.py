"""Acoustic Similarity Groups at one threshold, and a law's mass over them (PCG sections 2.1 and 2.2, Eq. 1-5).

Knows sets of tokens only: neither embeddings nor models. Groups are sets: centres with the same neighbours share one group.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


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

    def size(self, k: int) -> int:
        return int(self.indptr[k + 1] - self.indptr[k])

    def members_of(self, k: int) -> Tensor:
        return self.members[int(self.indptr[k]) : int(self.indptr[k + 1])]

    def groups_of(self, t: int) -> Tensor:
        """S(t), ascending."""
        return self.containing[int(self.containing_indptr[t]) : int(self.containing_indptr[t + 1])]

    def weights(self, k: int) -> Tensor:
        """w_{k,t} = 1 / N(t) for the members t of group k (Eq. 3), float64."""
        return 1 / self.count[self.members_of(k)]

    def mass(self, law: Tensor, k: int) -> float:
        """The mass of group k under `law [V]` (Eq. 5), in O(|G_k|)."""
        members = self.members_of(k)
        return float((law[members].double() / self.count[members]).sum())

    def masses(self, law: Tensor) -> Tensor:
        """The masses of all groups under `law [V]` (Eq. 5), `[M]` float64. Linear, so differences of laws are welcome."""
        shares = (law.double() / self.count).index_select(0, self.members)
        # Rows are never empty, which reduceat needs; it is several times faster here than torch's segment sums.
        return torch.from_numpy(np.add.reduceat(shares.numpy(), self.indptr[:-1].numpy()))

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
