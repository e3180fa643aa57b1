"""The height of a token's bar: the same scale in every strip."""

from math import log2
from pathlib import Path

STYLES = Path(__file__).with_name("ribbon.css")
LOWEST, TALLEST_GROUP = 0.4, 256


def height(group_size: int) -> float:
    """Share of the strip's height: equal steps for every doubling of the group."""
    return min(1.0, LOWEST + (1 - LOWEST) * log2(group_size) / log2(TALLEST_GROUP))
