"""The intra-group swap stress test (PCG section 4, Table 2): may the members of a group really stand for each other?"""

from dataclasses import dataclass

from pcg.errors import InputError
from pcg.settings import RANGES, SIMILARITIES

REPLACEMENTS = ("group", "random")


@dataclass(frozen=True)
class Swap:
    """What is done to a finished utterance: a `fraction` of the tokens with company in their group at `theta` are replaced.

    replacement: "group", by another member, or "random", at the same places by any other code of the corpus (a control).
    """

    theta: float
    similarity: str = "cosine"
    replacement: str = "group"
    fraction: float = 1.0

    def __post_init__(self) -> None:
        RANGES["theta"].check("theta", self.theta)
        if self.similarity not in SIMILARITIES:
            raise InputError("similarity", self.similarity, "one of " + ", ".join(SIMILARITIES))
        if self.replacement not in REPLACEMENTS:
            raise InputError("replacement", self.replacement, "one of " + ", ".join(REPLACEMENTS))
        if isinstance(self.fraction, bool) or not isinstance(self.fraction, int | float) or not 0 <= self.fraction <= 1:
            raise InputError("fraction", self.fraction, "a number from 0 to 1")
