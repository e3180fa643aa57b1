"""Neighbour lists: all tokens whose similarity with a token exceeds a floor, sorted, so that groups at any theta are a view."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from pcg.errors import InputError
from pcg.groups.groups import Groups, Rows, prefix_sizes, row_starts, running_names, token_names

ROWS = 256
QUERIES_AT_ONCE = 512
# Wider than float16 rounds below 1, so that no pair is lost before its similarity is rounded.
MARGIN = 1e-3
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def ranks(halves: np.ndarray) -> np.ndarray:
    """float16 values (no NaN) -> int32 of the same shape and order, 0 for both zeros."""
    bits = halves.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(2**15) - bits, bits)


def halves(ranks: np.ndarray) -> np.ndarray:
    """Return the inverse of `ranks`, float16."""
    return np.where(ranks < 0, -(2**15) - ranks, ranks).astype(np.int16).view(np.float16)


MAX_PAIRS = 2**25
# The share of them that a sample may promise: lists that turn out too long are refused.
AIM = 0.8
# The bits of a token and of a similarity in the number that an entry is sorted by.
TOKEN_BITS, SIMILARITY_BITS = 22, 17


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

    @property
    def vocabulary(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def _running_names(self) -> np.ndarray:
        return running_names(self.neighbours.numpy(), token_names(self.vocabulary))

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
        """Return the token's neighbours, itself first, and their similarities."""
        row = slice(int(self.indptr[token]), int(self.indptr[token + 1]))
        return self.neighbours[row], self.similarity[row]

    def groups_at(self, theta: float) -> Groups:
        """Return the groups of similarity above `theta` (Eq. 1), not below the floor; from theta = 1 on, singletons.

        A set is the beginning of its row, so this searches where each row falls below theta, and copies nothing. theta is
        compared as the float64 it is: rounded, it could land on a similarity.
        """
        indptr, bits, running = self.indptr.numpy(), self.similarity.numpy().view(np.int16), self._running_names
        threshold = min(self._checked(theta), 1.0)
        nearest = np.float16(threshold)
        above = nearest if float(nearest) > threshold else np.nextafter(nearest, np.float16(2))
        sizes = prefix_sizes(indptr, bits, int(ranks(np.array([above]))[0]))
        rows = Rows(indptr[:-1], sizes, self.neighbours.numpy())
        return Groups.from_rows(theta, rows, rows, running[rows.starts + sizes] - running[rows.starts])

    def mean_size_at(self, theta: float) -> float:
        """Return the mean of |G(t)| over all tokens at `theta`, without making the groups."""
        values, counts = self.levels
        return 1 + int(counts[values > self._checked(theta)].sum()) / self.vocabulary

    def _checked(self, theta: float) -> float:
        if not theta >= self.floor:
            raise InputError("theta", theta, f"at least {self.floor:g}, the floor of the neighbour lists")
        return float(theta)


def build_neighbours(
    features: Tensor, floor: float, eligible: Tensor | None = None, device: str = "cpu", label: str = ""
) -> Neighbours:
    """Compare the speech codes' `features [V - 1, D]` by cosine; the end of speech is added as the last token, alone.

    Args:
        features: one vector for each code; a vector of zeros has no neighbours.
        floor: the lowest theta at which groups are wanted.
        eligible: bool [V - 1]; False for codes that training never used: their vectors mean nothing, yet lie close together.
        device: "cpu" searches with FAISS, any other device of torch with blocks of a matrix product there.
        label: the title of a progress bar on standard error, if that is a terminal; "" for none.

    Raises:
        InputError: for a floor that is no cosine or leaves more than MAX_PAIRS pairs, and for features that are not finite.
    """
    if not -1 <= floor <= 1:
        raise InputError("floor", floor, "a number from -1 to 1")
    tokens, unit = unit_vectors(features, eligible)
    blocks, count = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float16))], 0
    for block in pairs_above(unit, floor, device, label):
        count += len(block[0])
        if count > MAX_PAIRS:
            raise InputError("floor", floor, f"high enough to leave at most {MAX_PAIRS:,} pairs of similar tokens")
        blocks.append(block)
    first, second, similarity = map(np.concatenate, zip(*blocks, strict=True))
    first, second, vocabulary = tokens[first], tokens[second], len(features) + 1
    every = np.arange(vocabulary, dtype=np.int32)
    own = every.astype(np.int64) << TOKEN_BITS + SIMILARITY_BITS | every
    keys = np.concatenate([_keys(first, second, similarity), _keys(second, first, similarity), own])
    # One number an entry sorts many times faster than four keys.
    keys.sort()
    columns = (keys & 2**TOKEN_BITS - 1).astype(np.int32)
    values = halves(2**15 - (keys >> TOKEN_BITS & 2**SIMILARITY_BITS - 1).astype(np.int32))
    sizes = np.bincount(first, minlength=vocabulary) + np.bincount(second, minlength=vocabulary) + 1
    indptr = row_starts(torch.from_numpy(sizes))
    values[indptr[:-1].numpy()] = 1
    return Neighbours(floor, indptr, torch.from_numpy(columns), torch.from_numpy(values))


