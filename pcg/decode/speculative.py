"""The speculative loop: draft, verify, judge, commit (PCG Algorithm 1; SSD Figure 2). The rule is the caller's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter

import torch

from pcg.decode.model_runner import ModelRunner
from pcg.decode.runners import AnyDraft, make_runners
from pcg.decode.sequence import DecodingSequence
from pcg.errors import PCGError
from pcg.models.llama import DecodingLlama
from pcg.rules import Rule, Verdict
from pcg.sampling import SampledSpan, SamplerState, as_array, draw
from pcg.take import Round
from pcg.text.prompt import Prompt


def to_the_end(
    target: ModelRunner, draft: ModelRunner | None, sequences: Sequence[DecodingSequence]
) -> Iterator[dict[int, Round]]:
    """Yield a Round by row for every target call, until each sequence came to its end of speech, its pause or its limit.

    The times in a Round are the batch's. draft: None where no sequence has a rule.
    """
    while speaking := [sequence for sequence in sequences if sequence.speaking]:
        played = play_round(target, draft, speaking)
        if failure := next((round_ for round_ in played.values() if isinstance(round_, Exception)), None):
            raise failure
        yield played


def play_round(
    target: ModelRunner, draft: ModelRunner | None, sequences: Sequence[DecodingSequence]
) -> dict[int, Round | Exception]:
    """Play one round of all `sequences`: one turn of the draft for those with a rule, and one pass of the target.

    Each sequence has coins of its own, so its tokens do not depend on its batch. Both caches hold all emitted tokens but the
    newest; after a full acceptance the draft also lacks the last drafted one, and reads both in the next round.

    Returns:
        By row the Round, or the exception that its rule raised. A failed pass is raised.
    """
    begun = perf_counter()
    _propose(draft, [sequence for sequence in sequences if sequence.rule])
    proposed = perf_counter()
    spans = target.sampled_spans([sequence.to_verify(target.read(sequence.row)) for sequence in sequences])
    verified = perf_counter()
    verdicts = [_judge(sequence, span) for sequence, span in zip(sequences, spans, strict=True)]
    times = {
        "draft_ms": 1e3 * (proposed - begun),
        "verify_ms": 1e3 * (verified - proposed),
        "rule_ms": 1e3 * (perf_counter() - verified),
    }
    played: dict[int, Round | Exception] = {}
    for sequence, span, verdict in zip(sequences, spans, verdicts, strict=True):
        row = sequence.row
        if isinstance(verdict, Exception):
            played[row] = verdict
            continue
        room = sequence.limit - len(sequence.emitted)
        played[row] = cut_round(verdict, sequence.drafted, target.vocabulary_size - 1, room, times)
        sequence.commit(played[row], span.after(verdict.accepted, verdict.next_token))
        for reader in (target, draft) if sequence.rule else (target,):
            reader.roll_back(row, max(0, min(reader.read(row), len(sequence.emitted) - 1)))
    return played


def _propose(draft: ModelRunner | None, sequences: Sequence[DecodingSequence]) -> None:
    """Draft for each sequence, in one turn."""
    if sequences:
        requests = [sequence.to_draft(draft.read(sequence.row)) for sequence in sequences]
        for sequence, proposal in zip(sequences, draft.propose(requests), strict=True):
            sequence.proposal = proposal


def _judge(sequence: DecodingSequence, span: SampledSpan) -> Verdict | Exception:
    """Apply the sequence's rule; autoregressive sequences sample the next token from the target."""
    try:
        if sequence.rule is None:
            coin = float(torch.rand(1, generator=sequence.generator, dtype=torch.float64))
            return Verdict(0, draw(as_array(span.probs)[0], coin), "target", ())
        return sequence.rule(sequence.proposal.drafted, sequence.proposal.probs, span.probs, sequence.coins)
    except Exception as error:
        return error


def cut_round(verdict: Verdict, drafted: list[int], eos: int, room: int, times: dict[str, float]) -> Round:
    """Cut what a verdict emits, and its tests, before the end of speech and to the `room` that is left."""
    tokens = [*drafted[: verdict.accepted], verdict.next_token]
    kinds = ["accepted"] * verdict.accepted + [verdict.next_kind]
    tested = [test.group_size for test in verdict.tests[: verdict.accepted]]
    sizes = [*tested, *[1] * (verdict.accepted - len(tested)), verdict.next_group_size]  # a caller's rule may tell no tests
    ended = eos in tokens[:room]
    count = tokens.index(eos) if ended else min(room, len(tokens))
    accepted = min(verdict.accepted, count + ended)
    return Round(
        tuple(tokens[:count]),
        tuple(kinds[:count]),
        tuple(sizes[:count]),
        accepted,
        ended,
        tuple(drafted),
        verdict.tests[: count + ended],
        verdict.trials,
        verdict.next_group,
        **times,
    )


