"""Words that depend on numbers."""


def counted(number: int, noun: str) -> str:
    """A count before its noun, which takes an s unless there is one: "1 token", "0 tokens", "1,024 tokens"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
