"""What every request passes before a panel sees it: the middleware of the server, checks of values, and a limit on time."""

import inspect
import os
import re
import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep

import gradio as gr
import gradio.routes
from gradio.components.api_component import Api
from gradio.route_utils import STATIC_TEMPLATE_LIB, FnIndexInferError
from gradio.utils import get_function_params, get_upload_folder, is_in_or_equal
from jinja2 import FunctionLoader
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from explorers.errors import check_whole, fault, page_error, showing_errors
from pcg.errors import InputError, PCGError, first_line
from pcg.places import ASSETS
from pcg.serving.protection import LIMITS, NOWHERE, STOPPING, Bodies, Guard, Limits, current_visitor
from pcg.settings import Bounds

# What the page and Gradio's clients request. Gradio's other endpoints serve developers.
OPEN_PATHS = re.compile(
    r"/|/(?:config|assets/.*|static/.*|svelte/.*|theme\.css|favicon\.ico|robots\.txt|manifest\.json|pwa_icon(?:/\d+)?)/?"
    r"|/gradio_api/(?:info|openapi\.json|app_id|startup-events|heartbeat/\w+|upload|upload_progress|queue/(?:join|data)"
    r"|call/(?:v2/)?[\w-]+(?:/\w+)?|run/predict|cancel|reset|file=.*|stream/.*|custom_component/.*|mcp(?:/.*)?)/?"
    r"|/preview\.png|/agents\.md"
)
UPLOAD_PATH = "/gradio_api/upload"
SPACES = ("*.hf.space", "huggingface.co")
SHARED = "*.gradio.live"
ADDRESSES = 4096
PREVIEW = {
    'content="Gradio"': 'content="PCG Lab"',
    'content="Click to try out the app!"': 'content="Speech comes faster when a model accepts sound-alikes."',
    'content="https://raw.githubusercontent.com/gradio-app/gradio/main/js/_website/src/lib/assets/img/header-image.jpg"': (
        'content="{{ request.base_url }}preview.png"'
    ),
}
"""What other sites show of a link to the page, in place of what Gradio's template says."""
DEEPEST = 32
RECORDED_EVENTS = 200
LAST_STEP_SECONDS = 30.0
UPLOADED = "a file that was uploaded to this page"
MISSING = "The MCP server needs one more package: pip install -r requirements-mcp.txt."
WRONG_KIND = "A value is none that this page sends."
AGENTS = """# PCG Lab

Speech tokens decoded by AR, SD, SSD and PCG, with every acceptance test. POST a JSON object of arguments; what is left out has
its default. The answer names an event: GET ADDRESSgradio_api/call/ENDPOINT/EVENT streams the results. All endpoints and
arguments: ADDRESSgradio_api/info. Limits: SECURITY.md of the project.

    curl -s -H 'Content-Type: application/json' -d '{"token": 17, "theta": 0.4}' ADDRESSgradio_api/call/v2/token_group
"""
"""What agents read first."""
KINDS = {
    gr.Textbox: (str, "text"),
    gr.Checkbox: (bool, "true or false"),
    gr.CheckboxGroup: (list, "the choices on the page"),
    gr.Audio | gr.File: (dict, UPLOADED),
    Api: (str | int | float, "a word, a number, true or false"),
}
"""The type of the values of a component, and what it may be in words."""


def _page_template(name: str) -> str:
    text = Path(STATIC_TEMPLATE_LIB, name).read_text(encoding="utf-8")
    for old, new in PREVIEW.items():
        text = text.replace(old, new)
    return text


gradio.routes.templates.env.loader = FunctionLoader(_page_template)


