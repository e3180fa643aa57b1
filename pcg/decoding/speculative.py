"""The speculative loop: draft, verify, judge, roll back (PCG Algorithm 1; SSD Figure 2). The rule is the caller's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

from pcg.decoding.laws import law
from pcg.decoding.proposal import Proposal
from pcg.decoding.state import Readers
from pcg.rules.verdict import Coins, Rule, Verdict
from pcg.take import Round


@dataclass(frozen=True)
class Drafting:
    """How many tokens are drafted a round: `lookahead`, or fewer where `confidence` is given (see `Readers.propose`)."""

    lookahead: int
    confidence: float | None = None


class Drafter(Protocol):
    """Who proposes: the `Readers` of a draft, or the `LookupReaders` of none; see `Readers` for what each method does."""

    def read(self, row: int) -> int: ...

    def propose(
        self,
        rows: Sequence[int],
        unread: Sequence[Sequence[int]],
        coins: Tensor,
        temperature: float,
        confidence: float | None = None,
    ) -> list[Proposal]: ...

    def roll_back(self, row: int, read: int) -> None: ...


@dataclass
class _Utterance:
    """One row that still speaks."""

    row: int
    limit: int
    generator: torch.Generator
    emitted: list[int] = field(default_factory=list)


def speculative(
    target: Readers,
    draft: Drafter,
    rule: Rule,
    drafting: Drafting,
    temperature: float,
    limits: Sequence[int],
    generators: Sequence[torch.Generator],
) -> Iterator[dict[int, Round]]:
    """Yield a Round for every target call and row that still speaks, until its end of speech or its limit of tokens.

    Each row has coins of its own, so what it says does not depend on its company; the times in a Round are the batch's. Both
    caches hold all emitted tokens but the newest; after a full acceptance the draft also lacks the last drafted one, and reads
    both at the start of the next round.
    """
    eos = target.vocabulary_size - 1
    speaking = [_Utterance(row, limits[row], generators[row]) for row in range(target.batch)]
    while speaking:
        coins = [Coins.draw(drafting.lookahead, u.generator) for u in speaking]
        rows = [u.row for u in speaking]
        begun = perf_counter()
        unread = [u.emitted[draft.read(u.row) :] for u in speaking]
        drafts = torch.stack([c.draft for c in coins])
        proposals = draft.propose(rows, unread, drafts, temperature, drafting.confidence)
        proposed = perf_counter()
        laws = _verify(target, speaking, proposals, temperature)
        verified = perf_counter()
        verdicts = [rule(p.drafted, p.laws, q, c) for p, q, c in zip(proposals, laws, coins, strict=True)]
        judged = perf_counter()
        times = {
            "draft_ms": 1e3 * (proposed - begun),
            "verify_ms": 1e3 * (verified - proposed),
            "rule_ms": 1e3 * (judged - verified),
        }
        step = {}
        for u, proposal, verdict in zip(speaking, proposals, verdicts, strict=True):
            step[u.row] = replace(_round(verdict, proposal.drafted.tolist(), eos, u.limit - len(u.emitted)), **times)
            u.emitted += step[u.row].tokens
        speaking = [u for u in speaking if not step[u.row].ended and len(u.emitted) < u.limit]
        for u in speaking:
            target.roll_back(u.row, min(target.read(u.row), len(u.emitted) - 1))
            draft.roll_back(u.row, min(draft.read(u.row), len(u.emitted) - 1))
        yield step


def _verify(target: Readers, speaking: Sequence[_Utterance], proposals: Sequence[Proposal], temperature: float) -> list[Tensor]:
    """The target's laws at each drafted position and behind the last, `[L + 1, V]` for each row, by one pass."""
    unread = [u.emitted[target.read(u.row) :] + p.drafted.tolist() for u, p in zip(speaking, proposals, strict=True)]
    counts = [len(p.drafted) + 1 for p in proposals]
    q = law(target.feed([u.row for u in speaking], unread, max(counts)), temperature).cpu()
    return [rows[-count:] for rows, count in zip(q, counts, strict=True)]


def _round(verdict: Verdict, drafted: list[int], eos: int, room: int) -> Round:
    """What a verdict emits, cut before the end of speech and to the `room` that is left."""
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
    )
