"""Draws from probabilities by inverse CDF, compiled: many small steps of numpy or torch would outweigh the rule."""

import numpy as np
from torch import Tensor

from pcg.models.kernel.arithmetic import block_ends, draw_within


class Sampler:
    """Draws from the non-negative weights `probs [V]` (any positive sum): first a block by its sum, then a token within it.

    All weights are read once, here; a draw then reads one block and the V / 256 running sums. All sums are float64.
    """

    def __init__(self, probs: Tensor | np.ndarray) -> None:
        weights = as_array(probs)
        self._weights = np.ascontiguousarray(weights, None if weights.dtype in (np.float32, np.float64) else np.float64)
        self._ends = block_ends(self._weights)

    def draw(self, coin: float) -> int:
        """The token at `coin` in [0, 1). A weight of zero is never drawn."""
        return draw_within(self._weights, self._ends, coin)


def draw(probs: Tensor | np.ndarray, coin: float) -> int:
    """The index in the non-negative weights `probs [V]` (any positive sum) at `coin` in [0, 1).

    A weight of zero is never drawn, and the same weights with the same coin give the same index.
    """
    return Sampler(probs).draw(coin)


def as_array(probs: Tensor | np.ndarray) -> np.ndarray:
    """The same memory as an array; a copy only of what does not lie in the CPU's."""
    if isinstance(probs, np.ndarray):
        return probs
    return probs.numpy() if probs.is_cpu and not probs.requires_grad else probs.numpy(force=True)
