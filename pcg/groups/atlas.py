"""The map of the codes: UMAP (McInnes et al., arXiv 1802.03426) of the token embedding, from the neighbour lists at hand."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcg.errors import InputError
from pcg.groups.neighbours import Neighbours, unit_vectors

POWER_STEPS = 8
RING = 1.15
NEAREST, SEED = 12, 0


@dataclass(frozen=True, eq=False)
class Atlas:
    """A place for each of V codes (the end of speech is none), `x` and `y [V]` float32, and its k nearest: `nearest [V, k]`
    int32, by descending `similarity [V, k]` float32.

    Codes that cannot be compared (never used in training, or a vector of zeros) have no place of their own: they lie evenly on
    a ring around the map, in order of their numbers. Such a code is named as its own nearest, at similarity 0, and so is any
    code where there are fewer than k others.
    """

    x: Tensor
    y: Tensor
    nearest: Tensor
    similarity: Tensor


def build_atlas(
    neighbours: Neighbours, features: Tensor, eligible: Tensor | None = None, k: int = NEAREST, seed: int = SEED
) -> Atlas:
    """Lay out the codes of `features [V, D]`, of which `neighbours` are the lists.

    The k nearest come from the lists; only codes with fewer than k above the floor are searched again. UMAP starts from the
    first two principal components, and the same seed gives the same map. Where all codes are one another's nearest (at most
    k + 1 of them) those components are the map. Raises InputError unless k >= 1 and lists and features have the same codes.
    """
    if k < 1:
        raise InputError("k", k, "a whole number from 1 up")
    if neighbours.vocabulary != len(features) + 1:
        raise InputError("neighbours", f"over {neighbours.vocabulary} tokens", f"lists over {len(features) + 1}")
    tokens, unit = unit_vectors(features, eligible)
    nearest, similarity = _nearest(neighbours, tokens, unit, k)
    plane = _principal_plane(torch.from_numpy(unit), seed).numpy()
    placed = plane if len(tokens) <= k + 1 else _umap(plane, tokens, nearest[tokens], similarity[tokens], seed)
    places = np.zeros((len(features), 2), np.float32)
    places[tokens] = placed
    # The others lie on a ring around them.
    outside = np.setdiff1d(np.arange(len(features)), tokens)
    low, high = (placed.min(0), placed.max(0)) if len(placed) else (np.zeros(2), np.zeros(2))
    centre = (low + high) / 2
    radius = RING * float(np.linalg.norm(placed - centre, axis=1).max(initial=0.0)) or 1.0
    angles = np.arange(len(outside)) * 2 * math.pi / max(1, len(outside))
    places[outside] = centre + radius * np.stack([np.cos(angles), np.sin(angles)], 1)
    return Atlas(*(torch.from_numpy(each) for each in (*places.T.astype(np.float32).copy(), nearest, similarity)))


def _nearest(neighbours: Neighbours, tokens: np.ndarray, unit: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k nearest codes of every code, `[V, k]`, and their similarities."""
    codes = neighbours.vocabulary - 1
    starts = neighbours.indptr.numpy()
    nearest = np.arange(codes, dtype=np.int32)[:, None].repeat(k, 1)
    similarity = np.zeros((codes, k), np.float32)
    full = np.flatnonzero(np.diff(starts)[:codes] > k)
    places = starts[full, None] + 1 + np.arange(k)
    nearest[full] = neighbours.neighbours.numpy()[places]
    similarity[full] = neighbours.similarity.numpy()[places]
    short = np.flatnonzero(np.isin(tokens, full, invert=True))
    if len(short) and len(tokens) > 1:
        import faiss

        most = min(k, len(tokens) - 1)
        values, found = faiss.knn(unit[short], unit, most + 1, metric=faiss.METRIC_INNER_PRODUCT)
        # Itself goes last, wherever among its equals it was found, and is cut off with the last column.
        others = (found == short[:, None]).argsort(axis=1, kind="stable")[:, :most]
        found, values = np.take_along_axis(found, others, 1), np.take_along_axis(values, others, 1)
        nearest[tokens[short], : found.shape[1]] = tokens[found]
        similarity[tokens[short], : found.shape[1]] = values
    return nearest, similarity


def _principal_plane(unit: Tensor, seed: int) -> Tensor:
    """Return the rows of `unit [n, D]` along their first two principal components, `[n, 2]`, by subspace iteration."""
    if len(unit) < 2:
        return torch.zeros(len(unit), 2)
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(unit.shape[1], 2, generator=generator)
    for _ in range(POWER_STEPS):
        along = unit @ basis
        basis = torch.linalg.qr(unit.T @ (along - along.mean(0))).Q
    along = unit @ basis
    plane = torch.nn.functional.pad(along - along.mean(0), (0, 2 - basis.shape[1]))
    # umap stretches each axis to one length, which an axis of no length would not survive.
    return plane + 1e-6 * torch.randn(plane.shape, generator=generator)


def _umap(plane: np.ndarray, tokens: np.ndarray, nearest: np.ndarray, similarity: np.ndarray, seed: int) -> np.ndarray:
    """Places `[n, 2]` from the graph of the nearest, beginning at `plane [n, 2]`."""
    from umap import UMAP

    row_of = np.zeros(int(tokens.max()) + 1, np.int64)
    row_of[tokens] = np.arange(len(tokens))
    # umap takes each point to be its own first neighbour.
    indices = np.concatenate([np.arange(len(tokens))[:, None], row_of[nearest]], 1)
    distances = np.concatenate([np.zeros((len(tokens), 1)), (1 - similarity).clip(0)], 1).astype(np.float32)
    count = indices.shape[1]
    layout = UMAP(count, metric="cosine", init=plane, random_state=seed, n_jobs=1, precomputed_knn=(indices, distances))
    with warnings.catch_warnings():
        # Silence its warning that it cannot place new points: none are placed.
        warnings.simplefilter("ignore", UserWarning)
        return layout.fit_transform(plane)
