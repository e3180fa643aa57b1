"""What went wrong, in one sentence that names the field, the value and the allowed range."""

LONGEST_QUOTE = 80


class PCGError(Exception):
    """A failure that a user can act on; the command line prints it and exits with 2, the page shows it."""


class InputError(PCGError):
    """A value outside what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field} is {_quoted(value)}, but must be {allowed}.")
        self.field = field


class AssetError(PCGError):
    """A file of a model or a voice is missing, damaged or of another kind."""


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160].rstrip(".")


def _quoted(value: object) -> str:
    """A value as one sentence can hold it; Python refuses to write out an integer of thousands of digits."""
    huge = isinstance(value, int) and value.bit_length() > 64
    quoted = repr("a huge number" if huge else value)
    return quoted if len(quoted) <= LONGEST_QUOTE else f"{quoted[:LONGEST_QUOTE]}…"
