"""Clients that speak at once through a `SpeechService`, against the same takes one by one."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
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
class ClientTimes:
    """The tokens of one client, and the seconds from its request to its first sound and to its end."""

    tokens: int
    first_sound: float
    whole: float


SHOWN = (
    "{clients:2} at once: {tokens_per_second:.0f} tokens/s, {speedup:.2f} x one by one, {decoding_speedup:.2f} x in the rounds "
    "alone; first sound after {first_sound_seconds:.2f} s; the slowest takes {slowest_over_lone:.2f} x a lone one"
)


def bench_batching(synthesizer: Synthesizer, clients: int, repeats: int) -> dict[str, object]:
    """Print and return, by method, the figures of 1, 4, 8 .. `clients` clients. Everything runs on one core, the work of the
    codec included, where the system allows to choose it. Those at once take turns with the same ones one by one."""
    figures: dict[str, object] = {}
    sizes = sorted({*(size for size in CLIENTS if size < clients), clients})
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if cores:  # threads that are started meanwhile share the core
        os.sched_setaffinity(0, {max(cores)})
    try:
        synthesizer.warm_up()
        service = SpeechService(synthesizer, rows=clients)
        for method in METHODS:
            requests = [Settings(method, seed=seed) for seed in range(clients)]
            _together(service, requests, "Warming up.")  # so that every row has been used
            rounds = {size: _rounds_alone(synthesizer, requests[:size]) for size in {1, *sizes}}
            rows = [_measure(service, requests[:size], repeats, rounds[size] / rounds[1]) for size in sizes]
            figures[method] = [{name: round(value, 4) for name, value in row.items()} for row in rows]
            print(f"{method}, rounds of one row: {rounds[1]:.0f} tokens/s", flush=True)
            print(*(SHOWN.format(**row) for row in rows), sep="\n", flush=True)
        service.close()
    finally:
        if cores:
            os.sched_setaffinity(0, cores)
    return figures


def _measure(service: SpeechService, requests: Sequence[Settings], repeats: int, decoding_speedup: float) -> dict[str, float]:
    """Return tokens/s of all requests together, the speed-ups over one by one and of the rounds alone, the median seconds to
    the first sound, and the slowest client over a lone one."""
    synthesizer, speedups, first_sounds, rates, slowest = service.synthesizer, [], [], [], []
    say = partial(synthesizer.speak, TEXT, voice=_speaker(synthesizer), stream=True)
    for _ in range(repeats):
        lone = [_time(partial(say, settings=each)).whole for each in requests]
        begun = perf_counter()
        together = _together(service, requests)
        spent = perf_counter() - begun
        speedups.append(sum(lone) / spent)
        first_sounds += [client.first_sound for client in together]
        rates.append(sum(client.tokens for client in together) / spent)
        slowest.append(max(client.whole for client in together) / mean(lone))
    return {
        "clients": len(requests),
        "tokens_per_second": median(rates),
        "speedup": median(speedups),
        "decoding_speedup": decoding_speedup,
        "first_sound_seconds": median(first_sounds),
        "slowest_over_lone": median(slowest),
    }


def _rounds_alone(synthesizer: Synthesizer, requests: Sequence[Settings]) -> float:
    """Tokens/s of a batch from when all prompts were read to the end of the first take."""
    voice, speaker = synthesizer.voice, synthesizer.voice.reference(_speaker(synthesizer))
    batch, tokens = RunningBatch(voice.target, voice.draft, len(requests), POSITIONS), 0
    for each in requests:
        coins = torch.Generator().manual_seed(each.seed)
        batch.join(synthesizer.decoder.request(TEXT, speaker, each, synthesizer.rule(each), coins))
    begun = perf_counter()
    while not (tokens and batch.free):
        tokens += sum(len(round_.tokens) + round_.ended for round_ in batch.step().values())
    return tokens / (perf_counter() - begun)


def _together(service: SpeechService, requests: Sequence[Settings], text: str = TEXT) -> list[ClientTimes]:
    say = partial(service.speak, text, voice=_speaker(service.synthesizer), stream=True)
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda each: _time(partial(say, settings=each)), requests))


def _speaker(synthesizer: Synthesizer) -> str:
    return next(iter(synthesizer.voice.references))


def _time(speak: Callable[[], Iterable[Round | Sound | Take]]) -> ClientTimes:
    begun, first, tokens = perf_counter(), 0.0, 0
    for step in speak():
        if isinstance(step, Sound) and not first:
            first = perf_counter() - begun
        elif isinstance(step, Round):
            tokens += len(step.tokens) + step.ended
    return ClientTimes(tokens, first, perf_counter() - begun)
