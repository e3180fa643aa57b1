"""float16 as whole numbers of the same order: what compiled code can compare, since numba knows no float16 on a CPU."""

import numpy as np


def ranks(halves: np.ndarray) -> np.ndarray:
    """float16 values (no NaN) -> int32 of the same shape and order, 0 for both zeros."""
    bits = halves.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(2**15) - bits, bits)


def halves(ranks: np.ndarray) -> np.ndarray:
    """The inverse of `ranks`, float16."""
    return np.where(ranks < 0, -(2**15) - ranks, ranks).astype(np.int16).view(np.float16)


def lowest_rank_above(threshold: float) -> int:
    """The rank of the least float16 that exceeds `threshold` (a number from -1 to 1), which is not rounded."""
    nearest = np.float16(threshold)
    above = nearest if float(nearest) > threshold else np.nextafter(nearest, np.float16(2))
    return int(ranks(np.array([above]))[0])
