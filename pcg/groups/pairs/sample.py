"""What a few rows say about all: how many pairs a threshold leaves, before anything is searched."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcg.groups.pairs.search import unit_vectors

ROWS = 256


@dataclass(frozen=True, eq=False)
class CosineSample:
    """Cosines `[S * (n - 1)]` float32, ascending: of some of the n comparable codes with all the others."""

    cosines: np.ndarray
    codes: int

    @classmethod
    def of(cls, features: Tensor, eligible: Tensor | None = None) -> "CosineSample":
        """Compare at most ROWS rows of `features [codes, D]`, always the same ones; otherwise as `build_neighbours`."""
        _, unit = unit_vectors(features, eligible)
        codes = len(unit)
        rows = torch.randperm(codes, generator=torch.Generator().manual_seed(0))[:ROWS]
        every = torch.from_numpy(unit)
        cosines = every[rows] @ every.T
        cosines[torch.arange(len(rows)), rows] = torch.inf
        flat = cosines.flatten().sort().values
        return cls(flat[: flat.numel() - len(rows)].numpy(), codes)

    def pairs_above(self, theta: float) -> float:
        """About how many pairs of different codes have a cosine above `theta`."""
        above = len(self.cosines) - np.searchsorted(self.cosines, theta, side="right")
        return self._all_pairs * above / max(1, len(self.cosines))

    def theta_leaving(self, pairs: float) -> float:
        """The threshold that about `pairs` pairs exceed, rounded as similarities are; -1 if there are not so many. Where many
        cosines are equal, fewer pairs exceed it rather than more."""
        place = len(self.cosines) - 1 - int(pairs / max(1.0, self._all_pairs) * len(self.cosines))
        return float(np.float16(self.cosines[place])) if 0 <= place < len(self.cosines) else -1.0

    @property
    def _all_pairs(self) -> float:
        return self.codes * (self.codes - 1) / 2
