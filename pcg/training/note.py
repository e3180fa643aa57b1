"""What a run was asked for, noted beside its work, so that another run does not go on from it unawares."""

import json
from collections.abc import Mapping
from pathlib import Path

from pcg.files import write_json


def agrees(note: Path, asked: Mapping[str, object]) -> bool:
    """Whether `note` says `asked` (plain JSON); where there is no note yet, it is written."""
    if not note.exists():
        write_json(note, asked)
        return True
    try:
        return json.loads(note.read_text(encoding="utf-8")) == json.loads(json.dumps(asked))
    except (OSError, ValueError):
        return False
