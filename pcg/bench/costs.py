"""Costs of rounds on this computer, timed in real loops, and which method pays at these costs.

v, a target pass of w tokens, is the verification of a round of w - 1 drafts; c, a draft step, is the drafting of such a round
over its drafts; R is the whole round, rule included. Rounds of each lookahead take turns with steps of AR.
"""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from statistics import median

import numpy as np
import torch

from pcg.decode.device_loop import DevicePool, decode
from pcg.decode.speculative import Request
from pcg.errors import InputError
from pcg.rules import exact
from pcg.sampling import Plain
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import Voice
from pcg.take import Round, Take
from pcg.text.prompt import Prompt

LOOKAHEADS = tuple(range(1, 9))
WARM = 3
# A loop begins anew behind the prompt after so many tokens, so that all rounds read contexts of like lengths.
SPAN = 48
TEXTS = (
    "The old boat moved slowly along the river, and the morning sun was warm and bright.",
    "Please call the doctor before nine, and bring the blue box with you.",
)
# Methods that promise something about the text: SSD can be made as fast as one likes, at the price of words.
PROMISING = ("sd", "pcg")
# A smaller gain over AR is within what one measurement differs from the next.
MARGIN = 1.03


@dataclass(frozen=True)
class RoundCosts:
    """Median milliseconds: `ar` of an AR step, `first` of its pass; by drafts, those of drafting, verification, whole round."""

    ar: float
    draft: dict[int, float]
    verify: dict[int, float]
    whole: dict[int, float]
    first: float

    @property
    def pass_cost(self) -> dict[int, float]:
        """v by the number of tokens in a pass, in AR steps."""
        return {1: self.first / self.ar} | {count + 1: ms / self.ar for count, ms in self.verify.items()}

    @property
    def round_cost(self) -> dict[int, float]:
        """R by the number of drafts, in AR steps."""
        return {count: ms / self.ar for count, ms in self.whole.items()}

    def speed_up(self, length: float, lookahead: int) -> float:
        """Return E / R: the speed over AR of rounds that yield `length` tokens on average."""
        return length / self.round_cost[lookahead]

    def bound(self, length: float, lookahead: int) -> float:
        """Return the best speed-up, E[tokens per round] / (v + L c) (arXiv 2211.17192, Theorem 3.8, with the measured v)."""
        return length * self.ar / (self.verify[lookahead] + self.draft[lookahead])


def _rounds(voice: Voice, prompt: Prompt, lookahead: int, temperature: float, pool: DevicePool | None) -> Iterator[Round]:
    """Yield rounds without end behind `prompt`: a new utterance begins where one ends."""
    for seed in itertools.count():
        chosen = (exact, lookahead) if lookahead and voice.draft else (None, 0)
        request = Request(prompt, SPAN, torch.Generator().manual_seed(seed), Plain(temperature), *chosen)
        for step in decode(voice.target, voice.draft, [request], pool):
            yield step[0]


def round_costs(voice: Voice, prompt: Prompt, temperature: float, lookaheads: Sequence[int], turns: int) -> RoundCosts:
    """Time `turns` rounds of each lookahead behind `prompt`, after `WARM` uncounted ones.

    The order changes from turn to turn: the last in a fixed order would be flattered.
    """
    pool = DevicePool() if voice.target.device.type == "cuda" else None
    loops = {n: _rounds(voice, prompt, n, temperature, pool) for n in (0, *lookaheads)}
    seen: dict[int, list[Round]] = defaultdict(list)
    order, shuffle = list(loops), random.Random(0)
    for turn in range(turns + WARM):
        shuffle.shuffle(order)
        for count in order:
            round_ = next(loops[count])
            if turn >= WARM:
                seen[count].append(round_)

    def middle(count: int, *parts: str) -> float:
        return median(sum(getattr(r, f"{part}_ms") for part in parts) for r in seen[count])

    draft, verify, whole = (
        {count: middle(count, *parts) for count in lookaheads}
        for parts in (("draft",), ("verify",), ("draft", "verify", "rule"))
    )
    return RoundCosts(middle(0, "verify", "rule"), draft, verify, whole, middle(0, "verify"))


def pooled(takes: Sequence[Take]) -> Take:
    """Join takes that differ in text and seed alone into one, whose figures are pooled over them."""
    before = accumulate((len(take.tokens) for take in takes), initial=0)
    return replace(
        takes[0],
        text=" ".join(take.text for take in takes),
        rounds=tuple(r for take in takes for r in take.rounds),
        audio=np.concatenate([take.audio for take in takes]),
        hit_limit=any(take.hit_limit for take in takes),
        prefill_ms=sum(take.prefill_ms for take in takes),
        codec_ms=sum(take.codec_ms for take in takes),
        wall_seconds=sum(take.wall_seconds for take in takes),
        cycles=tuple(cycle for take in takes for cycle in take.cycles),
        pauses=tuple((first + at, seconds) for first, take in zip(before, takes, strict=False) for at, seconds in take.pauses),
    )


