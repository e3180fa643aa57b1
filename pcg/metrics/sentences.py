"""The sentences that voices are judged on. They were written for this project, and no corpus may train on them."""

from pathlib import Path

from pcg.errors import AssetError, InputError
from pcg.files.checksums import check_checksums
from pcg.places import ASSETS

SENTENCES = ASSETS / "evaluation" / "sentences.txt"
# The figures of a voice are measured on these; sections that experiments alone read were added behind them.
SECTIONS = ("everyday", "balanced", "rare")


def read_sentences(*sections: str, path: Path = SENTENCES) -> list[str]:
    """The sentences of `sections`, in the order asked for; those of `SECTIONS` where none is named."""
    check_checksums(path)
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise AssetError(f"The evaluation sentences in {path} are missing or damaged ({error}).") from error
    found: dict[str, list[str]] = {}
    for line in filter(None, lines):
        if line.startswith("#"):
            current = found.setdefault(line.lstrip("# "), [])
        else:
            current.append(line)
    wanted = sections or SECTIONS
    for section in wanted:
        if section not in found:
            raise InputError("section", section, "one of " + ", ".join(found))
    return [sentence for section in wanted for sentence in found[section]]
