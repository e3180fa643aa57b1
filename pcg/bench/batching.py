"""What a running batch gives: clients that speak at once through a `SpeechService` against the same takes one by one."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from statistics import mean, median
from time import perf_counter

from pcg.bench.engine import TEXT
from pcg.serving.speech_service import SpeechService
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Round, Sound, Take

CLIENTS = (1, 4, 8, 16)
METHODS = ("ar", "pcg")


@dataclass(frozen=True)
class Heard:
    """What one client saw of its take, in seconds from its request on."""

    tokens: int
    first_sound: float
    whole: float


@dataclass(frozen=True)
class Company:
    """`clients` at once: tokens/s of all together, and over those one by one; seconds to the first sound, the median and the
    longest; the time of the slowest client over that of a lone one."""

    clients: int
    tokens_per_second: float
    speedup: float
    first_sound_seconds: float
    last_first_sound_seconds: float
    slowest_over_lone: float


def bench_batching(synthesizer: Synthesizer, clients: int, repeats: int) -> dict[str, object]:
    """Print and return, by method, the figures of 1, 4, 8 .. `clients` clients. Everything runs on one core, the work of the
    codec included, where the system allows to choose it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    synthesizer.warm_up()
    service = SpeechService(synthesizer, rows=max(clients, 1))
    figures: dict[str, object] = {}
    for method in METHODS:
        wishes = [Settings(method, seed=seed) for seed in range(clients)]
        _together(service, wishes, "Warming up.")  # so that every row has been used
        lone = [each for _ in range(repeats) for each in _one_by_one(synthesizer, wishes)]
        alone = sum(each.tokens for each in lone) / sum(each.whole for each in lone)
        print(f"{method} one by one: {alone:.0f} tokens/s, {mean(each.whole for each in lone):.2f} s a take", end="")
        print(f", first sound after {median(each.first_sound for each in lone):.3f} s", flush=True)
        sizes = sorted({*(size for size in CLIENTS if size < clients), clients})
        found = [_company(service, wishes[:size], repeats, lone, alone) for size in sizes]
        figures[method] = {
            "one_by_one_tokens_per_second": round(alone, 1),
            "one_by_one_first_sound_seconds": round(median(each.first_sound for each in lone), 4),
            "together": [{name: round(value, 4) for name, value in asdict(each).items()} for each in found],
        }
    service.close()
    return figures


def _company(service: SpeechService, wishes: Sequence[Settings], repeats: int, lone: Sequence[Heard], alone: float) -> Company:
    heard: list[Heard] = []
    spent, slowest = 0.0, []
    for _ in range(repeats):
        begun = perf_counter()
        now = _together(service, wishes)
        spent += perf_counter() - begun
        slowest.append(max(each.whole for each in now))
        heard += now
    rate, first = sum(each.tokens for each in heard) / spent, [each.first_sound for each in heard]
    usual = mean(each.whole for each in lone)
    found = Company(len(wishes), rate, rate / alone, median(first), max(first), median(slowest) / usual)
    print(
        f"{len(wishes):2} at once: {rate:.0f} tokens/s, {found.speedup:.2f} x; first sound after {median(first):.3f} s, ",
        end="",
    )
    print(f"the last after {max(first):.3f} s; the slowest takes {found.slowest_over_lone:.2f} x a lone one", flush=True)
    return found


def _together(service: SpeechService, wishes: Sequence[Settings], text: str = TEXT) -> list[Heard]:
    voice = _voice(service.synthesizer)
    with ThreadPoolExecutor(len(wishes)) as pool:
        return list(pool.map(lambda each: _hear(lambda: service.speak(text, each, voice, stream=True)), wishes))


def _one_by_one(synthesizer: Synthesizer, wishes: Sequence[Settings]) -> list[Heard]:
    voice = _voice(synthesizer)
    return [_hear(lambda each=each: synthesizer.speak(TEXT, each, voice, stream=True)) for each in wishes]


def _voice(synthesizer: Synthesizer) -> str:
    return next(iter(synthesizer.voice.references))


def _hear(speak: Callable[[], Iterable[Round | Sound | Take]]) -> Heard:
    begun, first, tokens = perf_counter(), 0.0, 0
    for step in speak():
        if isinstance(step, Sound) and not first:
            first = perf_counter() - begun
        elif isinstance(step, Round):
            tokens += len(step.tokens) + step.ended
    return Heard(tokens, first, perf_counter() - begun)
