"""The four methods on the same texts: tokens/s of the decoding loop, their ratio to AR, and the bound on it."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median

import numpy as np
import torch

from pcg.bench.rounds import round_costs
from pcg.metrics.bound import StepCosts
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import Voice
from pcg.takes.take import Take
from pcg.text.prompt import Prompt, Reference

ROUNDS = 12


@dataclass(frozen=True)
class MethodSpeed:
    """One method: tokens/s of the decoding loop, over that of AR, the bound on that ratio and how much of it is reached (None
    for AR, and where rounds draft different numbers of tokens and so cost different amounts). Acceptance is told of drafted and
    of tested tokens, and as the share of rounds in which the token at each position stood."""

    tokens_per_second: float
    speedup_vs_ar: float
    acceptance_rate: float | None
    acceptance_of_tested: float | None
    acceptance_by_position: tuple[float, ...]
    mean_acceptance_length: float
    bound: float | None
    bound_fraction: float | None


def step_costs(voice: Voice, prompt: Prompt, lookahead: int, temperature: float, repeats: int = 7) -> StepCosts:
    """The parts of rounds behind `prompt`, in turns with steps of AR; where nothing drafts, a draft step takes no time."""
    if voice.draft is None:
        ar = round_costs(voice, prompt, temperature, (), ROUNDS * repeats).ar
        return StepCosts(ar, 0.0, ar)
    return round_costs(voice, prompt, temperature, (lookahead,), ROUNDS * repeats).steps(lookahead)


def method_speeds(
    synthesizer: Synthesizer, texts: Sequence[str], voice: str, settings: Settings, repeats: int
) -> dict[str, MethodSpeed]:
    """Let the methods that can speak say `texts` in turns, `repeats` times each with a seed of its own; the steps are timed in
    between. Speeds: medians over the repeats."""
    takes: dict[str, list[Take]] = {method: [] for method in synthesizer.methods}
    costs: list[StepCosts] = []
    prompt = synthesizer.voice.reader.prompt(texts[0], synthesizer.voice.reference(voice))
    synthesizer.warm_up()
    shuffle = random.Random(0)
    for turn in range(repeats):
        seeded = settings.with_(seed=settings.seed + turn)
        for method, said in in_turns(synthesizer, texts, seeded, voice, shuffle).items():
            takes[method].append(pooled(said))
        costs.append(step_costs(synthesizer.voice, prompt, settings.lookahead, settings.temperature, repeats=1))
    steps = StepCosts(*(median(getattr(c, name) for c in costs) for name in ("ar", "draft", "verify")))
    speeds = {method: median(take.tokens_per_second for take in those) for method, those in takes.items()}
    return {m: _row(those, speeds[m], speeds["ar"], steps, settings.lookahead) for m, those in takes.items()}


def in_turns(
    synthesizer: Synthesizer,
    texts: Sequence[str],
    settings: Settings,
    voice: str,
    shuffle: random.Random,
    reference: Reference | None = None,
) -> dict[str, list[Take]]:
    """Each of `texts` by every method that can speak, one method after another in an order that `shuffle` draws for each text:
    what comes last in a fixed order is flattered."""
    takes: dict[str, list[Take]] = {method: [] for method in synthesizer.methods}
    for text in texts:
        for method in shuffle.sample(synthesizer.methods, len(synthesizer.methods)):
            takes[method].append(synthesizer.take(text, settings.for_method(method), voice, reference))
    return takes


def pooled(takes: Sequence[Take]) -> Take:
    """`takes`, which differ in text and seed alone, as one that says all their texts: its figures are theirs together."""
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


def _row(takes: Sequence[Take], speed: float, ar: float, steps: StepCosts, lookahead: int) -> MethodSpeed:
    every = pooled(takes)
    bound = None
    if {len(r.drafted) for r in every.rounds} == {lookahead}:
        bound = steps.bound(every.mean_acceptance_length, lookahead)
    return MethodSpeed(
        speed,
        speed / ar,
        every.acceptance_rate,
        every.acceptance_of_tested,
        tuple(every.acceptance_by_position),
        every.mean_acceptance_length,
        bound,
        None if bound is None else speed / ar / bound,
    )


def as_json(speeds: Mapping[str, MethodSpeed], field: str) -> dict[str, object]:
    """One field of every method, rounded."""
    return {method: _rounded(getattr(speed, field)) for method, speed in speeds.items()}


def _rounded(value: float | tuple[float, ...] | None) -> object:
    if value is None:
        return None
    return [round(each, 4) for each in value] if isinstance(value, tuple) else round(value, 4)


def plain_prompt(voice: Voice, text: str, name: str) -> Prompt:
    """The prompt of `text` with the positions that transformers gives to ids, for comparison with its own `generate`."""
    ids = voice.reader.prompt(text, voice.reference(name)).ids
    return Prompt(ids, torch.arange(len(ids), dtype=torch.float32), float(len(ids)))
