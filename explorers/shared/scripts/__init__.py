"""The larger scripts of the page, each in several files: gradio runs them joined, as the body of one function."""

import base64
from collections.abc import Sequence
from pathlib import Path

import numpy as np

_HERE = Path(__file__).parent
SHARED, DECK, PIECES, BARS, ONE_SOUND = (_HERE / f"{name}.js" for name in ("script", "deck", "pieces", "bars", "one_sound"))
"""What every script begins with; sounds on one clock; sounds in pieces; how tokens are drawn; one sound at a time."""


def joined(scripts: Sequence[Path]) -> str:
    """The text of `scripts`, of which the first is `SHARED`."""
    return "\n".join(script.read_text(encoding="utf-8") for script in scripts)


def packed(samples: np.ndarray) -> str:
    """Samples `[N]` from -1 to 1 as base64 of int16, lowest byte first."""
    return base64.b64encode((samples.clip(-1, 1) * 32767).astype("<i2").tobytes()).decode("ascii")
