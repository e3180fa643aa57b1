"""Every token's neighbours above a floor of similarity: the raw material of groups at any threshold (PCG Eq. 1)."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pcg.errors import InputError
from pcg.groups.groups import Groups, Rows, row_starts, token_names
from pcg.groups.pairs.halves import halves, lowest_rank_above, ranks
from pcg.groups.pairs.kernel import prefix_sizes, running_names
from pcg.groups.pairs.search import Progress, pairs_above, unit_vectors

MAX_PAIRS = 2**25
# The bits of a token and of a similarity in the number that an entry is sorted by.
TOKEN_BITS, SIMILARITY_BITS = 22, 17


class _Arrays(NamedTuple):
    """The lists' memory as arrays; `bits` are the similarities', and `running` the running sums of the neighbours' names."""

    indptr: np.ndarray
    entries: np.ndarray
    bits: np.ndarray
    running: np.ndarray


@dataclass(frozen=True, eq=False)
class Neighbours:
    """`neighbours[indptr[t]:indptr[t + 1]]` are the tokens whose similarity with t exceeds `floor`, and `similarity` says how
    much: `[V + 1]` int64, `[E]` int32 and `[E]` float16.

    Token t itself comes first, the others by descending similarity, rounded to float16 once per pair, so that t' is near t
    exactly when t is near t'. The last token is the end of speech, and its own only neighbour.
    """

    floor: float
    indptr: Tensor
    neighbours: Tensor
    similarity: Tensor

    @classmethod
    def from_pairs(
        cls, floor: float, vocabulary: int, first: np.ndarray, second: np.ndarray, similarity: np.ndarray
    ) -> "Neighbours":
        """Build from pairs of different tokens, each pair once: two arrays of tokens (int32) and one of float16."""
        every = np.arange(vocabulary, dtype=np.int32)
        own = every.astype(np.int64) << TOKEN_BITS + SIMILARITY_BITS | every
        keys = np.concatenate([_keys(first, second, similarity), _keys(second, first, similarity), own])
        sizes = np.bincount(first, minlength=vocabulary) + np.bincount(second, minlength=vocabulary) + 1
        # One number an entry sorts many times faster than four keys.
        keys.sort()
        columns = (keys & 2**TOKEN_BITS - 1).astype(np.int32)
        values = halves(2**15 - (keys >> TOKEN_BITS & 2**SIMILARITY_BITS - 1).astype(np.int32))
        indptr = row_starts(torch.from_numpy(sizes))
        values[indptr[:-1].numpy()] = 1
        return cls(floor, indptr, torch.from_numpy(columns), torch.from_numpy(values))

    @property
    def vocabulary(self) -> int:
        return len(self.indptr) - 1

    @property
    def bytes(self) -> int:
        """Memory of the lists: 14 bytes an entry, and 8 a token."""
        return sum(array.nbytes for array in self._arrays)

    @cached_property
    def _arrays(self) -> _Arrays:
        entries = self.neighbours.numpy()
        running = running_names(entries, token_names(self.vocabulary))
        return _Arrays(self.indptr.numpy(), entries, self.similarity.numpy().view(np.int16), running)

    @cached_property
    def levels(self) -> tuple[np.ndarray, np.ndarray]:
        """The similarities between different tokens that occur, descending, float64, and how many entries have each."""
        between = np.ones(len(self.similarity), bool)
        between[self.indptr[:-1].numpy()] = False
        counts = np.bincount(self.similarity.numpy().view(np.uint16)[between], minlength=2**16)
        values = np.flatnonzero(counts).astype(np.uint16).view(np.float16).astype(np.float64)
        descending = values.argsort()[::-1]
        return values[descending], counts[counts > 0][descending]

    def of(self, token: int) -> tuple[Tensor, Tensor]:
        """The token's neighbours, itself first, and their similarities."""
        row = slice(int(self.indptr[token]), int(self.indptr[token + 1]))
        return self.neighbours[row], self.similarity[row]

    def groups_at(self, theta: float) -> Groups:
        """The groups of similarity above `theta`, which may not lie below the floor (Eq. 1); from theta = 1 on, singletons.

        A set is the beginning of its row, so this searches where each row falls below theta, and copies nothing. theta is
        compared as the float64 it is: rounded, it could land on a similarity.
        """
        indptr, entries, bits, running = self._arrays
        sizes = prefix_sizes(indptr, bits, lowest_rank_above(min(self._checked(theta), 1.0)))
        rows = Rows(indptr[:-1], sizes, entries)
        return Groups.from_rows(theta, rows, rows, running[rows.starts + sizes] - running[rows.starts])

    def mean_size_at(self, theta: float) -> float:
        """The mean of |G(t)| over all tokens at `theta`, without making the groups."""
        values, counts = self.levels
        return 1 + int(counts[values > self._checked(theta)].sum()) / self.vocabulary

    def _checked(self, theta: float) -> float:
        if not theta >= self.floor:
            raise InputError("theta", theta, f"at least {self.floor:g}, the floor of the neighbour lists")
        return float(theta)


