"""The characters of the CTC head: blank is 0, then space, apostrophe and a..z."""

from collections.abc import Sequence
from itertools import groupby

BLANK = 0
CHARACTERS = " '" + "abcdefghijklmnopqrstuvwxyz"
CLASSES = 1 + len(CHARACTERS)
_IDS = {character: index for index, character in enumerate(CHARACTERS, start=1)}


def spell(text: str) -> list[int]:
    """Class of every character of `text`, which holds nothing but CHARACTERS."""
    return [_IDS[character] for character in text]


def read_path(path: Sequence[int]) -> str:
    """The text of an alignment path: repeats are merged, then blanks dropped (arXiv:2603.11243, section 2.1)."""
    merged = (label for label, _ in groupby(path))
    return " ".join("".join(CHARACTERS[label - 1] for label in merged if label != BLANK).split())
