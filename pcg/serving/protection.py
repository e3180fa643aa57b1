"""Limits for visitors of a server, and the ASGI middleware that enforces them. `SECURITY.md` promises these figures."""

import asyncio
import atexit
import errno
import logging
import re
import shutil
import tempfile
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from getpass import getuser
from ipaddress import ip_address
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile
from time import monotonic, time
from urllib.parse import urlsplit

from filelock import FileLock, Timeout
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    body: int = 1 << 20  # of a request
    body_seconds: float = 30.0  # until the body of a request has come
    upload: int = 20 << 20  # of an upload, all its parts together
    upload_seconds: float = 120.0  # until an upload has come
    uploads_each_hour: int = 200 << 20  # of one visitor
    kept: int = 2 << 30  # of all uploads and takes on the disk
    free: int = 500 << 20  # that stay free on the disk
    keep_seconds: float = 6 * 3600.0  # how long an upload or a take stays
    job_seconds: float = 300.0  # that a job may hold the decoder
    posts_each_minute: int = 1200  # of one address: a class behind one address is one visitor
    waiting: int = 64  # takes that wait for a row of the batch
    stop_seconds: int = 5  # for open answers of the speech endpoint when it stops
    voices: int = 100  # that clients of the speech endpoint have recorded
    sessions: int = 2048  # that are kept; the one that was used longest ago goes first


LIMITS = Limits()


NOWHERE = "There is no such endpoint."
STOPPING = "This server stops: ask again a little later."
# What runs on this page comes from this server. Gradio builds its handlers with `new Function`, and styles inline.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; connect-src 'self' data: blob:; font-src 'self' data:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors "
)
EVERY_PATH = re.compile(".*")
_visitor: ContextVar[str] = ContextVar("visitor", default="")


def current_visitor() -> str:
    """Return the address that the request came from which is being answered; "" outside of one."""
    return _visitor.get()


Answer = Callable[[str, int, Mapping[str, str] | None], Response]
"""Makes a response from a sentence, its status and further headers."""


def _as_detail(sentence: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"detail": sentence}, status, headers)


