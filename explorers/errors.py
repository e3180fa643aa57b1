"""Errors on the page: one sentence that says what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSPC
from html import escape

import gradio as gr

from pcg.errors import InputError, PCGError, unexpected

TOLD_SECONDS = 30
PLAIN = (
    ("must be some English text", "Type an English text first."),
    ("must be English: letters", "I can only read English letters and digits."),
    ("phonemes when spoken', but", "This text is too long to speak: shorten it."),
    ("characters', but must be 1 to", "This text is too long: at most 5,000 characters can be spoken."),
    ("at least one English word", "I found no word to speak: type an English word."),
    ("must be free of control characters", "The text has invisible control characters: delete them, and try again."),
    ("of speech, but must be", "This recording has too little or too much speech: bring a few seconds of one speaker."),
)
"""A part of a sentence of the command line, and what a visitor reads instead."""


def plain(error: PCGError) -> str:
    """Return the sentence of `error` for a visitor, who knows the value that was sent."""
    sentence = str(error)
    told = next((told for part, told in PLAIN if part in sentence), None)
    if told or not (bound := re.fullmatch(r"(\w[\w ]*?) is .*, but must be (.+)", sentence, re.DOTALL)):
        return told or sentence
    field = bound[1].replace("_", " ")
    return f"{field[0].upper()}{field[1:]} must be {bound[2]}"


def page_error(error: PCGError) -> gr.Error:
    """Return the sentence for the page, escaped, as the page would run HTML."""
    return gr.Error(escape(plain(error), quote=False), duration=TOLD_SECONDS, print_exception=False)


@contextmanager
def showing_errors() -> Iterator[None]:
    """Show a PCGError of a handler on the page; anything else is a fault and passes."""
    try:
        yield
    except PCGError as error:
        raise page_error(error) from error


def check_whole(field: str, value: object, low: int, high: int) -> int:
    """Return `value` as a whole number from `low` to `high`; raise InputError for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or value != int(value):
        raise InputError(field, value, f"a whole number from {low} to {high}")
    return int(value)


def fault(error: Exception) -> PCGError:
    """Return the sentence for an unexpected error, which goes into the log."""
    if isinstance(error, PCGError):
        return error
    if isinstance(error, OSError) and error.errno == ENOSPC:
        return PCGError("The disk of this server is full: nothing was kept.")
    return unexpected(error)
