"""The runs on one visitor's page, one after another. Knows nothing of gradio."""

from collections.abc import Callable
from contextlib import suppress

from explorers.session import Session
from pcg.errors import PCGError


class Turn:
    """The number of the current run on one visitor's page: an earlier run sees that it has been replaced, and stops. `session`
    is what the current run has so far, None before it has anything: the page gets it when the run ends. `stopped`: what the run
    had that was stopped last. `changes`: what else changed the page's session while it ran."""

    def __init__(self) -> None:
        self.number = 0
        self.stopped: Session | None = None
        self._clear()

    def _clear(self) -> None:
        self.running, self.session = False, None
        self.changes: list[Callable[[Session], Session]] = []

    def next(self) -> int:
        """Count another run, which replaces the current one."""
        self.number += 1
        self._clear()
        return self.number

    def begin(self, session: Session) -> tuple[int, Session]:
        """The number of a new run, and what it begins with: `session`, or what a run that it replaces has made of that."""
        held = self.so_far()
        number = self.next()
        self.running, self.session = True, held
        return number, held or session

    def halt(self) -> None:
        """End the current run; the next one begins with what it had."""
        self.number += 1

    def stop(self) -> None:
        """End the current run."""
        self.stopped = self.so_far()
        self.next()

    def end(self, number: int) -> None:
        """The run of that number has ended by itself, and the page has what it made."""
        if self.number == number:
            self._clear()

    def change(self, how: Callable[[Session], Session]) -> None:
        """Something else on the page changed the session: what the current run has gets the same change."""
        if self.running:
            self.changes.append(how)

    def changed(self, session: Session) -> Session:
        """`session`, which a run made of what the page had when it began, after all that was changed meanwhile."""
        for how in self.changes:
            with suppress(PCGError):  # a take that the history has no more
                session = how(session)
        return session

    def so_far(self) -> Session | None:
        """What the current run has, after all that was changed meanwhile."""
        return self.changed(self.session) if self.session else None