def affordable_floor(features: Tensor, floor: float, eligible: Tensor | None = None) -> float:
    """Return `floor`, or a higher one if more than AIM x MAX_PAIRS pairs of codes would exceed it.

    The number of pairs is estimated from the cosines of at most ROWS codes, always the same ones, with all others. Where many
    cosines are equal, fewer pairs exceed the new floor rather than more.
    """
    _, unit = unit_vectors(features, eligible)
    every = torch.from_numpy(unit)
    rows = torch.randperm(len(every), generator=torch.Generator().manual_seed(0))[:ROWS]
    cosines = every[rows] @ every.T
    cosines[torch.arange(len(rows)), rows] = torch.inf  # a code with itself
    ascending = cosines.flatten().sort().values[: cosines.numel() - len(rows)].numpy()
    pairs, aim = len(every) * (len(every) - 1) / 2, AIM * MAX_PAIRS
    if not len(ascending) or pairs * (ascending > floor).mean() <= aim:
        return floor
    return float(np.float16(ascending[len(ascending) - 1 - int(aim / pairs * len(ascending))]))


def _keys(rows: np.ndarray, columns: np.ndarray, similarity: np.ndarray) -> np.ndarray:
    """Entries as numbers that sort by row, then by descending similarity (always after the row's own), then by column."""
    keys = rows.astype(np.int64) << SIMILARITY_BITS
    keys |= 2**15 - ranks(similarity)
    keys <<= TOKEN_BITS
    keys |= columns
    return keys


def unit_vectors(features: Tensor, eligible: Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes `[n]` (int32) whose direction means something, and their `features [codes, D]` at length one, `[n, D]`
    float32.

    Left out are vectors of zeros and those not in `eligible [codes]` (bool). Raises InputError for NaN and infinity.
    """
    if features.ndim != 2 or (eligible is not None and eligible.shape != features.shape[:1]):
        raise InputError("features", tuple(features.shape), "one vector for each code, and one eligible flag for each")
    vectors = features.detach().cpu().float()
    lengths = vectors.norm(dim=1)
    if not lengths.isfinite().all():
        raise InputError(
            "features", f"not finite at code {int(lengths.isfinite().logical_not().nonzero()[0])}", "finite numbers"
        )
    comparable = lengths > 0 if eligible is None else eligible.cpu() & (lengths > 0)
    unit = vectors[comparable]
    unit /= lengths[comparable, None]
    return comparable.nonzero().squeeze(1).numpy().astype(np.int32), unit.numpy()


def pairs_above(unit: np.ndarray, floor: float, device: str = "cpu", label: str = "") -> Iterator[Pairs]:
    """Yield blocks of pairs (i, j), j < i, of rows of `unit [n, D]` whose inner product, rounded to float16, exceeds `floor`:
    i and j int32, and that product. device, label: as in `build_neighbours`.

    A block of rows is compared with itself and the rows before it, which is half the work and gives each pair one similarity:
    the other direction could round to another last bit. Holds no more than the pairs of one block.
    """
    search = _faiss_search(unit) if device == "cpu" else _torch_search(torch.from_numpy(unit).to(device))
    edges = [*range(0, len(unit), QUERIES_AT_ONCE), len(unit)]
    blocks = list(pairwise(edges))
    comparisons = sum((stop - start) * stop for start, stop in blocks)
    with tqdm(total=comparisons, desc=label, unit_scale=True, disable=None if label else True) as bar:
        for start, stop in blocks:
            first, second, products = search(start, stop, floor - MARGIN)
            similarity = np.clip(products, -1, 1).astype(np.float16)
            kept = (second < first) & (similarity.astype(np.float64) > floor)
            yield first[kept].astype(np.int32), second[kept].astype(np.int32), similarity[kept]
            bar.update((stop - start) * stop)


def _faiss_search(unit: np.ndarray) -> Callable[[int, int, float], Pairs]:
    import faiss

    # The search of IndexFlatIP, without the copy of all vectors that the index would hold.
    def search(start: int, stop: int, floor: float) -> Pairs:
        found = faiss.RangeSearchResult(stop - start)
        queries, base = faiss.swig_ptr(unit[start:stop]), faiss.swig_ptr(unit[:stop])
        faiss.range_search_inner_product(queries, base, unit.shape[1], stop - start, stop, floor, found)
        limits = faiss.rev_swig_ptr(found.lims, stop - start + 1).astype(np.int64)
        first = np.arange(start, stop).repeat(np.diff(limits))
        if not len(first):
            return first, first, np.empty(0, np.float32)
        # Copies, because the memory goes with `found`.
        second, products = (faiss.rev_swig_ptr(each, len(first)).copy() for each in (found.labels, found.distances))
        return first, second, products

    return search


def _torch_search(unit: Tensor) -> Callable[[int, int, float], Pairs]:
    """Search likewise on the device of `unit [n, D]`: rows from start to stop against all before stop."""

    def search(start: int, stop: int, floor: float) -> Pairs:
        products = unit[start:stop] @ unit[:stop].T
        first, second = (products > floor).nonzero(as_tuple=True)
        values = products[first, second]
        return (first + start).cpu().numpy(), second.cpu().numpy(), values.cpu().numpy()

    return search
