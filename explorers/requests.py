"""What every request passes before a panel sees it: the middleware of the server, checks of values, and a limit on time."""

import inspect
import os
import re
import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import closing
from contextvars import ContextVar
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from threading import Condition
from time import monotonic

import gradio as gr
from gradio.components.api_component import Api
from gradio.route_utils import FnIndexInferError
from gradio.utils import get_function_params, get_upload_folder, is_in_or_equal
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explorers.errors import fault, page_error, showing_errors
from pcg.errors import InputError, PCGError, first_line
from pcg.places import ASSETS
from pcg.serving.protection import LIMITS, NOWHERE, STOPPING, Bodies, Guard, Limits, current_visitor
from pcg.settings import Bounds

# What the page and Gradio's clients request. Gradio's other endpoints serve developers.
OPEN_PATHS = re.compile(
    r"/|/(?:config|assets/.*|static/.*|svelte/.*|theme\.css|favicon\.ico|robots\.txt|manifest\.json|pwa_icon(?:/\d+)?)/?"
    r"|/gradio_api/(?:info|openapi\.json|app_id|startup-events|heartbeat/\w+|upload|upload_progress|queue/(?:join|data)"
    r"|call/(?:v2/)?[\w-]+(?:/\w+)?|run/predict|cancel|reset|file=.*|stream/.*|custom_component/.*|mcp(?:/.*)?)/?"
    r"|/monitoring/summary|/preview\.png|/agents\.md"
)
UPLOAD_PATH = "/gradio_api/upload"
SPACES = ("*.hf.space", "huggingface.co")
SHARED = "*.gradio.live"
ADDRESSES = 4096
PREVIEW = {
    b'content="Gradio"': b'content="PCG Lab"',
    b'content="Click to try out the app!"': b'content="Speech comes faster when a model accepts sound-alikes."',
    b'content="https://raw.githubusercontent.com/gradio-app/gradio/main/js/_website/src/lib/assets/img/header-image.jpg"': (
        b'content="ADDRESSpreview.png"'
    ),
}
"""What other sites show of a link to the page, in place of what Gradio writes."""
DEEPEST = 32
LARGEST_NUMBER = 2.0**63
RECORDED_EVENTS = 200
LAST_STEP_SECONDS = 30.0
UPLOADED = "a file that was uploaded to this page"
TOOLS = ("generate", "token_group", "swap", "transcribe", "experiments")
"""The endpoints that models are offered: one for each thing that can be asked without a session."""
MISSING = "The MCP server needs one more package: pip install -r requirements-mcp.txt."
WRONG_KIND = "A value is none that this page sends."
AGENTS = """# PCG Lab

Speech tokens decoded by AR, SD, SSD and PCG: one sentence, four ways, with every acceptance test.

Ask with POST ADDRESSgradio_api/call/v2/ENDPOINT and a JSON object of arguments; what is left out has its default. The
answer names an event: GET ADDRESSgradio_api/call/ENDPOINT/EVENT streams the results. All endpoints and arguments:
ADDRESSgradio_api/info

    curl -s -H 'Content-Type: application/json' -d '{"token": 17, "theta": 0.4}' ADDRESSgradio_api/call/v2/token_group

Limits: SECURITY.md of the project; a refused call says why in one sentence.
"""
"""What agents read first."""
KINDS = {
    gr.Textbox: (str, "text"),
    gr.Checkbox: (bool, "true or false"),
    gr.CheckboxGroup: (list, "the choices on the page"),
    gr.Audio | gr.File: (dict, UPLOADED),
}
"""The type of the values of a component, and what it may be in words."""


def app_options(hosts: tuple[str, ...] = (), limits: Limits = LIMITS, mcp: bool = False) -> dict[str, object]:
    """Return the options of the web framework. hosts: names of this server beside those of the computer; mcp: whether it offers
    tools to models."""
    # What Gradio's page on the API requests and this server lacks: a browser logs every 404. After a 2xx, MCP would be on.
    lacking = {"/monitoring/summary": ({"functions": {}}, 200)} | ({} if mcp else {"/gradio_api/mcp/schema": ([], 300)})
    on_space = "SPACE_ID" in os.environ
    names = (*hosts, socket.gethostname().lower(), SHARED, *(SPACES if on_space else ()))
    frames = [f"https://{name}" for name in SPACES] if on_space else []
    return {
        "middleware": [
            Middleware(Guard, hosts=names, paths=OPEN_PATHS, frames=frames, unexpected=lambda error: str(fault(error))),
            Middleware(Rate, most=limits.posts_each_minute),
            Middleware(Statuses),
            Middleware(Preview),
            Middleware(Bodies, limits=limits, upload_path=UPLOAD_PATH, folder=lambda: Path(get_upload_folder())),
        ],
        "routes": [
            Route("/preview.png", lambda request: FileResponse(ASSETS / "page.png")),
            Route("/agents.md", lambda request: PlainTextResponse(AGENTS.replace("ADDRESS", str(request.base_url)))),
            *(Route(path, lambda request, answer=answer: JSONResponse(*answer)) for path, answer in lacking.items()),
        ],
        # Gradio looks endpoints and arguments up outside of its handlers.
        "exception_handlers": dict.fromkeys((KeyError, FnIndexInferError), _nowhere) | {TypeError: _misfit},
    }


