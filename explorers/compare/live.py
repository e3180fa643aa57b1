"""A take while it is generated, as far as it is there. Knows nothing of gradio."""

import json
from dataclasses import dataclass, field

from explorers.shared.scripts import packed
from pcg.takes.take import Round, Sound


@dataclass
class Live:
    """The take of `text` on card `key` as far as it has been generated. sounding: whether its sound is sent, too."""

    key: str
    method: str
    text: str
    sounding: bool = False
    kinds: list[str] = field(default_factory=list)
    group_sizes: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def add(self, event: Round | Sound) -> bool:
        """Add an event; return whether a listener waits for it."""
        if isinstance(event, Round):
            self.kinds += event.kinds
            self.group_sizes += event.group_sizes
            return False
        if self.sounding:
            self.pieces.append(packed(event.samples))
        return self.sounding

    def prop(self, number: int) -> dict[str, object]:
        """For the run `number`, runs being numbered upwards. Its tokens are JSON text, kinds and then sizes: the page
        watches every field of a list, and would stand still over thousands of them."""
        tokens = json.dumps([self.kinds, self.group_sizes])
        return {"number": number, "key": self.key, "method": self.method, "words": self.text.split(), "tokens": tokens, "pieces": list(self.pieces)}