BLANK = Prompt(torch.zeros(1, dtype=torch.int64), torch.zeros(1), 1.0)


@dataclass(frozen=True)
class Request:
    """One text: behind `prompt` at most `limit` tokens, `lookahead` drafted a round for `rule`; without one, AR."""

    prompt: Prompt
    limit: int
    generator: torch.Generator
    sampler: SamplerState
    rule: Rule | None = None
    lookahead: int = 0

    @property
    def positions(self) -> int:
        """How many the caches need for it, drafted tokens included."""
        return len(self.prompt.ids) + self.limit + self.lookahead + 1


def decode_on_host(target: DecodingLlama, draft: AnyDraft | None, requests: Sequence[Request]) -> Iterator[dict[int, Round]]:
    """Read the prompts of `requests`, one a row; return their rounds as `to_the_end` yields them."""
    prompts, limit = [request.prompt for request in requests], max(r.positions - len(r.prompt.ids) for r in requests)
    runners = make_runners(target, draft if any(r.rule for r in requests) else None, prompts, limit)
    for runner in runners:
        runner.prefill()
    return to_the_end(*(*runners, None)[:2], [sequence_of(row, request) for row, request in enumerate(requests)])


def sequence_of(row: int, request: Request) -> DecodingSequence:
    """Begin a request in a row."""
    return DecodingSequence(row, request.limit, request.generator, request.sampler, request.rule, request.lookahead)


class RunningBatch:
    """Up to `rows` requests of up to `positions` positions side by side; each says what it would say alone."""

    def __init__(self, target: DecodingLlama, draft: AnyDraft | None, rows: int, positions: int) -> None:
        self._models, self._positions = (target, draft), positions
        self._rows: list[DecodingSequence | None] = [None] * rows

    @cached_property
    def _runners(self) -> list[ModelRunner]:
        return make_runners(*self._models, [BLANK] * len(self._rows), self._positions - len(BLANK.ids))

    @property
    def speaking(self) -> int:
        """How many rows are taken."""
        return sum(sequence is not None for sequence in self._rows)

    @property
    def free(self) -> int:
        return len(self._rows) - self.speaking

    def check(self, request: Request) -> None:
        """Raises PCGError where the request will never fit, and ValueError where it drafts and there is no draft."""
        if request.positions > self._positions:
            needed = f"{request.positions:,} positions with its voice, but there is room for {self._positions:,}"
            raise PCGError(f"The text needs {needed}: try a shorter one.")
        if request.rule and self._models[1] is None:
            raise ValueError("a request with a rule needs a draft")

    def join(self, request: Request) -> int:
        """Read the prompt of a request, and return its row: it speaks from the next `step` on. There has to be a free one."""
        self.check(request)
        row = self._rows.index(None)
        for each in self._runners:
            each.put(row, request.prompt)
        for each in self._runners if request.rule else self._runners[:1]:
            each.prefill([row])
        self._rows[row] = sequence_of(row, request)
        return row

    def leave(self, row: int) -> None:
        """Give up what is spoken in `row`."""
        self._rows[row] = None

    def step(self, only: int | None = None) -> dict[int, Round | Exception]:
        """Play one round of every row, or of row `only`. A row that has come to its end or its limit is free from then on, and
        so is one with an exception, which ends that row alone. Where a whole pass fails, all rows are free, and the exception
        is raised."""
        return self._step([sequence for sequence in self._rows if sequence and only in (None, sequence.row)])

    def _step(self, sequences: Sequence[DecodingSequence]) -> dict[int, Round | Exception]:
        if not sequences:
            return {}
        try:
            played = play_round(*(*self._runners, None)[:2], sequences)
        except Exception:
            self._rows = [None] * len(self._rows)
            raise
        for sequence in sequences:
            if isinstance(played[sequence.row], Exception) or not sequence.speaking:
                self.leave(sequence.row)
        return played

    def speaks(self, row: int) -> bool:
        return self._rows[row] is not None
