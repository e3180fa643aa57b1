"""What went wrong, in one sentence that names the field, the value and the allowed range."""


class PCGError(Exception):
    """A failure that a user can act on; the command line prints it and exits with 2, the page shows it."""


class InputError(PCGError):
    """A value outside what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field} is {value!r}, but must be {allowed}.")
        self.field = field


class AssetError(PCGError):
    """A file of a model or a voice is missing, damaged or of another kind."""
