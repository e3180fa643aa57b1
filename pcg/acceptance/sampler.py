"""Draws from probabilities by inverse CDF, on numpy: torch's overhead a call would outweigh the small steps."""

import numpy as np
from torch import Tensor

BLOCK = 256


class Sampler:
    """Draws from the non-negative weights `probs [V]` (any positive sum): first a block by its sum, then a token within it.

    All weights are read once, here; a draw then reads one block and the V / 256 running sums. All sums are float64.
    """

    def __init__(self, probs: Tensor | np.ndarray) -> None:
        self._weights = as_array(probs).astype(np.float64, copy=False)
        self._ends = np.add.reduceat(self._weights, np.arange(0, len(self._weights), BLOCK)).cumsum()

    def draw(self, coin: float) -> int:
        """The token at `coin` in [0, 1). A weight of zero is never drawn."""
        target = coin * self._ends[-1]
        block = _place(self._ends, target)
        start, before = block * BLOCK, self._ends[block - 1] if block else 0.0
        return start + _place(self._weights[start : start + BLOCK].cumsum(), target - before)


def draw(probs: Tensor | np.ndarray, coin: float) -> int:
    """The index in the non-negative weights `probs [V]` (any positive sum) at `coin` in [0, 1).

    A weight of zero is never drawn, and the same weights with the same coin give the same index.
    """
    return Sampler(probs).draw(coin)


def as_array(probs: Tensor | np.ndarray) -> np.ndarray:
    """The same memory as an array; a copy only of what does not lie in the CPU's."""
    return probs.numpy(force=True) if isinstance(probs, Tensor) else probs


def _place(ends: np.ndarray, target: float) -> int:
    """The first index at which the running sum `ends` exceeds `target`; where rounding leaves none, the last that grew it."""
    return min(int(ends.searchsorted(target, side="right")), int(ends.searchsorted(ends[-1])))