def app_options(hosts: tuple[str, ...] = (), limits: Limits = LIMITS) -> dict[str, object]:
    """Return the options of the web framework. hosts: names of this server beside those of the computer."""
    on_space = "SPACE_ID" in os.environ
    names = (*hosts, socket.gethostname().lower(), SHARED, *(SPACES if on_space else ()))
    frames = [f"https://{name}" for name in SPACES] if on_space else []

    def nowhere(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": NOWHERE}, status_code=404)

    def misfit(request: Request, error: Exception) -> JSONResponse:
        """Refuse a call by names that has other arguments than its endpoint."""
        if "/call/v2/" not in request.url.path:
            raise error
        return JSONResponse({"detail": first_line(error)}, status_code=422)

    return {
        "middleware": [
            Middleware(Guard, hosts=names, paths=OPEN_PATHS, frames=frames, unexpected=lambda error: str(fault(error))),
            Middleware(Rate, most=limits.posts_each_minute),
            Middleware(Bodies, limits=limits, upload_path=UPLOAD_PATH, folder=lambda: Path(get_upload_folder())),
        ],
        "routes": [
            Route("/preview.png", lambda request: FileResponse(ASSETS / "page.png")),
            Route("/agents.md", lambda request: PlainTextResponse(AGENTS.replace("ADDRESS", str(request.base_url)))),
        ],
        # Gradio looks endpoints and arguments up outside of its handlers.
        "exception_handlers": {KeyError: nowhere, FnIndexInferError: nowhere, TypeError: misfit},
    }


class Rate:
    """ASGI middleware: refuse an address that sends more than `most` POST requests in a minute."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self._most = app, most
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self.app
        if scope["type"] == "http" and scope["method"] == "POST":
            now, times = monotonic(), self._times.setdefault(current_visitor(), deque(maxlen=self._most))
            self._times.move_to_end(current_visitor())
            if len(self._times) > ADDRESSES:
                self._times.popitem(last=False)
            if len(times) == self._most and now - times[0] < 60:
                sentence = f"This address sent more than {self._most} requests in a minute: wait a little."
                answer = JSONResponse({"detail": sentence, "error": sentence}, 429, {"retry-after": "60"})
            else:
                times.append(now)
        await answer(scope, receive, send)


class Page(gr.Blocks):
    """Blocks with validated requests. Bad values get one sentence; an unexpected exception is logged and gets a reference."""

    limits: Limits = LIMITS

    async def preprocess_data(self, block_fn: object, inputs: list[object], state: object, explicit_call: bool = False) -> list:
        with showing_errors():
            if len(inputs) != len(block_fn.inputs):
                raise InputError("request", f"{len(inputs)} values", f"{len(block_fn.inputs)} values")
            # A session's own component may have other choices than the page began with.
            here = [state[b._id] if state and not b.stateful and b._id in state else b for b in block_fn.inputs]
            # The names of the arguments, as the documentation of the endpoint tells them.
            names = [name for name, *_ in get_function_params(block_fn.fn)]
            labels = [str(getattr(component, "label", None) or "value").lower() for component in block_fn.inputs]
            fields = names + labels[len(names) :]
            inputs = [checked(*each) for each in zip(fields, here, inputs, strict=True)]
        try:
            return await super().preprocess_data(block_fn, inputs, state, explicit_call)
        except (gr.Error, ValueError, TypeError) as error:
            raise page_error(PCGError(WRONG_KIND)) from error

    async def process_api(self, *arguments: object, **options: object) -> dict[str, object]:
        try:
            return await super().process_api(*arguments, **options)
        except (gr.Error, StopAsyncIteration):
            raise
        except Exception as error:
            raise page_error(fault(error)) from error

    def queue(self, *arguments: object, **options: object) -> "Page":
        super().queue(*arguments, **options)
        # Gradio sums up all recorded events after every single one.
        self._queue.ANALYTICS_MAX_EVENTS = RECORDED_EVENTS
        self._at_work: set[Iterator[object]] = set()
        self._stopping = False
        for block_fn in self.fns.values():
            if inspect.isgeneratorfunction(block_fn.fn):
                block_fn.fn = self._in_time(block_fn.fn)
        return self

    def settle(self) -> None:
        """Stop the server, and wait for the steps of its handlers: compiled code that returns while Python ends aborts it."""
        self.close(verbose=False)
        self._stopping, deadline = True, monotonic() + LAST_STEP_SECONDS
        while self._at_work and monotonic() < deadline:
            sleep(0.02)

    def _in_time(self, steps: Callable[..., Iterator[object]]) -> Callable[..., Iterator[object]]:
        """Limit a generator's time: then the handler gets an error where it yields, and may yield what is finished."""
        seconds = self.limits.job_seconds

        @wraps(steps)
        def timed(*arguments: object, **options: object) -> Iterator[object]:
            begun = monotonic()
            with closing(steps(*arguments, **options)) as made:
                while True:
                    self._at_work.add(made)
                    try:
                        if self._stopping:
                            raise PCGError(STOPPING)
                        step = next(made)
                    except StopIteration:
                        return
                    finally:
                        self._at_work.discard(made)
                    yield step
                    if monotonic() - begun > seconds:
                        late = f"It was stopped at the limit of {seconds:g} s, waiting included; what is finished is kept."
                        with showing_errors():
                            yield made.throw(PCGError(late))
                            yield from made

        return timed


def checked(field: str, component: gr.blocks.Block, value: object) -> object:
    """Return `value` if the component may send it. Raises InputError for any other value. Gradio lets some wrong values
    through, answers others with a traceback, and fetches an address that is given in place of a file."""
    if component.stateful:
        return value
    _check_content(field, value)
    if isinstance(component, gr.Slider):
        Bounds(component.minimum, component.maximum, 0).check(field, value)
    for kind, (expected, allowed) in KINDS.items():
        if isinstance(component, kind) and not isinstance(value, expected | None):
            raise InputError(field, value, allowed)
    if isinstance(component, gr.Number) and value is not None:
        check_whole(field, value, component.minimum, component.maximum)
    elif isinstance(component, gr.Dropdown) and isinstance(value, list) != bool(component.multiselect) and value is not None:
        raise InputError(field, value, "the choices on the page")
    return "" if value is None and isinstance(component, gr.Textbox) else value


def _check_content(field: str, value: object, depth: int = 0) -> None:
    """Refuse deep nesting, half characters, and files outside the folder of uploads; an address would be fetched."""
    if depth > DEEPEST:
        raise InputError(field, "nested very deeply", f"nested at most {DEEPEST} levels deep")
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise InputError(field, value[:40], "text of whole characters")
    if isinstance(value, dict) and "path" in value:
        path = value["path"]
        try:
            inside = isinstance(path, str) and is_in_or_equal(path, get_upload_folder()) and Path(path).is_file()
        except (OSError, ValueError):
            inside = False
        if not inside or value.get("is_stream"):
            raise InputError(field, "another file", UPLOADED)
    parts = (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        _check_content(field, part, depth + 1)


def can_offer_tools() -> bool:
    return find_spec("mcp") is not None


def offer_tools(page: gr.Blocks) -> None:
    """Name the tools of `page`, which is to be launched, after their endpoints; raise PCGError where the package is missing.

    Gradio names a tool after its Python function, which for a handler is not descriptive."""
    if not can_offer_tools():
        raise PCGError(MISSING)
    for endpoint in page.fns.values():
        if isinstance(endpoint.api_name, str) and endpoint.api_visibility == "public":
            endpoint.fn.__name__ = endpoint.api_name
