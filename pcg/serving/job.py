"""A take between the thread that decodes it and the one that waits for it."""

from collections import deque
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from threading import Event

from pcg.decode.running_batch import Request
from pcg.synthesis.decoder import Decoding
from pcg.takes.take import Round


class Job:
    """`requests`: the chunks that have no row yet. `heard`: whether somebody listens while it is made. `begun`: set when the
    first chunk has a row, or when the job has ended. `decoded`: set when nothing more comes. `rounds`: those that were decoded.
    `left`: nobody waits for it any more. `seconds`: those that its prompts and rounds took."""

    def __init__(self, requests: Sequence[Request], expected_tokens: float, heard: bool = False) -> None:
        self.requests = deque(requests)
        self.heard = heard
        self.begun, self.decoded = Event(), Event()
        self.rounds: list[Round] = []
        self.left = False
        self.seconds = 0.0
        self._expected, self._said = expected_tokens, 0
        self._told: SimpleQueue[float | Round | Exception | None] = SimpleQueue()

    @property
    def tokens_left(self) -> float:
        """How many tokens it will probably still say."""
        return max(0.0, self._expected - self._said)

    def begin(self, prefill_seconds: float) -> None:
        """A chunk has a row, and its prompt was read."""
        self.seconds += prefill_seconds
        self._told.put(prefill_seconds)
        self.begun.set()

    def say(self, round_: Round) -> None:
        self._said += len(round_.tokens)
        self.seconds += round_.milliseconds / 1e3
        self.rounds.append(round_)
        self._told.put(round_)

    def end_chunk(self) -> None:
        self._told.put(None)
        if not self.requests:
            self.decoded.set()

    def end(self, error: Exception) -> None:
        """Nothing more comes: who waits gets `error`."""
        self.requests.clear()
        self._told.put(error)
        self.begun.set()
        self.decoded.set()

    def decode(self, _chunk: str) -> Decoding:
        """The next chunk, as `Synthesizer.voiced` asks for it; waits until its prompt was read."""
        return Decoding(self._next(), self._rounds(), elsewhere=True)

    def _rounds(self) -> Iterator[dict[int, Round]]:
        while (told := self._next()) is not None:
            yield {0: told}

    def _next(self) -> float | Round | None:
        told = self._told.get()
        if isinstance(told, Exception):
            raise told
        return told
