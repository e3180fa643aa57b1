"""Middleware that limits what a request may bring, before anything reads it: bodies by their size, uploads also by what the
visitor sent in the last hour and by the room on the disk."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pcg.serving.guard import current_visitor
from pcg.serving.limits import Limits
from pcg.serving.uploads import Refused, Uploads

CHUNK = 1 << 16


class Bodies:
    """ASGI middleware. A POST to `upload_path` is an upload: it is kept aside until all of it has come, so that one that is cut
    off leaves nothing behind; then it goes on, one at a time. Everything else has at most `limits.body` bytes.

    folder: tells where the uploads end up.
    """

    def __init__(self, app: ASGIApp, limits: Limits, upload_path: str, folder: Callable[[], Path]) -> None:
        self.app, self._limits, self._upload_path, self._folder = app, limits, upload_path, folder
        self._uploads = Uploads(limits)
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
        elif scope["path"] == self._upload_path:
            await self._upload(scope, receive, send)
        else:
            await self.app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limits.body:
                raise HTTPException(413, f"A request must have at most {self._limits.body:,} bytes.")
            return message

        return counted

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        folder = self._folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread(self._uploads.check_room, folder)
            with TemporaryFile(dir=folder) as body:
                async with asyncio.timeout(self._limits.upload_seconds):
                    if not await self._keep_aside(receive, body):
                        return
                async with self._one_at_a_time:
                    try:
                        await self.app(scope, _replayed(body, receive), send)
                    finally:
                        self._uploads.remove_leftovers(folder)
        except Refused as refused:
            await PlainTextResponse(str(refused), refused.status)(scope, receive, send)
        except TimeoutError:
            sentence = f"The upload took longer than {self._limits.upload_seconds:g} s."
            await PlainTextResponse(sentence, 408)(scope, receive, send)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            await PlainTextResponse("The disk of this server is full: nothing was kept.", 507)(scope, receive, send)

    async def _keep_aside(self, receive: Receive, body: IO[bytes]) -> bool:
        """Write the request's body to `body`; return whether all of it came."""
        visitor, size = current_visitor(), 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._limits.upload:
                raise Refused(413, f"An upload must have at most {self._limits.upload >> 20} MB.")
            self._uploads.charge(visitor, len(chunk))
            body.write(chunk)
            if not message.get("more_body", False):
                body.seek(0)
                return True


def _replayed(body: IO[bytes], receive: Receive) -> Receive:
    """The body once more, then whatever still comes from the visitor."""
    ended = False

    async def replayed() -> Message:
        nonlocal ended
        if ended:
            return await receive()
        chunk = body.read(CHUNK)
        ended = len(chunk) < CHUNK
        return {"type": "http.request", "body": chunk, "more_body": not ended}

    return replayed
