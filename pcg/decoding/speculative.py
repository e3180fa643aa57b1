"""The speculative loop: draft, verify, judge, roll back (PCG Algorithm 1; SSD Figure 2). The rule is the caller's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pcg.acceptance.verdict import Coins, Rule, Verdict
from pcg.decoding.lookahead import Acceptances, choose_lookahead, linear_costs
from pcg.decoding.model_runner import ModelRunner
from pcg.decoding.proposal import Proposal
from pcg.decoding.sequence import DecodingSequence
from pcg.sampling.memory import Memory, Trail
from pcg.takes.take import Round


@dataclass(frozen=True)
class Drafting:
    """How many tokens are drafted a round: `lookahead`; fewer where `confidence` is given (see `ModelRunner.propose`), or where
    fewer pay at `cost`, if that is above 0 (see `pcg.decoding.lookahead`)."""

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
        coins: Tensor,
        memories: Sequence[Memory],
        confidence: float | None = None,
    ) -> list[Proposal]: ...

    def roll_back(self, row: int, read: int) -> None: ...


def speculative(
    target: ModelRunner, draft: Drafter, rule: Rule, drafting: Drafting, utterances: Sequence[DecodingSequence]
) -> Iterator[dict[int, Round]]:
    """Yield a Round for every target call and row that still speaks, until its end of speech, its pause or its limit of tokens.

    Each row has coins of its own, so what it says does not depend on its company; the times in a Round are the batch's. Both
    caches hold all emitted tokens but the newest; after a full acceptance the draft also lacks the last drafted one, and reads
    both at the start of the next round.
    """
    eos = target.vocabulary_size - 1
    past = {u.row: Acceptances() for u in utterances}
    while speaking := [u for u in utterances if u.speaking]:
        begun = perf_counter()
        coins = [Coins.draw(drafting.lookahead, u.generator) for u in speaking]
        rows, memories = [u.row for u in speaking], [u.memory for u in speaking]
        unread = [u.emitted[draft.read(u.row) :] for u in speaking]
        counts = [drafting.count(past[row]) for row in rows]
        drafts = torch.from_numpy(np.stack([c.draft[: max(counts)] for c in coins]))
        proposals = draft.propose(rows, unread, drafts, memories, drafting.confidence)
        proposals = [each.first(count) for each, count in zip(proposals, counts, strict=True)]
        proposed = perf_counter()
        trails = _verify(target, speaking, proposals)
        verified = perf_counter()
        verdicts = [rule(p.drafted, p.probs, t.probs, c) for p, t, c in zip(proposals, trails, coins, strict=True)]
        judged = perf_counter()
        times = {
            "draft_ms": 1e3 * (proposed - begun),
            "verify_ms": 1e3 * (verified - proposed),
            "rule_ms": 1e3 * (judged - verified),
        }
        step = {}
        for u, proposal, trail, verdict in zip(speaking, proposals, trails, verdicts, strict=True):
            step[u.row] = _round(verdict, proposal.drafted.tolist(), eos, u.limit - len(u.emitted), times)
            past[u.row] = past[u.row].after([test.accepted for test in verdict.tests])
            u.say(step[u.row], trail.after(verdict.accepted, verdict.next_token))
            if not u.ended and len(u.emitted) < u.limit:
                target.roll_back(u.row, min(target.read(u.row), len(u.emitted) - 1))
                draft.roll_back(u.row, min(draft.read(u.row), len(u.emitted) - 1))
        yield step


def _verify(target: ModelRunner, speaking: Sequence[DecodingSequence], proposals: Sequence[Proposal]) -> list[Trail]:
    """The target's probabilities at each drafted position and behind the last, L + 1 for each row, by one pass."""
    rows, memories = [u.row for u in speaking], [u.memory for u in speaking]
    unread = [u.emitted[target.read(u.row) :] for u in speaking]
    return target.trails(rows, unread, [p.drafted.tolist() for p in proposals], memories)


def _round(verdict: Verdict, drafted: list[int], eos: int, room: int, times: dict[str, float]) -> Round:
    """What a verdict emits, cut before the end of speech and to the `room` that is left; `times` are the fields of a Round."""
    tokens = [*drafted[: verdict.accepted], verdict.next_token]
    kinds = ["accepted"] * verdict.accepted + [verdict.next_kind]
    sizes = [*(test.group_size for test in verdict.tests[: verdict.accepted]), verdict.next_group_size]
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
        verdict.tests,
        verdict.trials,
        verdict.next_group,
        **times,
    )
