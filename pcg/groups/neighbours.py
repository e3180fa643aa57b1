"""Every token's neighbours in the target's embedding above a floor: the raw material of groups at any threshold (PCG Eq. 1)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcg.errors import InputError
from pcg.groups.groups import Groups, row_starts

QUERIES_AT_ONCE = 512
MAX_PAIRS = 2**25
# Wider than float16 rounds below 1, so that no pair is lost before its similarity is rounded.
MARGIN = 1e-3


@dataclass(frozen=True, eq=False)
class Neighbours:
    """`neighbours[indptr[t]:indptr[t + 1]]` are the tokens whose cosine with t exceeds `floor`, and `similarity` the cosines.

    Token t itself comes first, the others by descending similarity, rounded to float16 once per pair, so that t' is near t
    exactly when t is near t'. The last token is the end of speech, and its own only neighbour.
    """

    floor: float
    indptr: Tensor
    neighbours: Tensor
    similarity: Tensor

    @property
    def vocabulary(self) -> int:
        return len(self.indptr) - 1

    def of(self, token: int) -> tuple[Tensor, Tensor]:
        """The token's neighbours, itself first, and their similarities."""
        row = slice(int(self.indptr[token]), int(self.indptr[token + 1]))
        return self.neighbours[row], self.similarity[row]

    def groups_at(self, theta: float) -> Groups:
        """The groups of similarity above `theta`, which may not lie below the floor (Eq. 1); from theta = 1 on, singletons."""
        if not theta >= self.floor:
            raise InputError("theta", theta, f"at least {self.floor:g}, the floor of the neighbour lists")
        # float64 because theta would otherwise be rounded too, and could land on a similarity.
        kept = self.similarity.double() > theta
        kept[self.indptr[:-1]] = True
        rows = torch.arange(self.vocabulary).repeat_interleave(self.indptr.diff())[kept]
        members = self.neighbours[kept]
        ascending = (rows * self.vocabulary + members).argsort()
        return Groups.from_sets(theta, row_starts(rows.bincount(minlength=self.vocabulary)), members[ascending])


def build_neighbours(embedding: Tensor, floor: float, eligible: Tensor | None = None) -> Neighbours:
    """Search the speech codes' `embedding [V - 1, D]`; the end of speech is added as the last token, alone.

    `eligible [V - 1]`, bool, leaves codes alone that training never used: their vectors mean nothing, yet lie close together.
    """
    if not -1 <= floor <= 1:
        raise InputError("floor", floor, "a number from -1 to 1")
    vectors = embedding.detach().float()
    lengths = vectors.norm(dim=1)
    comparable = lengths > 0 if eligible is None else eligible & (lengths > 0)
    tokens = comparable.nonzero().squeeze(1).numpy().astype(np.int32)
    unit = (vectors[comparable] / lengths[comparable, None]).numpy()
    first, second, similarity = map(np.concatenate, zip(_NO_PAIRS, *_pairs_above(unit, floor), strict=True))
    return _sorted(floor, len(embedding) + 1, tokens[first], tokens[second], similarity)


_NO_PAIRS = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float16))


def _pairs_above(unit: np.ndarray, floor: float) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Blocks of pairs (i, j), i < j, of rows of `unit` whose rounded inner product exceeds `floor`, with that product."""
    import faiss

    index = faiss.IndexFlatIP(unit.shape[1])
    index.add(unit)
    found = 0
    for start in range(0, len(unit), QUERIES_AT_ONCE):
        limits, products, second = index.range_search(unit[start : start + QUERIES_AT_ONCE], floor - MARGIN)
        counts = np.diff(limits.astype(np.int64))
        first = np.arange(start, start + len(counts)).repeat(counts)
        similarity = np.minimum(products, 1).astype(np.float16)
        # One direction only: the search may return another last bit for (j, i).
        kept = (first < second) & (similarity.astype(np.float64) > floor)
        found += int(kept.sum())
        if found > MAX_PAIRS:
            raise InputError("floor", floor, f"high enough to leave at most {MAX_PAIRS:,} pairs of similar tokens")
        yield first[kept].astype(np.int32), second[kept].astype(np.int32), similarity[kept]


def _sorted(floor: float, vocabulary: int, first: np.ndarray, second: np.ndarray, similarity: np.ndarray) -> Neighbours:
    """Both directions of every pair and every token itself, in the order that Neighbours promises."""
    every = np.arange(vocabulary, dtype=np.int32)
    rows = np.concatenate([first, second, every])
    columns = np.concatenate([second, first, every])
    values = np.concatenate([similarity, similarity, np.ones(vocabulary, np.float16)])
    order = np.lexsort((columns, -values, rows != columns, rows))
    sizes = torch.from_numpy(np.bincount(rows, minlength=vocabulary))
    return Neighbours(floor, row_starts(sizes), torch.from_numpy(columns[order]), torch.from_numpy(values[order]))
