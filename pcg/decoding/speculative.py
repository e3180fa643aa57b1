"""The speculative loop: draft, verify, judge, roll back (PCG Algorithm 1; SSD Figure 2). The rule is the caller's."""

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter

import torch
from torch import Tensor

from pcg.decoding.laws import law
from pcg.decoding.state import Reader
from pcg.rules.verdict import Coins, Rule, Verdict, draw
from pcg.take import Round


def speculative(
    target: Reader,
    draft: Reader,
    rule: Rule,
    lookahead: int,
    temperature: float,
    limit: int,
    generator: torch.Generator,
) -> Iterator[Round]:
    """Yield a Round for every target call until the end of speech or `limit` tokens.

    Both caches hold all emitted tokens but the newest; after a full acceptance the draft also lacks the last drafted one,
    and reads both at the start of the next round.
    """
    eos = target.vocabulary_size - 1
    emitted: list[int] = []
    while len(emitted) < limit:
        coins = Coins.draw(lookahead, generator)
        begun = perf_counter()
        drafted, p = propose(draft, emitted[draft.read :], lookahead, temperature, coins.draft)
        proposed = perf_counter()
        newest = emitted[target.read :]
        q = law(target.feed([*newest, *drafted.tolist()], lookahead + 1), temperature)
        verified = perf_counter()
        verdict = rule(drafted, p, q, coins)
        judged = perf_counter()
        spoken = _round(verdict, drafted.tolist(), eos, limit - len(emitted))
        emitted += spoken.tokens
        yield replace(
            spoken,
            draft_ms=1e3 * (proposed - begun),
            verify_ms=1e3 * (verified - proposed),
            rule_ms=1e3 * (judged - verified),
        )
        if spoken.ended:
            return
        target.roll_back(min(target.read, len(emitted) - 1))
        draft.roll_back(min(draft.read, len(emitted) - 1))


def propose(draft: Reader, unread: list[int], lookahead: int, temperature: float, coins: Tensor) -> tuple[Tensor, Tensor]:
    """Draft `lookahead` tokens behind the `unread` ones; return them `[L]` and their laws `[L, V]`."""
    tokens, laws = [], []
    for coin in coins[:lookahead].tolist():
        p = law(draft.feed(unread, 1), temperature)[0]
        unread = [draw(p, coin)]
        tokens += unread
        laws.append(p)
    return torch.tensor(tokens), torch.stack(laws)


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
    )
