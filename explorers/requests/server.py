"""What `launch` hands on to the web server's framework: the doors of this page, and what is kept of whoever comes in."""

import asyncio
import ctypes
import os
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gradio.queueing import Queue
from gradio.route_utils import FnIndexInferError
from gradio.routes import App
from gradio.utils import get_upload_folder
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from explorers.errors import fault
from explorers.requests.sessions import LostSession, Sessions
from pcg.serving.bodies import Bodies
from pcg.serving.guard import NOWHERE, Guard
from pcg.serving.limits import LIMITS, Limits

# What the page and the clients of Gradio ask for; its other endpoints are made for developers.
OPEN_PATHS = re.compile(
    r"/|/(?:config|assets/.*|static/.*|svelte/.*|theme\.css|favicon\.ico|robots\.txt|manifest\.json|pwa_icon(?:/\d+)?)/?"
    r"|/gradio_api/(?:info|openapi\.json|app_id|startup-events|heartbeat/\w+|upload|upload_progress|queue/(?:join|data)"
    r"|call/(?!v2/)[\w-]+(?:/\w+)?|run/predict|cancel|reset|file=.*|stream/.*|custom_component/.*|mcp(?:/.*)?)/?"
    r"|/monitoring/summary"
)
UPLOAD_PATH = "/gradio_api/upload"
SPACES = ("*.hf.space", "huggingface.co")
SHARED = "*.gradio.live"
TRIM_SECONDS = 30.0
M_ARENA_MAX, ARENAS = -8, 2
"""The most heaps: the name that malloc.h of glibc has for it, and ours. Its own, eight a core, keep much that nobody uses."""


def app_options(hosts: tuple[str, ...] = (), limits: Limits = LIMITS) -> dict[str, object]:
    """hosts: names of this server beside those of the computer."""
    on_space = "SPACE_ID" in os.environ
    names = (*hosts, socket.gethostname().lower(), SHARED, *(SPACES if on_space else ()))
    frames = [f"https://{each}" for each in SPACES] if on_space else []
    return {
        "middleware": [
            Middleware(Guard, hosts=names, paths=OPEN_PATHS, frames=frames, unexpected=lambda error: str(fault(error))),
            Middleware(ApiPage),
            Middleware(Bodies, limits=limits, upload_path=UPLOAD_PATH, folder=lambda: Path(get_upload_folder())),
        ],
        "exception_handlers": {**dict.fromkeys((KeyError, FnIndexInferError), _nowhere), LostSession: _lost},
        "lifespan": _with_sessions(limits),
    }


class ApiPage:
    """ASGI middleware: answers what Gradio's page on the API asks for and this server does not have, as a browser reports every
    404 as an error. That is how often each endpoint was called, and the tools of an MCP server that is off."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked, answer = scope["path"] if scope["type"] == "http" else "", self.app
        if asked == "/monitoring/summary":
            answer = JSONResponse({"functions": {}})
        elif asked == "/gradio_api/mcp/schema" and not scope["app"].get_blocks().mcp_server:
            # After any 2xx the page says that MCP is on; 300, a choice of none, is no success and no error.
            answer = JSONResponse([], 300)
        await answer(scope, receive, send)


def _with_sessions(limits: Limits) -> object:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        app.state_holder = Sessions(app.get_blocks(), limits)
        trimming = asyncio.create_task(_spare_memory(app.get_blocks()._queue))
        yield
        trimming.cancel()

    return lifespan


async def _spare_memory(queue: Queue) -> None:
    """Let all threads share a few heaps of glibc, and return what takes have used and freed to the system while no job runs:
    glibc would keep it, a tenth of the process."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(library, "malloc_trim"):
        return
    library.mallopt(M_ARENA_MAX, ARENAS)
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        if not any(queue.active_jobs):
            await asyncio.to_thread(library.malloc_trim, 0)


async def _nowhere(request: Request, error: Exception) -> JSONResponse:
    """Outside of the handlers, Gradio looks up by number what a request asks for."""
    return JSONResponse({"detail": NOWHERE}, status_code=404)


async def _lost(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error), "error": str(error)}, status_code=409)
