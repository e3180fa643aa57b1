"""The Blocks of the page: every request is checked before a handler sees it, and ends in time and in one sentence."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import wraps
from time import monotonic
from uuid import uuid4

import gradio as gr
from gradio.block_function import BlockFunction
from gradio.data_classes import PredictBodyInternal
from gradio.exceptions import Error as GradioError
from gradio.queueing import Event, Queue
from gradio.server_messages import ProcessCompletedMessage
from gradio.state_holder import SessionState
from gradio.utils import error_payload, get_function_params
from starlette.exceptions import HTTPException
from starlette.requests import Request

from explorers.errors import fault, page_error, showing_errors
from explorers.requests.messages import Messages
from explorers.requests.validation import checked
from pcg.errors import InputError, PCGError
from pcg.serving.guard import NOWHERE
from pcg.serving.limits import LIMITS, Limits

RECORDED_EVENTS = 200
WRONG_KIND = "A value has a type that this page does not send."


class Page(gr.Blocks):
    """Blocks with validated requests. Values of the wrong kind, files that nobody uploaded, too few or too many arguments, a
    full queue and a job that takes too long are answered with an error. Any other exception is a fault of the program: it is
    logged, and answered with a reference to the log."""

    limits: Limits = LIMITS

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

    async def process_api(self, *arguments: object, **options: object) -> dict[str, object]:
        try:
            return await super().process_api(*arguments, **options)
        except (GradioError, StopAsyncIteration):
            raise
        except Exception as error:
            raise page_error(fault(error)) from error

    def queue(self, *arguments: object, **options: object) -> "Page":
        super().queue(*arguments, **options)
        # Gradio sums up all that it remembers after every single event.
        self._queue.ANALYTICS_MAX_EVENTS = RECORDED_EVENTS
        self._queue.push = _refusing_when_full(self._queue, self.limits.waiting_each)
        for block_fn in self.fns.values():
            if inspect.isgeneratorfunction(block_fn.fn):
                block_fn.fn = _in_time(block_fn.fn, self.limits.job_seconds)
        return self


def _fields(block_fn: BlockFunction) -> list[str]:
    """The names of the arguments in the documentation of the endpoint."""
    names = [name for name, *_ in get_function_params(block_fn.fn)]
    labels = [str(getattr(component, "label", None) or "value").lower() for component in block_fn.inputs]
    return names + labels[len(names) :]


def _in_time(steps: Callable[..., Iterator[object]], seconds: float) -> Callable[..., Iterator[object]]:
    """A handler's steps, as far as they are made within `seconds`. Then the handler gets an error where it yields: it may tell
    what is finished before it passes that on."""

    @wraps(steps)
    def timed(*arguments: object, **options: object) -> Iterator[object]:
        begun = monotonic()
        with closing(steps(*arguments, **options)) as made:
            for step in made:
                yield step
                if monotonic() - begun > seconds:
                    late = f"This job was stopped at the limit of {seconds:g} s, waiting included; what is finished is kept."
                    with showing_errors():
                        yield made.throw(PCGError(late))
                        yield from made

    return timed


def _refusing_when_full(queue: Queue, most_each: int) -> Callable[..., Awaitable[tuple[bool, object, str]]]:
    """`queue.push`, which answers with an event that fails at once where the queue is full, or holds `most_each` jobs of the
    same session: the page and the client replace the message of Gradio's own answer."""
    push = queue.push

    async def push_or_refuse(body: PredictBodyInternal, request: Request, username: str) -> tuple[bool, object, str]:
        if body.fn_index not in queue.blocks.fns:
            raise HTTPException(404, NOWHERE)
        own = sum(event.session_hash == body.session_hash for each in _lines(queue) for event in each)
        if own >= most_each:
            return _fail(queue, body, request, username, f"You have {own} jobs waiting: wait for them, or stop one.")
        body.session_hash = body.session_hash or uuid4().hex
        _begin_messages(queue, body.session_hash)
        answer = await push(body=body, request=request, username=username)
        if answer[-1] != "queue_full":
            return answer
        sentence = f"The queue is full: {len(queue)} are waiting. Try again in a moment."
        return _fail(queue, body, request, username, sentence)

    return push_or_refuse


def _lines(queue: Queue) -> list[list[Event]]:
    return [line.queue for line in queue.event_queue_per_concurrency_id.values()]


def _begin_messages(queue: Queue, session_hash: str) -> None:
    """Gradio makes a queue of another kind where a session has none."""
    if session_hash not in queue.pending_messages_per_session:
        queue.pending_messages_per_session[session_hash] = Messages()


def _fail(queue: Queue, body: PredictBodyInternal, request: Request, username: str, sentence: str) -> tuple[bool, object, str]:
    """An event that is answered with `sentence`."""
    event = Event(body.session_hash, queue.blocks.fns[body.fn_index], request, username)
    _begin_messages(queue, event.session_hash)
    queue.pending_event_ids_session.setdefault(event.session_hash, set()).add(event._id)
    busy = error_payload(page_error(PCGError(sentence)), show_error=True)
    queue.send_message(event, ProcessCompletedMessage(output=busy, title="Busy", success=False))
    return True, event._id, "success"
