"""The runs on one visitor's page, one after another. Knows nothing of gradio."""

from collections.abc import Callable
from contextlib import suppress

from explorers.session import Session
from pcg.errors import PCGError


class Turn:
    """Counts the runs on one visitor's page: a run that sees a higher number has been replaced, and stops.

    Attributes:
        session: the takes of the current run so far, None before the first; the page gets them when the run ends.
        stopped: the takes of the run that was stopped last.
        changes: changes of the page's session by other panels during the run.
    """

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
        """Start a run; return its number and its session: `session`, or that of the run that it replaces."""
        held = self.so_far()
        number = self.next()
        self.running, self.session = True, held
        return number, held or session

    def halt(self) -> None:
        """Cancel the current run and start the next with its session."""
        self.number += 1

    def stop(self) -> None:
        """End the current run."""
        self.stopped = self.so_far()
        self.next()

    def end(self, number: int) -> None:
        """End the run of that number; the page has its takes."""
        if self.number == number:
            self._clear()

    def change(self, how: Callable[[Session], Session]) -> None:
        """Apply a change by another panel to the session of the current run, too."""
        if self.running:
            self.changes.append(how)

    def changed(self, session: Session) -> Session:
        """Return the session of a run after the changes by other panels."""
        for how in self.changes:
            with suppress(PCGError):  # a take that the history has no more
                session = how(session)
        return session

    def so_far(self) -> Session | None:
        """Return the takes of the current run so far, after the changes by other panels."""
        return self.changed(self.session) if self.session else None
