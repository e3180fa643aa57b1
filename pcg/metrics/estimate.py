"""Figures with their 95 % intervals over utterances."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """`value`, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def resampled(columns: np.ndarray) -> np.ndarray:
    """Sum `columns [N, K]`, a row an utterance, over utterances drawn with replacement, `[RESAMPLES, K]`.

    The draws depend on the number of utterances alone. Any figure that is made of sums gets its interval from these; figures of
    the same utterances are resampled alike, so that their difference is a paired one.
    """
    if not len(columns):
        raise ValueError("an estimate needs at least one utterance")
    return _times_drawn(len(columns)) @ np.asarray(columns, dtype=float)


@lru_cache(maxsize=8)
def _times_drawn(count: int) -> np.ndarray:
    """Return how often each of `count` utterances is drawn, `[RESAMPLES, count]`."""
    drawn = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    places = drawn + count * np.arange(RESAMPLES)[:, None]
    return np.bincount(places.ravel(), minlength=RESAMPLES * count).reshape(RESAMPLES, count)


def bootstrap(numerators: Sequence[float], denominators: Sequence[float] | None = None) -> Estimate:
    """Return sum(numerators) / sum(denominators) with its percentile interval over utterances, or the mean of numerators."""
    above = np.asarray(numerators, dtype=float)
    below = np.ones_like(above) if denominators is None else np.asarray(denominators, dtype=float)
    draws = resampled(np.stack([above, below], 1))
    return between(above.sum() / below.sum(), draws[:, 0] / draws[:, 1])


def between(value: float, draws: np.ndarray) -> Estimate:
    """Return `value` with the percentile interval of its resampled `draws`; NaN is left out."""
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return Estimate(float(value), float(low), float(high))


def share(hits: int, n: int) -> Estimate:
    """Return hits / n with Wilson's interval, which is not empty at 0 and at n, as a bootstrap's is."""
    if n < 1:
        raise ValueError("a share needs at least one utterance")
    from scipy.stats import binomtest

    interval = binomtest(int(hits), n).proportion_ci(method="wilson")
    return Estimate(hits / n, float(interval.low), float(interval.high))