def _nowhere(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": NOWHERE}, status_code=404)


def _misfit(request: Request, error: Exception) -> JSONResponse:
    """Refuse a call by names that has other arguments than its endpoint."""
    if "/call/v2/" not in request.url.path:
        raise error
    return JSONResponse({"detail": first_line(error)}, status_code=422)


class Rate:
    """ASGI middleware: refuse an address that sends more than `most` POST requests in a minute."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self._most = app, most
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and not self._allows(current_visitor()):
            sentence = f"This address sent more than {self._most} requests in a minute: wait a little."
            await JSONResponse({"detail": sentence, "error": sentence}, 429, {"retry-after": "60"})(scope, receive, send)
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


_refusals: ContextVar[list[Exception]] = ContextVar("refusals")
"""The errors of the request that is being answered that are its own fault."""


class Statuses:
    """ASGI middleware: answer 422 to a request that was refused; Gradio answers every error with 500."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusals: list[Exception] = []

        async def with_status(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 500 and refusals:
                message["status"] = 422
            await send(message)

        token = _refusals.set(refusals)
        try:
            await self.app(scope, receive, with_status)
        finally:
            _refusals.reset(token)


class Preview:
    """ASGI middleware: put PREVIEW into the head of the page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, collect)
        start, *parts = messages
        body = b"".join(part.get("body", b"") for part in parts)
        for old, new in PREVIEW.items():
            body = body.replace(old, new.replace(b"ADDRESS", str(Request(scope).base_url).encode()))
        MutableHeaders(scope=start)["content-length"] = str(len(body))
        await send(start)
        await send({"type": "http.response.body", "body": body})


class Page(gr.Blocks):
    """Blocks with validated requests. Bad values get one sentence; an unexpected exception is logged and gets a reference."""

    limits: Limits = LIMITS

    async def preprocess_data(self, block_fn: object, inputs: list[object], state: object, explicit_call: bool = False) -> list:
        with showing_errors():
            if len(inputs) != len(block_fn.inputs):
                raise InputError("request", f"{len(inputs)} values", f"{len(block_fn.inputs)} values")
            # A session's own component may have other choices than the page began with.
            here = [state[b._id] if state and not b.stateful and b._id in state else b for b in block_fn.inputs]
            inputs = [checked(*each) for each in zip(_fields(block_fn), here, inputs, strict=True)]
        try:
            return await super().preprocess_data(block_fn, inputs, state, explicit_call)
        except (gr.Error, ValueError, TypeError) as error:
            raise page_error(PCGError(WRONG_KIND)) from error

    async def process_api(self, *arguments: object, **options: object) -> dict[str, object]:
        try:
            return await super().process_api(*arguments, **options)
        except gr.Error as error:
            _refusals.get([]).append(error)
            raise
        except StopAsyncIteration:
            raise
        except Exception as error:
            raise page_error(fault(error)) from error

    def queue(self, *arguments: object, **options: object) -> "Page":
        super().queue(*arguments, **options)
        # Gradio sums up all recorded events after every single one.
        self._queue.ANALYTICS_MAX_EVENTS = RECORDED_EVENTS
        self._working = Working()
        for block_fn in self.fns.values():
            if inspect.isgeneratorfunction(block_fn.fn):
                block_fn.fn = _in_time(block_fn.fn, self.limits.job_seconds, self._working)
        return self

    def settle(self) -> None:
        """Stop the server, and wait for the steps of its handlers: compiled code that returns while Python ends aborts it."""
        self.close(verbose=False)
        self._working.end()


class Working:
    """Counts the steps of handlers that are being made."""

    def __init__(self) -> None:
        self._count, self._ended, self._changed = 0, False, Condition()

    def __enter__(self) -> None:
        with self._changed:
            if self._ended:
                raise PCGError(STOPPING)
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def end(self) -> None:
        """Let no step begin any more, and wait for the last one."""
        with self._changed:
            self._ended = True
            self._changed.wait_for(lambda: not self._count, LAST_STEP_SECONDS)


def _in_time(steps: Callable[..., Iterator[object]], seconds: float, working: Working) -> Callable[..., Iterator[object]]:
    """Limit a generator's time. After `seconds` the handler gets an error where it yields, and may yield what is finished."""

    @wraps(steps)
    def timed(*arguments: object, **options: object) -> Iterator[object]:
        begun = monotonic()
        with closing(steps(*arguments, **options)) as made:
            while True:
                with working:
                    try:
                        step = next(made)
                    except StopIteration:
                        return
                yield step
                if monotonic() - begun > seconds:
                    late = f"This job was stopped at the limit of {seconds:g} s, waiting included; what is finished is kept."
                    with showing_errors():
                        yield made.throw(PCGError(late))
                        yield from made

    return timed


def _fields(block_fn: object) -> list[str]:
    """Return the names of the arguments in the documentation of the endpoint."""
    names = [name for name, *_ in get_function_params(block_fn.fn)]
    labels = [str(getattr(component, "label", None) or "value").lower() for component in block_fn.inputs]
    return names + labels[len(names) :]


def checked(field: str, component: gr.blocks.Block, value: object) -> object:
    """Return `value` if the component may send it.

    Raises:
        InputError: for any other value. Gradio lets some wrong values through, answers others with a traceback, and fetches
            an address that is given in place of a file.
    """
    if component.stateful:
        return value
    _check_content(field, value)
    if isinstance(component, gr.Slider):
        Bounds(component.minimum, component.maximum, 0).check(field, value)
    for kind, (expected, allowed) in KINDS.items():
        if isinstance(component, kind) and not isinstance(value, expected | None):
            raise InputError(field, value, allowed)
    if isinstance(component, gr.Number) and value is not None:
        _check_number(field, value, component)
    elif isinstance(component, gr.Dropdown) and isinstance(value, list) != bool(component.multiselect) and value is not None:
        raise InputError(field, value, "the choices on the page")
    elif isinstance(component, Api) and isinstance(value, dict | list):
        raise InputError(field, value, "a word, a number, true or false")
    return "" if value is None and isinstance(component, gr.Textbox) else value


def _check_content(field: str, value: object, depth: int = 0) -> None:
    """Refuse deep nesting, half characters, and files that were not uploaded."""
    if depth > DEEPEST:
        raise InputError(field, "nested very deeply", f"nested at most {DEEPEST} levels deep")
    if isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise InputError(field, value[:40], "text of whole characters")
    elif isinstance(value, dict):
        if "path" in value:
            _check_path(field, value)
        for part in (*value.keys(), *value.values()):
            _check_content(field, part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _check_content(field, part, depth + 1)


def _check_path(field: str, file: dict[str, object]) -> None:
    """Refuse a path outside the folder of uploads, whether it exists or not; an address would be fetched."""
    path = file["path"]
    try:
        inside = isinstance(path, str) and is_in_or_equal(path, get_upload_folder()) and Path(path).is_file()
    except (OSError, ValueError):
        inside = False
    if not inside or file.get("is_stream"):
        raise InputError(field, "another file", UPLOADED)


def _check_number(field: str, value: object, component: gr.Number) -> None:
    low = -LARGEST_NUMBER if component.minimum is None else component.minimum
    high = LARGEST_NUMBER if component.maximum is None else component.maximum
    known = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not known or (component.precision == 0 and value != int(value)):
        kind = "a whole number" if component.precision == 0 else "a number"
        ends = f" from {low:,.0f} to {high:,.0f}" if None not in (component.minimum, component.maximum) else ""
        raise InputError(field, value, kind + ends)


def can_offer_tools() -> bool:
    return find_spec("mcp") is not None


def offer_tools(page: gr.Blocks) -> None:
    """Name the tools of `page`, which is to be launched, after their endpoints; raise PCGError where the package is missing.

    Gradio names a tool after its Python function, which for a handler is not descriptive.
    """
    if not can_offer_tools():
        raise PCGError(MISSING)
    for endpoint in page.fns.values():
        if isinstance(endpoint.api_name, str) and endpoint.api_visibility == "public":
            endpoint.fn.__name__ = endpoint.api_name


def choose_tools(page: gr.Blocks) -> None:
    """Leave TOOLS alone to the MCP server of a page that was launched; Gradio makes every endpoint a tool."""
    server = page.mcp_server_obj
    server.tool_to_endpoint = {name: place for name, place in server.tool_to_endpoint.items() if place.lstrip("/") in TOOLS}
