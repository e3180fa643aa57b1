"""The take inside a WAV file, as another program would read it."""

from pathlib import Path

from pcg.saved_take import Stored


def read_stored(path: Path) -> Stored:
    """Read the ICMT comment of a WAV file; libsndfile reads none of more than 2 KB."""
    content = path.read_bytes()
    at = content.index(b"ICMT") + 4
    size = int.from_bytes(content[at : at + 4], "little")
    return Stored.from_json(content[at + 4 : at + 4 + size].rstrip(b"\0"))
