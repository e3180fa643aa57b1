"""What the server remembers of each visitor's page, and whose memory goes first when there is no more room."""

from collections import Counter, OrderedDict
from copy import copy
from time import monotonic

import gradio as gr
from gradio.state_holder import SessionState, StateHolder

from pcg.serving.guard import current_visitor
from pcg.serving.limits import Limits

LOST = "The server no longer keeps the takes of this page: reload it."
FORGOTTEN = 1 << 16
CLOSED_SECONDS = 3600.0


class LostSession(Exception):
    """A request of a page whose session is no longer kept."""

    def __init__(self) -> None:
        super().__init__(LOST)


class Sessions(StateHolder):
    """Sessions by their hash. Each belongs to the visitor who began it, and only its own visitor's later ones take its place:
    the oldest goes of whoever has more than `limits.sessions_each`, or, where there are more than `limits.sessions` in all, of
    whoever has most. A request of a session that went raises LostSession, so that nobody is answered from another's takes."""

    def __init__(self, blocks: gr.Blocks, limits: Limits) -> None:
        super().__init__()
        self._limits = limits
        self._visitors: dict[str, str] = {}
        self._lost: OrderedDict[str, None] = OrderedDict()
        self.set_blocks(blocks)
        values = (block._id for function in blocks.fns.values() for block in function.inputs)
        self._kept = frozenset(values) | {key for key, block in blocks.blocks.items() if block.stateful}

    def __getitem__(self, session_id: str) -> SessionState:
        with self.lock:
            if session_id in self._lost:
                raise LostSession
            if session_id not in self.session_data:
                self.session_data[session_id] = _LightState(self.blocks, self._kept)
                self._visitors[session_id] = current_visitor()
                self._make_room(session_id)
            self.session_data.move_to_end(session_id)
            state = self.session_data[session_id]
            state.closed_at = None
            return state

    def delete_all_expired_state(self) -> None:
        """Forget the pages that were closed an hour ago, or lost their line to the server; Gradio calls this every second."""
        oldest = monotonic() - CLOSED_SECONDS
        with self.lock:
            for session_id, state in list(self.session_data.items()):
                if state.closed_at is not None and state.closed_at < oldest:
                    self._forget(session_id)

    def _make_room(self, newest: str) -> None:
        counts = Counter(self._visitors.values())
        visitor = self._visitors[newest]
        if counts[visitor] <= self._limits.sessions_each:
            if len(self.session_data) <= self._limits.sessions:
                return
            visitor = counts.most_common(1)[0][0]
        oldest = next(each for each in self.session_data if self._visitors[each] == visitor)
        self._forget(oldest)

    def _forget(self, session_id: str) -> None:
        del self.session_data[session_id], self._visitors[session_id]
        self._lost[session_id] = None
        if len(self._lost) > FORGOTTEN:
            self._lost.popitem(last=False)


class _LightState(SessionState):
    """A session without its own copy of every component's settings, of nearly a megabyte, which only deep links read, and with
    its own components only where a handler reads them (`kept`, their numbers), and not of each that a handler changed."""

    def __init__(self, blocks: gr.Blocks, kept: frozenset[int]) -> None:
        self._kept = kept
        self._changed: tuple[int | None, object] = None, None
        self.blocks_config = copy(blocks.default_config)
        self.config_values = _Nothing()
        self.state_data = {}
        self._state_ttl = {}
        self.closed_at: float | None = None

    def __getitem__(self, key: int) -> object:
        changed, component = self._changed
        return component if key == changed else super().__getitem__(key)

    def __setitem__(self, key: int, value: object) -> None:
        # Gradio reads a changed component back at once, to tell the page what changed.
        if key in self._kept:
            super().__setitem__(key, value)
        else:
            self._changed = key, value

    @property
    def is_closed(self) -> bool:
        return self.closed_at is not None

    @is_closed.setter
    def is_closed(self, closed: bool) -> None:
        self.closed_at = monotonic() if closed else None

    def _update_config(self, key: int) -> None:
        return

    def _update_value_in_config(self, key: int, value: object) -> None:
        return


class _Nothing(dict[int, object]):
    """Keeps nothing: what Gradio notes of every component that an update changed."""

    def __setitem__(self, key: int, value: object) -> None:
        return
