"""Pauses that are written into a text: `[pause:1]` is one second of silence."""

import re
from collections.abc import Iterator

from pcg.errors import InputError

SECONDS = (0.2, 5.0)
MOST = 20
ALLOWED = "[pause:0.2] to [pause:5], in seconds"

_MARK = re.compile(r"\[pause:(\d{1,3}(?:\.\d{1,6})?)\]", re.ASCII)
# Whoever writes this means a pause, and must not hear the word instead.
_ALIKE = re.compile(r"\[\s*pause\s*(?:\]|:[^\[\]]*\]?)", re.IGNORECASE)


def check_pauses(text: str) -> None:
    """Raise InputError for more than `MOST` pauses, or for what is written like a pause but is none of 0.2 to 5 seconds."""
    found = [mark[0] for mark in _ALIKE.finditer(text)]
    for mark in found:
        known = _MARK.fullmatch(mark)
        if not known or not SECONDS[0] <= float(known[1]) <= SECONDS[1]:
            raise InputError("pause", mark[:40], ALLOWED)
    if len(found) > MOST:
        raise InputError("text", f"one of {len(found)} pauses", f"one of at most {MOST}")


def without_pauses(text: str) -> str:
    """The words alone."""
    return _MARK.sub(" ", text)


def at_pauses(text: str) -> Iterator[str | float]:
    """The parts of a checked `text` between its pauses, blank ones left out, and the pauses in seconds, in their order."""
    words_and_seconds = _MARK.split(text)
    for place, part in enumerate(words_and_seconds):
        if place % 2:
            yield float(part)
        elif part.strip():
            yield part.strip()
