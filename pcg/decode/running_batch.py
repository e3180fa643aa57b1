"""A batch that requests join and leave between rounds (Orca: Yu et al., OSDI 2022): one pass of the target for all rows."""

from dataclasses import dataclass

import torch

from pcg.decode.runners import AnyDraft, make_runners
from pcg.decode.sequence import DecodingSequence
from pcg.decode.speculative import Drafting, Line, play_round
from pcg.errors import PCGError
from pcg.models.llama import DecodingLlama
from pcg.rules import Rule
from pcg.sampling import SamplerState
from pcg.takes.take import Round
from pcg.text.prompt import Prompt

BLANK = Prompt(torch.zeros(1, dtype=torch.int64), torch.zeros(1), 1.0)


@dataclass(frozen=True)
class Request:
    """One text to be spoken: behind `prompt`, at most `limit` tokens. `rule` and `drafting`: see `Line`; without the two the
    target speaks alone."""

    prompt: Prompt
    limit: int
    generator: torch.Generator
    memory: SamplerState
    rule: Rule | None = None
    drafting: Drafting | None = None

    @property
    def positions(self) -> int:
        """How many the caches need for it, drafted tokens included."""
        return len(self.prompt.ids) + self.limit + (self.drafting.lookahead if self.drafting else 0) + 1


class RunningBatch:
    """Up to `rows` requests side by side, each of up to `positions` positions. The caches are allotted once. Rows may differ in
    all that a `Request` says; each says what it would say alone."""

    def __init__(self, target: DecodingLlama, draft: AnyDraft | None, rows: int, positions: int) -> None:
        self._positions = positions
        self._runners = make_runners(target, draft, [BLANK] * rows, positions - len(BLANK.ids))
        self._lines: list[Line | None] = [None] * rows

    @property
    def speaking(self) -> int:
        """How many rows are taken."""
        return sum(line is not None for line in self._lines)

    @property
    def free(self) -> int:
        return len(self._lines) - self.speaking

    def check(self, request: Request) -> None:
        """Raises PCGError where the request will never fit, and ValueError where it drafts and there is no draft."""
        if request.positions > self._positions:
            needed = f"{request.positions:,} positions with its voice, but there is room for {self._positions:,}"
            raise PCGError(f"The text needs {needed}: try a shorter one.")
        if request.rule and len(self._runners) < 2:
            raise ValueError("a request with a rule needs a draft")

    def join(self, request: Request) -> int:
        """Read the prompt of a request, and return its row: it speaks from the next `step` on. There has to be a free one."""
        self.check(request)
        row = self._lines.index(None)
        for each in self._runners:
            each.put(row, request.prompt)
        for each in self._runners if request.rule else self._runners[:1]:
            each.prefill([row])
        utterance = DecodingSequence(row, request.limit, request.generator, request.memory)
        self._lines[row] = Line(utterance, request.rule, request.drafting)
        return row

    def leave(self, row: int) -> None:
        """Give up what is spoken in `row`."""
        self._lines[row] = None

    def step(self, only: int | None = None) -> dict[int, Round | Exception]:
        """One round of every row, or of row `only`. A row that has come to its end or its limit is free from then on, and so is
        one with an exception, which ends that row alone. Where a whole pass fails, all rows are free, and the exception is
        raised."""
        lines = [line for line in self._lines if line and only in (None, line.utterance.row)]
        target, draft = (*self._runners, None)[:2]
        try:
            played = play_round(target, draft, lines) if lines else {}
        except Exception:
            self._lines = [None] * len(self._lines)
            raise
        for line in lines:
            row = line.utterance.row
            if isinstance(played[row], Exception) or not line.utterance.speaking:
                self.leave(row)
        return played

    def speaks(self, row: int) -> bool:
        return self._lines[row] is not None
