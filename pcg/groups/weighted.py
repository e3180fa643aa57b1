"""Groups that share a token by similarity instead of equally: weights of PCG Eq. 2 other than those of Eq. 3."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcg.errors import InputError
from pcg.groups.groups import Rows
from pcg.groups.pairs.neighbours import Neighbours


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
