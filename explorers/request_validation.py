"""Validation of requests before Gradio handles them, so that every refusal is one sentence of this page.

Gradio lets some wrong values through to the handlers, answers others with a traceback on the server, and fetches an address
given in place of a file.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import gradio as gr
from gradio.block_function import BlockFunction
from gradio.blocks import Block
from gradio.components.api_component import Api
from gradio.data_classes import PredictBodyInternal
from gradio.queueing import Event, Queue
from gradio.route_utils import FnIndexInferError, get_fn
from gradio.server_messages import ProcessCompletedMessage
from gradio.state_holder import SessionState
from gradio.utils import error_payload, get_function_params, get_upload_folder, is_in_or_equal
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explorers.errors import page_error, showing_errors
from pcg.errors import InputError, PCGError
from pcg.settings import Range

DEEPEST = 32
LARGEST_NUMBER = 2.0**63
LARGEST_BODY = 1 << 20
MOST_CHOICES = 12
RECORDED_EVENTS = 200
UPLOADED = "a file that was uploaded to this page"
NOWHERE = "There is no such endpoint."
WRONG_KIND = "A value has a type that this page does not send."


class Page(gr.Blocks):
    """Blocks with validated requests. Values of the wrong kind, files that nobody uploaded, too few or too many arguments and
    a full queue are answered with an error; any other exception is a fault of the program, and passes."""

    async def preprocess_data(
        self, block_fn: BlockFunction, inputs: list[object], state: SessionState | None, explicit_call: bool = False
    ) -> list[object]:
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

    def queue(self, *arguments: object, **options: object) -> "Page":
        super().queue(*arguments, **options)
        # Gradio sums up all that it remembers after every single event.
        self._queue.ANALYTICS_MAX_EVENTS = RECORDED_EVENTS
        self._queue.push = _refusing_when_full(self._queue)
        return self


def checked(field: str, component: Block, value: object) -> object:
    """`value` as the component may send it; raise InputError for anything else. States of the server are not checked."""
    if component.stateful:
        return value
    _check_content(field, value)
    if isinstance(component, gr.Textbox):
        return _text(field, value)
    if isinstance(component, gr.Slider):
        Range(component.minimum, component.maximum, 0).check(field, value)
    elif isinstance(component, gr.Number) and value is not None:
        _check_number(field, value, component)
    elif isinstance(component, gr.Checkbox) and not isinstance(value, bool | None):
        raise InputError(field, value, "true or false")
    elif isinstance(component, gr.Radio | gr.Dropdown | gr.CheckboxGroup) and value is not None:
        _check_choice(field, value, component)
    elif isinstance(component, Api) and isinstance(value, dict | list):
        raise InputError(field, value, "a word, a number, true or false")
    elif isinstance(component, gr.Audio | gr.File) and value is not None:
        _check_files(field, value, many=getattr(component, "file_count", "single") != "single")
    return value


def _fields(block_fn: BlockFunction) -> list[str]:
    """The names of the arguments in the documentation of the endpoint."""
    names = [name for name, *_ in get_function_params(block_fn.fn)]
    labels = [str(getattr(component, "label", None) or "value").lower() for component in block_fn.inputs]
    return names + labels[len(names) :]


def _check_content(field: str, value: object, depth: int = 0) -> None:
    """No part of a value is too deep, is half a character, or is a file that lies elsewhere."""
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
    """Refuse what is not an uploaded file, whether it is there or not; an address would be fetched."""
    path = file["path"]
    try:
        inside = isinstance(path, str) and is_in_or_equal(path, get_upload_folder()) and Path(path).is_file()
    except (OSError, ValueError):
        inside = False
    if not inside or file.get("is_stream"):
        raise InputError(field, "another file", UPLOADED)


def _check_files(field: str, value: object, many: bool) -> None:
    files = value if many and isinstance(value, list) else [value]
    if not all(isinstance(file, dict) and "path" in file for file in files):
        raise InputError(field, value, UPLOADED)


def _text(field: str, value: object) -> str:
    """An empty box may come as nothing at all."""
    if not isinstance(value, str | None):
        raise InputError(field, value, "text")
    return value or ""


def _check_number(field: str, value: object, component: gr.Number) -> None:
    low = -LARGEST_NUMBER if component.minimum is None else component.minimum
    high = LARGEST_NUMBER if component.maximum is None else component.maximum
    known = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not known or (component.precision == 0 and value != int(value)):
        kind = "a whole number" if component.precision == 0 else "a number"
        raise InputError(field, value, kind if component.minimum is None else f"{kind} of at least {low:g}")


def _check_choice(field: str, value: object, component: gr.Radio | gr.Dropdown | gr.CheckboxGroup) -> None:
    choices = [value for _, value in component.choices]
    many = isinstance(component, gr.CheckboxGroup) or getattr(component, "multiselect", False)
    listed = ", ".join(map(str, choices)) if len(choices) <= MOST_CHOICES else "the choices on the page"
    if many and not isinstance(value, list):
        raise InputError(field, value, "a list of " + listed)
    for each in value if many else [value]:
        if each not in choices:
            raise InputError(field, each, "one of " + listed)


def _refusing_when_full(queue: Queue) -> Callable[..., Awaitable[tuple[bool, object, str]]]:
    """`queue.push`, which answers with an event that fails at once where the queue is full: the page and the client replace the
    message of Gradio's own answer."""
    push = queue.push

    async def push_or_refuse(body: PredictBodyInternal, request: Request, username: str) -> tuple[bool, object, str]:
        if body.fn_index not in queue.blocks.fns:
            raise HTTPException(404, NOWHERE)
        answer = await push(body=body, request=request, username=username)
        if answer[-1] != "queue_full":
            return answer
        event = Event(body.session_hash, get_fn(queue.blocks, None, body), request, username)
        async with queue.pending_message_lock:
            if event.session_hash not in queue.pending_messages_per_session:
                queue.pending_messages_per_session[event.session_hash] = asyncio.Queue()
            queue.pending_event_ids_session.setdefault(event.session_hash, set()).add(event._id)
        busy = error_payload(page_error(PCGError(_busy(len(queue)))), show_error=True)
        queue.send_message(event, ProcessCompletedMessage(output=busy, title="Busy", success=False))
        return True, event._id, "success"

    return push_or_refuse


def _busy(waiting: int) -> str:
    return f"The queue is full: {waiting} are waiting. Try again in a moment."


def app_options() -> dict[str, object]:
    """What `launch` hands on to the web server's framework."""
    return {
        "middleware": [Middleware(_SmallBodies)],
        "exception_handlers": dict.fromkeys((KeyError, FnIndexInferError), _nowhere),
    }


async def _nowhere(request: Request, error: Exception) -> JSONResponse:
    """Outside of the handlers, Gradio looks up by number what a request asks for."""
    return JSONResponse({"detail": NOWHERE}, status_code=404)


class _SmallBodies:
    """Middleware that refuses a request of more than `LARGEST_BODY` bytes. Uploads have a limit of their own (`launch`)."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].endswith("/upload"):
            await self.app(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > LARGEST_BODY:
                raise HTTPException(413, f"A request must have at most {LARGEST_BODY:,} bytes.")
            return message

        await self.app(scope, counted, send)
