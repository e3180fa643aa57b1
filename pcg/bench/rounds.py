"""What a round costs here: real loops of several lookaheads, round by round in turns with steps of AR.

All that is said of costs comes from these rounds: v, a target pass of w tokens, is the verification of a round of w - 1 drafts;
c, a draft step, is the drafting of such a round over its drafts; R is the round as a whole, rule included.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch

from pcg.acceptance.rejection import exact
from pcg.decode.autoregressive import autoregressive
from pcg.decode.cuda_graphs import GraphPool, GraphRunner
from pcg.decode.runners import AnyRunner, make_runners
from pcg.decode.sequence import begin
from pcg.decode.speculative import Drafting, speculative
from pcg.metrics.bound import StepCosts
from pcg.sampling.plain import Plain
from pcg.settings import bounds
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import Voice
from pcg.takes.take import Round
from pcg.text.prompt import Prompt

LOOKAHEADS = tuple(range(1, 9))
SPAN = 48
"""A loop begins anew behind the prompt after so many tokens, so that all read contexts of like lengths."""
BRIEF = 48
MOST = 8


@dataclass(frozen=True)
class RoundCosts:
    """Median milliseconds: `ar` of a step of AR, `first` of its pass alone; and by the number of drafts those of a round's
    three parts and of the whole."""

    ar: float
    draft: dict[int, float]
    verify: dict[int, float]
    rule: dict[int, float]
    whole: dict[int, float]
    first: float

    @property
    def pass_cost(self) -> dict[int, float]:
        """v by the number of tokens that the target reads at once, in steps of AR."""
        return {1: self.first / self.ar} | {count + 1: ms / self.ar for count, ms in self.verify.items()}

    @property
    def round_cost(self) -> dict[int, float]:
        """R by the number of drafts, in steps of AR."""
        return {count: ms / self.ar for count, ms in self.whole.items()}

    def draft_cost(self, lookahead: int) -> float:
        """c where so many tokens are drafted, in steps of AR."""
        return self.draft[lookahead] / lookahead / self.ar

    def speed_up(self, length: float, lookahead: int) -> float:
        """E / R: times AR, by rounds of so many drafts that yield `length` tokens on average."""
        return length / self.round_cost[lookahead]

    def steps(self, lookahead: int) -> StepCosts:
        return StepCosts(self.ar, self.draft[lookahead] / lookahead, self.verify[lookahead])

    @property
    def line(self) -> tuple[float, float]:
        """The cost of one more drafted token over that of a round without any, by the straight line that fits R best, and the
        most by which that misses R, as a share."""
        counts = np.array(list(self.whole), float)
        costs = np.array(list(self.whole.values()))
        slope, start = np.polyfit(counts, costs, 1) if len(counts) > 1 else (self.draft_cost(1), self.ar)
        missed = np.abs((start + slope * counts) / costs - 1).max()
        return float(slope / start) if start > 0 else 1.0, float(missed)

    @property
    def lookahead_cost(self) -> float:
        """What `Settings().lookahead_cost` is at these costs."""
        allowed = bounds("lookahead_cost")
        return min(max(round(self.line[0], 2), allowed.step), allowed.high)


class _Loop:
    """One loop that never ends: where its utterance ends, it begins anew."""

    def __init__(self, voice: Voice, prompt: Prompt, lookahead: int, temperature: float, pool: GraphPool | None):
        self._voice, self._prompt, self._lookahead, self._pool = voice, prompt, lookahead, pool
        self._memory, self._seeds = Plain(temperature), iter(range(2**31))
        self._runners: list[AnyRunner] = []
        self._steps: Iterator[dict[int, Round]] = iter(())

    def step(self) -> Round:
        while (step := next(self._steps, None)) is None:
            self._begin()
        return step[0]

    def close(self) -> None:
        for each in self._runners:
            if isinstance(each, GraphRunner) and self._pool:
                self._pool.give_back(each)
        self._runners = []

    def _begin(self) -> None:
        self.close()
        drafting = Drafting(self._lookahead)
        draft = self._voice.draft if self._lookahead else None
        limit = SPAN + self._lookahead + 2
        self._runners = make_runners(self._voice.target, draft, [self._prompt], limit, self._pool)
        for each in self._runners:
            each.prefill()
        utterances = begin(self._memory, [SPAN], [torch.Generator().manual_seed(next(self._seeds))])
        loop = speculative(*self._runners, exact, drafting, utterances) if draft else None
        self._steps = loop or autoregressive(self._runners[0], utterances)


def round_costs(
    voice: Voice,
    prompt: Prompt,
    temperature: float,
    lookaheads: Sequence[int] = LOOKAHEADS,
    turns: int = 60,
    warm: int = 3,
) -> RoundCosts:
    """Time `turns` rounds of each lookahead behind `prompt`, after `warm` that are not counted, in an order that changes from
    turn to turn: what comes last in a fixed order is flattered. Rounds that drafted fewer tokens count only where none drafted
    all."""
    pool = GraphPool() if voice.target.device.type == "cuda" else None
    loops = {count: _Loop(voice, prompt, count, temperature, pool) for count in (0, *lookaheads)}
    seen: dict[int, list[Round]] = defaultdict(list)
    order, shuffle = list(loops), random.Random(0)
    for turn in range(turns + warm):
        shuffle.shuffle(order)
        for count in order:
            round_ = loops[count].step()
            if turn >= warm:
                seen[count].append(round_)
    for loop in loops.values():
        loop.close()

    def middle(count: int, *parts: str) -> float:
        full = [r for r in seen[count] if len(r.drafted) == count] or seen[count]
        return median(sum(getattr(r, f"{part}_ms") for part in parts) for r in full)

    draft, verify, rules, whole = (
        {count: middle(count, *parts) for count in lookaheads}
        for parts in (("draft",), ("verify",), ("rule",), ("draft", "verify", "rule"))
    )
    return RoundCosts(middle(0, "verify", "rule"), draft, verify, rules, whole, middle(0, "verify"))


def lookahead_cost(synthesizer: Synthesizer, temperature: float, turns: int = 8) -> float:
    """What `Settings().lookahead_cost` is on this computer (see `RoundCosts.line`), measured in less than 0.3 seconds by the
    embedded voice: behind the beginning of a prompt alone, as reading a whole one takes longer than all rounds."""
    voice = synthesizer.voice
    reference = next(iter(voice.references.values()))
    prompt = voice.reader.prompt(reference.text, reference)
    prompt = Prompt(prompt.ids[:BRIEF], prompt.positions[:BRIEF], float(prompt.positions[:BRIEF].max()) + 1)
    return round_costs(voice, prompt, temperature, (1, MOST), turns, warm=1).lookahead_cost
