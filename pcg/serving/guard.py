"""The outermost middleware: who may ask, by which name, for what; and headers that keep a browser on this server."""

import re
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NOWHERE = "There is no such endpoint."
STOPPING = "This server stops: ask again a little later."
# What runs on this page comes from this server. Gradio builds its handlers with `new Function`, and styles inline.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; connect-src 'self' data: blob:; font-src 'self' data:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors "
)
_visitor: ContextVar[str] = ContextVar("visitor", default="")


def current_visitor() -> str:
    """The address of who sent the request that is being answered; "" outside of one."""
    return _visitor.get()


def _as_detail(sentence: str, status: int) -> Response:
    return JSONResponse({"detail": sentence}, status)


class Guard:
    """ASGI middleware.

    hosts: the names that this server answers to, beside those of the computer itself and plain addresses: any other name may
    lead here by a trick of somebody's name server. A first label of "*" stands for any. paths: what is open, as a pattern of
    the whole path. frames: pages elsewhere that may show this one in a frame. unexpected: told of an exception that no handler
    caught; answers with the sentence for the visitor. answer: the response that tells a sentence, given its status.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Sequence[str],
        paths: re.Pattern[str],
        frames: Sequence[str],
        unexpected: Callable[[Exception], str],
        answer: Callable[[str, int], Response] = _as_detail,
    ) -> None:
        self.app, self._hosts, self._paths, self._unexpected = app, hosts, paths, unexpected
        self._answer = answer
        self._policy = POLICY + " ".join(["'self'", *frames])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                headers["content-security-policy"] = self._policy
                headers["x-content-type-options"] = "nosniff"
                headers["referrer-policy"] = "same-origin"
            await send(message)

        token = _visitor.set(scope["client"][0] if scope.get("client") else "")
        try:
            answer = self._refusal(scope) or self.app
            await answer(scope, receive, with_headers)
        except Exception as error:
            sentence = self._unexpected(error)
            if not begun:  # what has begun breaks off: an end would make it look whole
                await self._answer(sentence, 500)(scope, receive, with_headers)
        except CancelledError:  # the server stops, and ends the task itself; raised, it would print a traceback
            if not begun:
                await self._answer(STOPPING, 503)(scope, receive, with_headers)
        finally:
            _visitor.reset(token)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._answers_to(_name(host)):
            return self._answer(f"This server does not answer to the name {_name(host)[:80]!r}.", 421)
        if not self._paths.fullmatch(scope["path"]):
            return self._answer(NOWHERE, 404)
        origin = headers.get("origin")
        own = {f"{scheme}://{name}" for scheme in ("http", "https") for name in (host, headers.get("x-forwarded-host", host))}
        if scope["method"] not in ("GET", "HEAD") and origin is not None and origin not in own:
            return self._answer("This server takes no requests from pages of other servers.", 403)
        return None

    def _answers_to(self, name: str) -> bool:
        if name == "localhost" or name.endswith(".localhost") or _is_address(name):
            return True
        return any(name == host or (host.startswith("*.") and name.endswith(host[1:])) for host in self._hosts)


def _name(host: str) -> str:
    """The host of "host:port", in lower case; [::1] without its brackets; "" of what is no host."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
