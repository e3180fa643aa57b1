"""The larger scripts of the page, each in several files: gradio runs them joined, as the body of one function."""

from collections.abc import Sequence
from pathlib import Path

SHARED = Path(__file__).with_name("script.js")


def joined(scripts: Sequence[Path]) -> str:
    """The text of `scripts`, of which the first is `SHARED`."""
    return "\n".join(script.read_text(encoding="utf-8") for script in scripts)
