"""The ASGI middleware in front of the page: host names, open paths, sizes of bodies, requests of one address in a minute."""

import os
import re
import socket
from collections import OrderedDict, deque
from pathlib import Path
from time import monotonic

from gradio.route_utils import FnIndexInferError
from gradio.utils import get_upload_folder
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explorers.errors import fault
from pcg.serving.protection import LIMITS, NOWHERE, Bodies, Guard, Limits, current_visitor

# What the page and Gradio's clients request. Gradio's other endpoints serve developers.
OPEN_PATHS = re.compile(
    r"/|/(?:config|assets/.*|static/.*|svelte/.*|theme\.css|favicon\.ico|robots\.txt|manifest\.json|pwa_icon(?:/\d+)?)/?"
    r"|/gradio_api/(?:info|openapi\.json|app_id|startup-events|heartbeat/\w+|upload|upload_progress|queue/(?:join|data)"
    r"|call/(?!v2/)[\w-]+(?:/\w+)?|run/predict|cancel|reset|file=.*|stream/.*|custom_component/.*|mcp(?:/.*)?)/?"
    r"|/monitoring/summary"
)
UPLOAD_PATH = "/gradio_api/upload"
SPACES = ("*.hf.space", "huggingface.co")
SHARED = "*.gradio.live"
ADDRESSES = 4096
PREVIEW = (
    (b'content="Gradio"', b'content="PCG Lab"'),
    (b'content="Click to try out the app!"', b'content="Speech comes faster when a model accepts sound-alikes."'),
)


def app_options(hosts: tuple[str, ...] = (), limits: Limits = LIMITS) -> dict[str, object]:
    """The options of the web framework. hosts: names of this server beside those of the computer."""
    on_space = "SPACE_ID" in os.environ
    names = (*hosts, socket.gethostname().lower(), SHARED, *(SPACES if on_space else ()))
    frames = [f"https://{name}" for name in SPACES] if on_space else []
    return {
        "middleware": [
            Middleware(Guard, hosts=names, paths=OPEN_PATHS, frames=frames, unexpected=lambda error: str(fault(error))),
            Middleware(Rate, most=limits.posts_each_minute),
            Middleware(ApiPage),
            Middleware(Preview),
            Middleware(Bodies, limits=limits, upload_path=UPLOAD_PATH, folder=lambda: Path(get_upload_folder())),
        ],
        # Gradio looks endpoints up by number outside of its handlers.
        "exception_handlers": dict.fromkeys((KeyError, FnIndexInferError), _nowhere),
    }


class Rate:
    """ASGI middleware: refuse an address that sends more than `most` POST requests in a minute."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self._most = app, most
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and not self._allows(current_visitor()):
            sentence = f"This address sent more than {self._most} requests in a minute: wait a little."
            await JSONResponse({"detail": sentence, "error": sentence}, 429)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _allows(self, visitor: str) -> bool:
        now, times = monotonic(), self._times.setdefault(visitor, deque(maxlen=self._most))
        self._times.move_to_end(visitor)
        if len(self._times) > ADDRESSES:
            self._times.popitem(last=False)
        if len(times) == self._most and now - times[0] < 60:
            return False
        times.append(now)
        return True


class ApiPage:
    """ASGI middleware: answer what Gradio's page on the API requests and this server lacks, as a browser logs every 404."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, answer = scope["path"] if scope["type"] == "http" else "", self.app
        if path == "/monitoring/summary":
            answer = JSONResponse({"functions": {}})
        elif path == "/gradio_api/mcp/schema" and not scope["app"].get_blocks().mcp_server:
            # After any 2xx the page says that MCP is on.
            answer = JSONResponse([], 300)
        await answer(scope, receive, send)


class Preview:
    """ASGI middleware: the title and the description that other sites show of a link to the page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        start: dict[str, object] = {}
        body = b""

        async def rewritten(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if not message.get("more_body", False):
                for old, new in PREVIEW:
                    body = body.replace(old, new)
                MutableHeaders(scope=start)["content-length"] = str(len(body))
                await send(start)
                await send({"type": "http.response.body", "body": body})

        await self.app(scope, receive, rewritten)


async def _nowhere(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": NOWHERE}, status_code=404)
