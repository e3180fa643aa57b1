"""A take while it is generated, as far as it is there. Knows nothing of gradio."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from explorers.shared.scripts import packed
from pcg.takes.take import Round, Sound
from pcg.text.pauses import without_pauses

NEWEST = 12
"""Pieces of sound that are sent: some six seconds. All of minutes, sent and copied for every piece, would hold the page up."""


@dataclass
class Live:
    """The take of `text` on card `key` as far as it has been generated. sounding: whether its sound is sent, too; ended:
    whether nothing more comes."""

    key: str
    method: str
    text: str
    sounding: bool = False
    ended: bool = False
    kinds: list[str] = field(default_factory=list)
    group_sizes: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def add(self, event: Round | Sound) -> bool:
        """Add an event; return whether a listener waits for it, as for the first sound."""
        if isinstance(event, Round):
            self.kinds += event.kinds
            self.group_sizes += event.group_sizes
            return False
        if self.sounding and len(event.samples):
            self.pieces.append(packed(event.samples))
        return self.sounding and len(self.pieces) == 1

    def catch_up(self, rounds: Sequence[Round]) -> None:
        """Have the tokens of these rounds, and no others."""
        self.kinds = [kind for each in rounds for kind in each.kinds]
        self.group_sizes = [size for each in rounds for size in each.group_sizes]

    def prop(self, number: int) -> dict[str, object]:
        """For the run `number`, runs being numbered upwards; `first` is the number of the first of its `pieces`.

        Its tokens are JSON text, kinds, sizes and then the words of the text: the page watches every field of a list, and would
        stand still over thousands of them.
        """
        tokens = json.dumps([self.kinds, self.group_sizes, without_pauses(self.text).split()])
        first = max(0, len(self.pieces) - NEWEST)
        sound = {"first": first, "pieces": self.pieces[first:]}
        return {
            "number": number,
            "key": self.key,
            "method": self.method,
            "tokens": tokens,
            "ended": self.ended,
            **sound,
        }