def _as_text(sentence: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return PlainTextResponse(sentence, status, headers)


def _tells_more(record: logging.LogRecord) -> bool:
    """False for uvicorn's message that an answer broke off, which is meant where the server stops."""
    return "without completing response" not in record.getMessage()


class Guard:
    """ASGI middleware.

    Args:
        hosts: the names that this server answers to, beside those of the computer itself and plain addresses; any other name
            may lead here by DNS rebinding. A first label of "*" stands for any.
        unexpected: called with an exception that no handler caught; returns the sentence for the visitor.
        paths: a pattern of the whole path; other paths do not exist.
        frames: pages elsewhere that may show this one in a frame.
        origins: of other servers' pages that may post; "*" for any.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Sequence[str],
        unexpected: Callable[[Exception], str],
        paths: re.Pattern[str] = EVERY_PATH,
        frames: Sequence[str] = (),
        answer: Answer = _as_detail,
        origins: Sequence[str] = (),
    ) -> None:
        self.app, self._hosts, self._paths, self._unexpected = app, hosts, paths, unexpected
        self._answer, self._origins = answer, origins
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
                await self._answer(sentence, 500, None)(scope, receive, with_headers)
        except CancelledError:  # the server stops, and ends the task itself; raised, it would print a traceback
            logging.getLogger("uvicorn.error").addFilter(_tells_more)
            if not begun:
                await self._answer(STOPPING, 503, {"retry-after": "5"})(scope, receive, with_headers)
        finally:
            _visitor.reset(token)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        try:
            name = urlsplit(f"//{host}").hostname or ""  # in lower case, [::1] without its brackets
        except ValueError:
            name = ""
        if not self._answers_to(name):
            return self._answer(f"This server does not answer to the name {name[:80]!r}.", 421, None)
        if not self._paths.fullmatch(scope["path"]):
            return self._answer(NOWHERE, 404, None)
        own = {f"{scheme}://{name}" for scheme in ("http", "https") for name in (host, headers.get("x-forwarded-host", host))}
        allowed = origin is None or origin in own or not {origin, "*"}.isdisjoint(self._origins)
        if scope["method"] not in ("GET", "HEAD") and not allowed:
            return self._answer("This server takes no requests from pages of other servers.", 403, None)
        return None

    def _answers_to(self, name: str) -> bool:
        with suppress(ValueError):
            return bool(ip_address(name))
        own = ("localhost", "*.localhost", *self._hosts)
        return any(name == host or (host.startswith("*.") and name.endswith(host[1:])) for host in own)


HOUR = 3600.0
# Gradio writes each part of a form to such a file, and leaves those that no field of its own holds.
LEFTOVERS = "tmp*"


def limited(receive: Receive, most: int, seconds: float, sentence: str) -> Receive:
    """Return `receive` for a body of at most `most` bytes within `seconds`; `sentence` is what a larger one is told."""
    size, ended, deadline = 0, False, asyncio.get_running_loop().time() + seconds

    async def checked() -> Message:
        nonlocal size, ended
        if ended:
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as error:
            raise HTTPException(408, f"The body took longer than {seconds:g} s.") from error
        size += len(message.get("body", b""))
        ended = not message.get("more_body", False)
        if size > most:
            raise HTTPException(413, sentence)
        return message

    return checked


class Bodies:
    """ASGI middleware: a body has at most `limits.body` bytes, and comes within `limits.body_seconds`.

    A POST to `upload_path` is an upload, with limits of its own: it is kept aside until all of it has come, so that one that is
    cut off leaves nothing behind; then it goes on, one at a time. folder: returns the place of uploads. answer: makes the
    response to an upload that is refused.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        upload_path: str | None = None,
        folder: Callable[[], Path] | None = None,
        answer: Answer = _as_text,
    ) -> None:
        self.app, self._limits, self._upload_path, self._folder = app, limits, upload_path, folder
        self._answer, self._one_at_a_time = answer, asyncio.Lock()
        self._sent: list[tuple[float, str, int]] = []  # when, by whom, how many bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
        elif scope["path"] == self._upload_path:
            try:
                await self._upload(scope, receive, send)
            except ClientDisconnect:
                return
            except HTTPException as error:
                await self._answer(error.detail, error.status_code, error.headers)(scope, receive, send)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                await self._answer("The disk of this server is full: nothing was kept.", 507, None)(scope, receive, send)
        else:
            most, seconds = self._limits.body, self._limits.body_seconds
            await self.app(scope, limited(receive, most, seconds, f"A request must have at most {most:,} bytes."), send)

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        folder, limits = self._folder(), self._limits
        folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(self._check_room, folder)
        with TemporaryFile(dir=folder) as body:
            too_large = f"An upload must have at most {limits.upload >> 20} MB."
            coming = limited(receive, limits.upload, limits.upload_seconds, too_large)
            async for chunk in Request(scope, coming).stream():
                body.write(chunk)
            self._charge(current_visitor(), body.tell())
            body.seek(0)
            async with self._one_at_a_time:
                messages = [{"type": "http.request", "body": body.read(), "more_body": False}]

                async def replayed() -> Message:
                    """Return the body once more, then whatever still comes from the visitor."""
                    return messages.pop() if messages else await receive()

                try:
                    await self.app(scope, replayed, send)
                finally:
                    for path in folder.glob(LEFTOVERS):  # no form is being read now
                        if path.is_file():
                            path.unlink(missing_ok=True)

    def _check_room(self, folder: Path) -> None:
        """Remove old files of any process, and raise HTTPException where no upload fits."""
        size, oldest = 0, time() - self._limits.keep_seconds
        for path in folder.rglob("*"):
            with suppress(OSError):  # others may remove it meanwhile
                stat = path.stat(follow_symlinks=False)
                if not path.is_dir() and stat.st_mtime < oldest:
                    path.unlink()
                elif not path.is_dir():
                    size += stat.st_size
        if size + self._limits.upload > self._limits.kept:
            raise HTTPException(507, "This server has no room for uploads at the moment: try again later.")
        if shutil.disk_usage(folder).free - self._limits.upload < self._limits.free:
            raise HTTPException(507, "The disk of this server is nearly full: nothing was kept.")

    def _charge(self, visitor: str, size: int) -> None:
        """Count an upload of `visitor` in the last hour, or raise HTTPException."""
        self._sent = [sent for sent in self._sent if sent[0] > monotonic() - HOUR]
        if sum(bytes_ for _, who, bytes_ in self._sent if who == visitor) + size > self._limits.uploads_each_hour:
            sentence = f"You may upload {self._limits.uploads_each_hour >> 20} MB an hour: try again later."
            raise HTTPException(429, sentence, {"retry-after": "60"})
        self._sent.append((monotonic(), visitor, size))


@contextmanager
def own_folder(name: str) -> Iterator[Path]:
    """Make a temporary folder of this process, removed at its end; those of killed processes are removed first."""
    root = Path(tempfile.gettempdir()) / f"{name}-{getuser()}"
    root.mkdir(mode=0o700, exist_ok=True)
    for path in root.iterdir():
        lock = path.with_suffix(".lock")
        with suppress(Timeout, OSError), FileLock(lock, timeout=0):  # a living process holds its lock
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)
    folder = root / token_hex(8)
    with FileLock(folder.with_suffix(".lock")):
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(".lock").unlink(missing_ok=True)
            # What is still decoded as the server stops is written until its threads have ended.
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
