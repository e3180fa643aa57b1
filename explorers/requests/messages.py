"""What the server has to say to one visitor's page until the page collects it."""

import asyncio
import json
import zlib

from gradio.server_messages import EventMessage

AS_THEY_ARE = 4
FAST = 1


class Messages(asyncio.Queue[EventMessage]):
    """The messages of one session. Where more than `AS_THEY_ARE` wait, nobody listens, and the others are kept as compressed
    text: a take has dozens, of thousands of objects, and Gradio keeps those of 2,000 sessions for whoever comes late."""

    def _put(self, item: EventMessage) -> None:
        if self.qsize() < AS_THEY_ARE:
            super()._put(item)
        else:
            super()._put((type(item), zlib.compress(json.dumps(item.model_dump(), default=str).encode(), FAST)))

    def _get(self) -> EventMessage:
        item = super()._get()
        if isinstance(item, tuple):
            kind, text = item
            return kind.model_validate_json(zlib.decompress(text))
        return item