def build_neighbours(
    features: Tensor,
    floor: float,
    eligible: Tensor | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Neighbours:
    """Search the speech codes' `features [V - 1, D]`, whose cosine is the similarity; the end of speech is added as the last
    token, alone.

    `eligible [V - 1]`, bool, leaves codes alone that training never used: their vectors mean nothing, yet lie close together.
    A vector of zeros stays alone, too. device: as `pairs_above`. `progress` is called after every
    block. Raises InputError for a floor that is no cosine or leaves more than MAX_PAIRS pairs, and for features not finite.
    """
    if not -1 <= floor <= 1:
        raise InputError("floor", floor, "a number from -1 to 1")
    tokens, unit = unit_vectors(features, eligible)
    blocks, found = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float16))], 0
    for block in pairs_above(unit, floor, device, progress):
        found += len(block[0])
        if found > MAX_PAIRS:
            raise InputError("floor", floor, f"high enough to leave at most {MAX_PAIRS:,} pairs of similar tokens")
        blocks.append(block)
    first, second, similarity = map(np.concatenate, zip(*blocks, strict=True))
    return Neighbours.from_pairs(floor, len(features) + 1, tokens[first], tokens[second], similarity)


def near_in_both(a: Neighbours, b: Neighbours) -> Neighbours:
    """Lists whose similarity is the lesser of the two, so that above theta are the pairs that are above it in both.

    The two scales are taken as they are; the floor is the higher one. Raises InputError for lists over other vocabularies.
    """
    if a.vocabulary != b.vocabulary:
        raise InputError("neighbours", f"over {b.vocabulary} tokens", f"lists over the other's {a.vocabulary} tokens")
    floor = max(a.floor, b.floor)
    (keys_a, similar_a), (keys_b, similar_b) = (_pairs(each, floor) for each in (a, b))
    keys, in_a, in_b = np.intersect1d(keys_a, keys_b, assume_unique=True, return_indices=True)
    first, second = (keys // a.vocabulary).astype(np.int32), (keys % a.vocabulary).astype(np.int32)
    return Neighbours.from_pairs(floor, a.vocabulary, first, second, np.minimum(similar_a[in_a], similar_b[in_b]))


def _keys(rows: np.ndarray, columns: np.ndarray, similarity: np.ndarray) -> np.ndarray:
    """Entries as numbers that sort by row, then by descending similarity (always after the row's own), then by column."""
    keys = rows.astype(np.int64) << SIMILARITY_BITS
    keys |= 2**15 - ranks(similarity)
    keys <<= TOKEN_BITS
    keys |= columns
    return keys


def _pairs(neighbours: Neighbours, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """Each pair above `floor` once, as the number first x V + second with first < second, and its similarity."""
    entries, similarity = neighbours.neighbours.numpy(), neighbours.similarity.numpy()
    rows = np.arange(neighbours.vocabulary, dtype=np.int32).repeat(neighbours.indptr.diff().numpy())
    kept = (rows < entries) & (similarity.astype(np.float64) > floor)
    return rows[kept].astype(np.int64) * neighbours.vocabulary + entries[kept], similarity[kept]
