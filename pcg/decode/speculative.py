"""The speculative loop: draft, verify, judge, roll back (PCG Algorithm 1; SSD Figure 2). The rule is the caller's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pcg.decode.draft import Proposal
from pcg.decode.model_runner import ModelRunner
from pcg.decode.runners import AnyDraft, make_runners
from pcg.decode.sequence import Acceptances, DecodingSequence, choose_lookahead, linear_costs
from pcg.errors import PCGError
from pcg.models.llama import DecodingLlama
from pcg.rules import Coins, Rule, Verdict
from pcg.sampling import SampledSpan, SamplerState, as_array, draw
from pcg.take import Round
from pcg.text.prompt import Prompt


@dataclass(frozen=True)
class Drafting:
    """How many tokens are drafted a round: `lookahead`; fewer where `confidence` is given (see `ModelRunner.propose`), or where
    fewer pay at `cost`, if that is above 0 (see `pcg.decode.sequence`)."""

    lookahead: int
    confidence: float | None = None
    cost: float = 0.0

    def count(self, past: Acceptances) -> int:
        """Decided by past rounds alone, before anything of this one is drawn."""
        if self.cost <= 0:
            return self.lookahead
        return choose_lookahead(linear_costs(self.cost, self.lookahead), past.expected(self.lookahead))


class Drafter(Protocol):
    """What proposes: the `ModelRunner` of a draft, or a `LookupRunner`; see `ModelRunner` for what each method does."""

    def read(self, row: int) -> int: ...

    def propose(
        self,
        rows: Sequence[int],
        unread: Sequence[Sequence[int]],
        coins: Sequence[Tensor | np.ndarray],
        memories: Sequence[SamplerState],
        confidence: float | None = None,
    ) -> list[Proposal]: ...

    def roll_back(self, row: int, read: int) -> None: ...


@dataclass
class Line:
    """An utterance among others, and who chooses its tokens: a `rule` among those that are drafted as `drafting` says, or,
    without the two, the target alone."""

    utterance: DecodingSequence
    rule: Rule | None = None
    drafting: Drafting | None = None


def speculative(
    target: ModelRunner, draft: Drafter, rule: Rule, drafting: Drafting, utterances: Sequence[DecodingSequence]
) -> Iterator[dict[int, Round]]:
    """Yield a Round for every target call and row that still speaks, until its end of speech, its pause or its limit of tokens.

    The times in a Round are the batch's.
    """
    return to_the_end(target, draft, [Line(each, rule, drafting) for each in utterances])


def to_the_end(target: ModelRunner, draft: Drafter | None, lines: Sequence[Line]) -> Iterator[dict[int, Round]]:
    """`play_round` with all that still speak, until none does; raises what goes wrong in any of them."""
    while speaking := [line for line in lines if line.utterance.speaking]:
        played = play_round(target, draft, speaking)
        if failure := next((each for each in played.values() if isinstance(each, Exception)), None):
            raise failure
        yield played


def play_round(target: ModelRunner, draft: Drafter | None, lines: Sequence[Line]) -> dict[int, Round | Exception]:
    """One round of all `lines`, by row: one turn of the draft for those that have a rule, and one pass of the target. Where a
    rule fails, its line alone gets the exception; what fails in a pass or in a sampler is raised.

    Each line has coins of its own, so what it says does not depend on its company. Both caches hold all emitted tokens but the
    newest; after a full acceptance the draft also lacks the last drafted one, and reads both at the start of the next round.
    """
    begun = perf_counter()
    drafts = _propose(draft, [line for line in lines if line.rule])
    proposed = perf_counter()
    trails = _verify(target, lines, drafts)
    verified = perf_counter()
    verdicts = [_judge(line, drafts.get(line.utterance.row), trail) for line, trail in zip(lines, trails, strict=True)]
    times = {
        "draft_ms": 1e3 * (proposed - begun),
        "verify_ms": 1e3 * (verified - proposed),
        "rule_ms": 1e3 * (perf_counter() - verified),
    }
    played: dict[int, Round | Exception] = {}
    for line, trail, verdict in zip(lines, trails, verdicts, strict=True):
        u = line.utterance
        if isinstance(verdict, Exception):
            played[u.row] = verdict
            continue
        drafted = drafts[u.row][0].drafted.tolist() if line.rule else []
        round_ = _round(verdict, drafted, target.vocabulary_size - 1, u.limit - len(u.emitted), times)
        played[u.row] = round_
        u.past = u.past.after([test.accepted for test in verdict.tests])
        u.say(round_, trail.after(verdict.accepted, verdict.next_token))
        for reader in (target, draft) if line.rule else (target,):
            reader.roll_back(u.row, max(0, min(reader.read(u.row), len(u.emitted) - 1)))
    return played


Draft = tuple[Proposal, Coins]


def _propose(draft: Drafter | None, lines: Sequence[Line]) -> dict[int, Draft]:
    """What is drafted for each line, by row, and the coins of its round; one turn for all with the same confidence."""
    drafts: dict[int, Draft] = {}
    for confidence in {line.drafting.confidence for line in lines}:
        some = [line for line in lines if line.drafting.confidence == confidence]
        us = [line.utterance for line in some]
        coins = [Coins.draw(line.drafting.lookahead, line.utterance.generator) for line in some]
        few = [coin.draft[: line.drafting.count(line.utterance.past)] for line, coin in zip(some, coins, strict=True)]
        unread = [u.emitted[draft.read(u.row) :] for u in us]
        proposals = draft.propose([u.row for u in us], unread, few, [u.memory for u in us], confidence)
        drafts |= {u.row: pair for u, *pair in zip(us, proposals, coins, strict=True)}
    return drafts


def _verify(target: ModelRunner, lines: Sequence[Line], drafts: Mapping[int, Draft]) -> list[SampledSpan]:
    """The target's probabilities at each drafted position and behind the last, L + 1 for each row, by one pass."""
    us = [line.utterance for line in lines]
    drafted = [drafts[u.row][0].drafted.tolist() if u.row in drafts else [] for u in us]
    return target.sampled_spans(
        [u.row for u in us], [u.emitted[target.read(u.row) :] for u in us], drafted, [u.memory for u in us]
    )


def _judge(line: Line, draft: Draft | None, trail: SampledSpan) -> Verdict | Exception:
    """Of a line without a rule: a token that the target draws."""
    try:
        if line.rule is None:
            coin = float(torch.rand(1, generator=line.utterance.generator, dtype=torch.float64))
            return Verdict(0, draw(as_array(trail.probs)[0], coin), "target", ())
        proposal, coins = draft
        return line.rule(proposal.drafted, proposal.probs, trail.probs, coins)
    except Exception as error:
        return error


def _round(verdict: Verdict, drafted: list[int], eos: int, room: int, times: dict[str, float]) -> Round:
    """What a verdict emits, and its tests of that, cut before the end of speech and to the `room` that is left; `times` are the
    fields of a Round."""
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


def autoregressive(target: ModelRunner, utterances: Sequence[DecodingSequence]) -> Iterator[dict[int, Round]]:
    """Yield a Round a token for every row that still speaks, until its end of speech, its pause or its limit of tokens.

    The times in a Round are those of the whole batch.
    """
    return to_the_end(target, None, [Line(each) for each in utterances])


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
