"""The four methods on one prompt: tokens/s of the decoding loop, their ratio to AR, and the bound on it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from pcg.bench.timing import medians
from pcg.decoding.llama import DecodingLlama
from pcg.decoding.lookup import PromptLookup
from pcg.decoding.state import Readers
from pcg.metrics.bound import StepCosts
from pcg.prompt import Prompt
from pcg.rules.verdict import draw
from pcg.sampling.plain import Plain
from pcg.sampling.warp import law
from pcg.settings import Settings
from pcg.synthesizer import Synthesizer
from pcg.take import Take
from pcg.voice import Voice

STEPS_AT_ONCE = 20


@dataclass(frozen=True)
class MethodSpeed:
    """One method: pooled tokens/s of the decoding loop, over that of AR, the bound on that ratio and how much of it is reached
    (None for AR, and where rounds draft different numbers of tokens and so cost different amounts)."""

    tokens_per_second: float
    speedup_vs_ar: float
    acceptance_rate: float | None
    mean_acceptance_length: float
    bound: float | None
    bound_fraction: float | None


def step_costs(voice: Voice, prompt: Prompt, lookahead: int, temperature: float, repeats: int = 7) -> StepCosts:
    """Time the three steps alone, behind `prompt`; where nothing drafts, a draft step takes no time."""
    target, draft = _started(voice.target, prompt, lookahead), _drafting(voice, prompt, lookahead, temperature)
    works = {
        "ar": lambda: _draw(target, STEPS_AT_ONCE, temperature),
        "draft": lambda: draft(STEPS_AT_ONCE),
        "verify": lambda: [_verify(target, lookahead, temperature) for _ in range(STEPS_AT_ONCE)],
    }
    spent = medians(works, repeats)
    return StepCosts(**{name: ms / STEPS_AT_ONCE for name, ms in spent.items()})


def draft_in_turns(voice: Voice, prompt: Prompt, lookahead: int, temperature: float, repeats: int = 60) -> float:
    """Milliseconds of a draft step when a verification comes after every `lookahead` of them, as in a round: what the target
    pushes out of the cache has to be read again."""
    target, draft = _started(voice.target, prompt, lookahead), _drafting(voice, prompt, lookahead, temperature)
    works = {
        "draft": lambda: draft(lookahead),
        "verify": lambda: _verify(target, lookahead, temperature),
    }
    return medians(works, repeats)["draft"] / lookahead


def _started(model: DecodingLlama, prompt: Prompt, lookahead: int) -> Readers:
    """Behind `prompt` and one code."""
    readers = Readers(model, [prompt], STEPS_AT_ONCE + lookahead + 2)
    readers.prefill()
    readers.feed([0], [[0]], 1)
    return readers


def _drafting(voice: Voice, prompt: Prompt, lookahead: int, temperature: float) -> Callable[[int], object]:
    """What lets the voice's draft, if there is one, draft so many codes one after the other, and forgets them."""
    if voice.draft is None:
        return lambda count: None
    if isinstance(voice.draft, PromptLookup):
        copies, coin = voice.draft.readers([prompt]), torch.zeros(1, 1)
        return lambda count: [copies.propose([0], [[]], coin, [Plain(temperature)]) for _ in range(count)]
    readers = _started(voice.draft, prompt, lookahead)
    return lambda count: _draw(readers, count, temperature)


def _draw(readers: Readers, count: int, temperature: float) -> None:
    """Draw `count` codes one after the other, and forget them."""
    token = [0]
    for _ in range(count):
        p = law(readers.feed([0], [token], 1)[:, 0], temperature).cpu()
        token = [draw(p[0], 0.5) % (readers.vocabulary_size - 1)]
    readers.roll_back(0, 1)


def _verify(target: Readers, lookahead: int, temperature: float) -> None:
    law(target.feed([0], [[0] * (lookahead + 1)], lookahead + 1), temperature).cpu()
    target.roll_back(0, 1)


def method_speeds(
    synthesizer: Synthesizer, texts: Sequence[str], voice: str, settings: Settings, repeats: int
) -> dict[str, MethodSpeed]:
    """Let the methods that can speak say `texts` in turns, `repeats` times each with a seed of its own; the steps are timed in
    between."""
    takes: dict[str, list[Take]] = {method: [] for method in synthesizer.methods}
    costs: list[StepCosts] = []
    prompt = synthesizer.voice.reader.prompt(texts[0], synthesizer.voice.reference(voice))
    synthesizer.warm_up()
    for turn in range(repeats):
        for text in texts:
            for method in synthesizer.methods:
                takes[method].append(synthesizer.take(text, settings.with_(method=method, seed=settings.seed + turn), voice))
        costs.append(step_costs(synthesizer.voice, prompt, settings.lookahead, settings.temperature, repeats=3))
    steps = StepCosts(*(median(getattr(c, name) for c in costs) for name in ("ar", "draft", "verify")))
    speeds = {method: _tokens_per_second(those) for method, those in takes.items()}
    return {m: _row(those, speeds[m], speeds["ar"], steps, settings.lookahead) for m, those in takes.items()}


def _tokens_per_second(takes: Sequence[Take]) -> float:
    """The median over takes, of the decoding loop alone. The end of speech is a token, too."""
    return median((len(t.tokens) + t.rounds[-1].ended) / (1e-3 * t.decoding_ms) for t in takes)


def _row(takes: Sequence[Take], speed: float, ar: float, steps: StepCosts, lookahead: int) -> MethodSpeed:
    drafted = sum(t.drafted for t in takes)
    accepted = sum(r.accepted for t in takes for r in t.rounds)
    length = 1 + accepted / sum(len(t.rounds) for t in takes)
    rate = accepted / drafted if drafted else None
    if {len(r.drafted) for t in takes for r in t.rounds} != {lookahead}:
        return MethodSpeed(speed, speed / ar, rate, length, None, None)
    bound = steps.bound(length, lookahead)
    return MethodSpeed(speed, speed / ar, rate, length, bound, speed / ar / bound)


def as_json(speeds: Mapping[str, MethodSpeed], field: str) -> dict[str, float | None]:
    """One field of every method, rounded."""
    values = {method: getattr(speed, field) for method, speed in speeds.items()}
    return {method: None if value is None else round(value, 4) for method, value in values.items()}


def plain_prompt(voice: Voice, text: str, name: str) -> Prompt:
    """The prompt of `text` with the positions that transformers gives to ids, for comparison with its own `generate`."""
    ids = voice.reader.prompt(text, voice.reference(name)).ids
    return Prompt(ids, torch.arange(len(ids), dtype=torch.float32), float(len(ids)))
