"""What happened at every token of a take, small enough to be kept with a result."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
STEPS = {"entropy": 0.2, "surprisal": 0.25, "sizes": 0.25, "places": 1.0}
"""The step of one digit: in nats for entropy and surprisal, in octaves (log2) for sizes."""
ACCEPTED, RELAXED, RESAMPLED = "a", "g", "r"


@dataclass(frozen=True)
class Trace:
    """A character for each token of a take, the end of speech left out.

    kinds: "a" accepted as SD would have accepted it, by the same coin; "g" accepted though SD would have rejected it by that
    coin (by a group, a tolerance, or block verification); "r" drawn in place of a rejected token; "b" the bonus token; "d"
    redrawn; "t" said by the target alone. sizes: of the tested token's group, or of the token's own where nothing was tested.
    places: in its round, from 1. entropy: of the target's probabilities at the temperature in use; surprisal: -log of the
    token's, at most 15.75 nats. These four are digits of base 64 (see `STEPS`). phones: the class of the phone that the token
    is heard in most (`pcg.groups.phones.CLASSES`) by its first letter, "?" where it is not known.
    """

    kinds: str
    sizes: str
    places: str
    entropy: str
    surprisal: str
    phones: str

    def nats(self, name: str) -> np.ndarray:
        """`entropy` or `surprisal` as numbers, `[T]`."""
        return STEPS[name] * _numbers(getattr(self, name))

    @property
    def group_sizes(self) -> np.ndarray:
        """`[T]`, to within a tenth."""
        return 2.0 ** (STEPS["sizes"] * _numbers(self.sizes))

    @property
    def tested(self) -> np.ndarray:
        """Where a drafted token was tested, `[T]` bool."""
        return np.array([kind in (ACCEPTED, RELAXED, RESAMPLED) for kind in self.kinds], bool)

    @property
    def depths(self) -> np.ndarray:
        """The place of each token in its round, from 1, `[T]`."""
        return _numbers(self.places).astype(int)


def digits(values: np.ndarray | Sequence[float], step: float) -> str:
    """`values` in whole steps, a digit each, held within what a digit can say."""
    places = np.clip(np.rint(np.asarray(values, float) / step), 0, len(DIGITS) - 1).astype(int)
    return "".join(DIGITS[place] for place in places)


def _numbers(digits: str) -> np.ndarray:
    return np.array([DIGITS.index(digit) for digit in digits], float)
