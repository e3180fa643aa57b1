"""What the links to the steps of a take's rounds hold of the take itself. Knows nothing of gradio."""

from collections.abc import Collection

from explorers.session import ShownTake
from explorers.settings.actions import LINKED
from pcg.takes.link import pack
from pcg.takes.stored import Origin, Stored

FIRST = "pcg"
"""The method of the recorded take that every new page shows: a link needs not say which it is."""


def link_prop(shown: ShownTake, origin: Origin, voices: Collection[str]) -> dict[str, object]:
    """More of the strip's prop `run`. link: what stands before the round in a link; "" where every new page shows that take,
    None where no link holds it: a recording was its voice, or it was made with beams. recorded: whether it is a take of the
    shipped example."""
    reading, recorded = shown.reading, shown.baseline == "recorded"
    if recorded and reading.method == FIRST:
        return {"link": "", "recorded": True}
    if reading.voice not in voices or reading.settings.hierarchical:
        return {"link": None, "recorded": recorded}
    stored = Stored(reading.text, reading.voice, reading.settings, origin, streamed=shown.streamed)
    return {"link": f"{LINKED}={pack(stored)}", "recorded": recorded}
