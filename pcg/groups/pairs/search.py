"""Exact search for similar vectors: every pair above a floor, found once, in blocks."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from pcg.errors import InputError

QUERIES_AT_ONCE = 512
# Wider than float16 rounds below 1, so that no pair is lost before its similarity is rounded.
MARGIN = 1e-3
Progress = Callable[[int, int], None]
"""Called with the comparisons done so far and those to do, so that time runs in proportion."""
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def unit_vectors(features: Tensor, eligible: Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The codes `[n]` (int32) whose direction means something, and their `features [codes, D]` at length one, `[n, D]` float32.

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


def pairs_above(unit: np.ndarray, floor: float, device: str = "cpu", progress: Progress | None = None) -> Iterator[Pairs]:
    """Blocks of pairs (i, j), j < i, of rows of `unit [n, D]` whose inner product, rounded to float16, exceeds `floor`: i and j
    int32, and that product.

    A block of rows meets itself and the rows before it only, which is half the work and gives each pair one similarity: the
    other direction could round to another last bit. Never holds more than a block's hits. device: "cpu" searches with FAISS,
    any other device of torch ("cuda", "cpu:0") with blocks of a matrix product there.
    """
    search = _faiss_search(unit) if device == "cpu" else _torch_search(torch.from_numpy(unit).to(device))
    edges = [*range(0, len(unit), QUERIES_AT_ONCE), len(unit)]
    work = [(stop - start) * stop for start, stop in pairwise(edges)]
    for block, (start, stop) in enumerate(pairwise(edges)):
        first, second, products = search(start, stop, floor - MARGIN)
        similarity = np.clip(products, -1, 1).astype(np.float16)
        kept = (second < first) & (similarity.astype(np.float64) > floor)
        yield first[kept].astype(np.int32), second[kept].astype(np.int32), similarity[kept]
        if progress:
            progress(sum(work[: block + 1]), sum(work))


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
    """The same search on the device of `unit [n, D]`: rows from start to stop against all before stop."""

    def search(start: int, stop: int, floor: float) -> Pairs:
        products = unit[start:stop] @ unit[:stop].T
        first, second = (products > floor).nonzero(as_tuple=True)
        values = products[first, second]
        return (first + start).cpu().numpy(), second.cpu().numpy(), values.cpu().numpy()

    return search
