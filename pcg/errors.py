"""What went wrong, in one sentence that names the field, the value and the allowed range; the log of unexpected errors."""

import os
import secrets
import traceback
from datetime import UTC, datetime

from pcg.places import CACHE

LONGEST_QUOTE = 80
LOG = CACHE / "errors.log"
LARGEST_LOG, LARGEST_ENTRY = 500_000, 50_000
"""Bytes. Beyond the former a log is begun, and the one before it is kept, too."""


class PCGError(Exception):
    """A failure that a user can act on; the command line prints it and exits with 2, the page shows it."""


class InputError(PCGError):
    """A value outside what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        # An empty list and blanks were left out; Python refuses to write out an integer of thousands of digits.
        empty = (isinstance(value, list) and not value) or (isinstance(value, str) and not value.strip())
        huge = isinstance(value, int) and value.bit_length() > 64
        quoted = "missing" if value is None or empty else repr("a huge number" if huge else value)
        if len(quoted) > LONGEST_QUOTE:
            quoted = f"{quoted[:LONGEST_QUOTE]}…"
        super().__init__(f"{field} is {quoted}, but must be {allowed}.")
        self.field = field

    def __reduce__(self) -> tuple[object, ...]:
        """Between processes it goes as what it says: the value may be anything."""
        return _input_error, (str(self), self.field)


def _input_error(message: str, field: str) -> InputError:
    error = InputError.__new__(InputError, message)
    error.field = field
    return error


class AssetError(PCGError):
    """A file of a model or a voice is missing, damaged or of another kind."""


def unexpected(error: BaseException) -> PCGError:
    """Note an unexpected error in `LOG`, with its traceback, and return what a user is told: its kind and its reference there,
    eight hexadecimal digits, or its first line where the log cannot be written."""
    kind, reference, moment = type(error).__name__, secrets.token_hex(4), datetime.now(UTC).isoformat(timespec="seconds")
    told = "".join(traceback.format_exception(error)).encode(errors="backslashreplace")[-LARGEST_ENTRY:]
    try:
        LOG.parent.mkdir(parents=True, exist_ok=True)
        if LOG.is_file() and LOG.stat().st_size + len(told) > LARGEST_LOG:
            os.replace(LOG, LOG.with_suffix(".old.log"))
        with LOG.open("ab") as log:
            log.write(f"{reference} {moment}\n".encode() + told + b"\n")
    except OSError:
        return PCGError(f"Unexpected {kind}: {first_line(error)}.")
    return PCGError(f"Unexpected {kind}; see reference {reference} in {LOG.parent.name}/{LOG.name}.")


def counted(number: int, noun: str) -> str:
    """Return a count before its noun, which takes an s unless there is one: "1 token", "0 tokens", "1,024 tokens"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160].rstrip(".")