@dataclass(frozen=True)
class Breakeven:
    """Which method pays: `acceptances` by method, the chance of each position to be accepted if those before it were, and
    `speedups` by method and lookahead, expected tokens over the cost of a round."""

    costs: RoundCosts
    acceptances: dict[str, tuple[float, ...]]
    speedups: dict[str, dict[int, float]]

    @classmethod
    def of(cls, costs: RoundCosts, acceptances: Mapping[str, Sequence[float]]) -> "Breakeven":
        speedups = {}
        for method, chances in acceptances.items():
            # Behind the last position that was ever tested nothing was accepted.
            tokens = [1.0, *(1 + more for more in accumulate(accumulate(chances, mul)))]
            speedups[method] = {n: costs.speed_up(tokens[min(n, len(chances))], n) for n in costs.round_cost}
        return cls(costs, {method: tuple(chances) for method, chances in acceptances.items()}, speedups)

    def best(self, method: str) -> tuple[int, float]:
        """Return the lookahead at which a method is fastest, and its speed over AR there."""
        return max(self.speedups[method].items(), key=lambda pair: pair[1])

    @property
    def winner(self) -> tuple[str, int, float]:
        """Method, lookahead and speed of the fastest of PROMISING; ar, 0 and 1 where none is faster than AR."""
        method = max((m for m in self.speedups if m in PROMISING), key=lambda m: self.best(m)[1])
        return (method, *self.best(method)) if self.best(method)[1] > MARGIN else ("ar", 0, 1.0)

    @property
    def sentence(self) -> str:
        """The verdict as a sentence."""
        method, lookahead, speedup = self.winner
        if method == "ar":
            best = max(self.best(m)[1] for m in self.speedups if m in PROMISING)
            return f"Nothing pays on this computer: AR is fastest, and the better of SD and PCG runs at {best:.2f} x AR."
        said = f"{method.upper()} pays on this computer, with lookahead {lookahead}: by estimate {speedup:.2f} x AR"
        if method == "sd":
            return said + ", and it keeps AR's distribution."
        exact, speed = self.best("sd")
        return said + f"; SD, which keeps AR's distribution, reaches {speed:.2f} x at lookahead {exact}."

    def as_dict(self) -> dict[str, object]:
        """Return the figures as JSON values."""
        method, lookahead, speedup = self.winner
        return {
            "ar_ms": round(self.costs.ar, 4),
            "pass_cost": rounded(self.costs.pass_cost, "v"),
            "round_cost": rounded(self.costs.round_cost),
            "acceptances": {method: [round(each, 4) for each in chances] for method, chances in self.acceptances.items()},
            "speedups": {method: rounded(row) for method, row in self.speedups.items()},
            "method": method,
            "lookahead": lookahead,
            "speedup": round(speedup, 4),
            "sentence": self.sentence,
        }


def will_it_pay(
    synthesizer: Synthesizer, settings: Settings, lookaheads: Sequence[int] = LOOKAHEADS, texts: Sequence[str] = TEXTS
) -> Breakeven:
    """Time rounds of each lookahead, and speak `texts` by each method at the largest one for the acceptance by position.

    Raises InputError where nothing drafts. Ten to twenty seconds for the embedded voice.
    """
    voice = synthesizer.voice
    if voice.draft is None:
        raise InputError("draft", "none", "one that drafts, as it is drafting that could pay")
    names = list(voice.references)
    synthesizer.warm_up()
    prompt = voice.reader.prompt(texts[0], voice.reference(names[0]))
    costs = round_costs(voice, prompt, settings.temperature, lookaheads, turns=40)
    acceptances = {}
    for method in (method for method in synthesizer.methods if method != "ar"):
        spoken = settings.for_method(method).with_(lookahead=max(lookaheads))
        takes = [synthesizer.take(text, spoken, names[i % len(names)]) for i, text in enumerate(texts)]
        acceptances[method] = pooled(takes).conditional_acceptance_by_position
    return Breakeven.of(costs, acceptances)


def method_figures(takes: Mapping[str, Take], costs: RoundCosts, lookahead: int) -> dict[str, dict[str, object]]:
    """Return the figures of each method's take, with `speedup` over AR, the `bound` on it and the `bound_fraction` reached."""
    rows = {}
    for method, take in takes.items():
        speedup = take.tokens_per_second / takes["ar"].tokens_per_second
        bound = None if method == "ar" else costs.bound(take.mean_acceptance_length, lookahead)
        reached = {"speedup": speedup, "bound": bound, "bound_fraction": speedup / bound if bound else None}
        rows[method] = take.summary() | {name: value and round(value, 4) for name, value in reached.items()}
    return rows


def rounded(row: Mapping[int, float], prefix: str = "") -> dict[str, float]:
    """Return the row with JSON keys, rounded."""
    return {f"{prefix}{count}": round(value, 4) for count, value in row.items()}
