"""What a running batch gives: clients that speak at once through a `SpeechService` against the same takes one by one."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import mean, median
from time import perf_counter

import torch

from pcg.bench.engine import TEXT
from pcg.decode.speculative import RunningBatch
from pcg.serving.speech_service import POSITIONS, SpeechService
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Round, Sound, Take

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
    """`clients` at once. tokens_per_second: of all together, streamed; speedup: over those one by one, whole_speedup: the same
    where the sound is made at the end, decoding_speedup: of the rounds alone, without prompts and sound. Seconds to the
    first sound: the median and the longest. slowest_over_lone: the time of the slowest client over that of a lone one."""

    clients: int
    tokens_per_second: float
    speedup: float
    whole_speedup: float
    decoding_speedup: float
    first_sound_seconds: float
    last_first_sound_seconds: float
    slowest_over_lone: float

    def __str__(self) -> str:
        return (
            f"{self.clients:2} at once: {self.tokens_per_second:.0f} tokens/s, {self.speedup:.2f} x streamed, "
            f"{self.whole_speedup:.2f} x with the sound at the end, {self.decoding_speedup:.2f} x in the rounds alone; "
            f"first sound after {self.first_sound_seconds:.2f} s, the last after {self.last_first_sound_seconds:.2f} s; "
            f"the slowest takes {self.slowest_over_lone:.2f} x a lone one"
        )


def bench_batching(synthesizer: Synthesizer, clients: int, repeats: int) -> dict[str, object]:
    """Print and return, by method, the figures of 1, 4, 8 .. `clients` clients. Everything runs on one core, the work of the
    codec included, where the system allows to choose it. Those at once take turns with the same ones one by one."""
    figures: dict[str, object] = {}
    sizes = sorted({*(size for size in CLIENTS if size < clients), clients})
    with _one_core():
        synthesizer.warm_up()
        service = SpeechService(synthesizer, rows=clients)
        for method in METHODS:
            wishes = [Settings(method, seed=seed) for seed in range(clients)]
            _together(service, wishes, True, "Warming up.")  # so that every row has been used
            rounds = {size: _rounds_alone(synthesizer, wishes[:size]) for size in {1, *sizes}}
            found = [_company(service, wishes[:size], repeats, rounds[size] / rounds[1]) for size in sizes]
            figures[method] = [{name: round(value, 4) for name, value in asdict(each).items()} for each in found]
            print(f"{method}, rounds of one row: {rounds[1]:.0f} tokens/s", *found, sep="\n", flush=True)
        service.close()
    return figures


@contextmanager
def _one_core() -> Iterator[None]:
    """Threads that are started meanwhile share it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _company(service: SpeechService, wishes: Sequence[Settings], repeats: int, decoding_speedup: float) -> Company:
    speedups: dict[bool, list[float]] = {True: [], False: []}
    heard: list[Heard] = []
    rates, slowest = [], []
    for _ in range(repeats):
        for stream in (True, False):
            lone = _one_by_one(service.synthesizer, wishes, stream)
            begun = perf_counter()
            now = _together(service, wishes, stream)
            spent = perf_counter() - begun
            speedups[stream].append(sum(each.whole for each in lone) / spent)
            if stream:
                heard += now
                rates.append(sum(each.tokens for each in now) / spent)
                slowest.append(max(each.whole for each in now) / mean(each.whole for each in lone))
    first = [each.first_sound for each in heard]
    speedup, whole = (median(speedups[stream]) for stream in (True, False))
    sounds = (median(first), max(first), median(slowest))
    return Company(len(wishes), median(rates), speedup, whole, decoding_speedup, *sounds)


def _rounds_alone(synthesizer: Synthesizer, wishes: Sequence[Settings]) -> float:
    """Tokens/s of a batch from when all prompts were read to the end of the first take."""
    voice, speaker = synthesizer.voice, synthesizer.voice.reference(_name(synthesizer))
    batch, tokens = RunningBatch(voice.target, voice.draft, len(wishes), POSITIONS), 0
    for each in wishes:
        coins = torch.Generator().manual_seed(each.seed)
        batch.join(synthesizer.decoder.request(TEXT, speaker, each, synthesizer.rule(each), coins))
    begun = perf_counter()
    while not (tokens and batch.free):
        tokens += sum(len(round_.tokens) + round_.ended for round_ in batch.step().values())
    return tokens / (perf_counter() - begun)


def _together(service: SpeechService, wishes: Sequence[Settings], stream: bool, text: str = TEXT) -> list[Heard]:
    name = _name(service.synthesizer)
    with ThreadPoolExecutor(len(wishes)) as pool:
        return list(pool.map(lambda each: _hear(lambda: service.speak(text, each, name, stream=stream)), wishes))


def _one_by_one(synthesizer: Synthesizer, wishes: Sequence[Settings], stream: bool) -> list[Heard]:
    name = _name(synthesizer)
    return [_hear(lambda each=each: synthesizer.speak(TEXT, each, name, stream=stream)) for each in wishes]


def _name(synthesizer: Synthesizer) -> str:
    return next(iter(synthesizer.voice.references))


def _hear(speak: Callable[[], Iterable[Round | Sound | Take]]) -> Heard:
    begun, first, tokens = perf_counter(), 0.0, 0
    for step in speak():
        if isinstance(step, Sound) and not first:
            first = perf_counter() - begun
        elif isinstance(step, Round):
            tokens += len(step.tokens) + step.ended
    return Heard(tokens, first, perf_counter() - begun)
