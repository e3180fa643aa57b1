"""Whole takes: side by side in a batch, streamed, and with adaptive lookahead."""

from pcg.bench.timing import medians
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Sound

BATCH = 8


def batch_speedup(synthesizer: Synthesizer, text: str, voice: str, settings: Settings, repeats: int) -> float:
    """The time of `BATCH` takes one by one over that of the same takes side by side: the tokens are the same."""
    seeded = [settings.with_(seed=settings.seed + i) for i in range(BATCH)]
    works = {
        "alone": lambda: [synthesizer.take(text, each, voice) for each in seeded],
        "together": lambda: synthesizer.takes([text] * BATCH, seeded, voice),
    }
    spent = medians(works, repeats)
    return spent["alone"] / spent["together"]


def first_sound_seconds(synthesizer: Synthesizer, text: str, voice: str, settings: Settings, repeats: int) -> float:
    """From the call to the first samples of a streamed take."""

    def first() -> None:
        steps = synthesizer.speak(text, settings, voice, stream=True)
        next(step for step in steps if isinstance(step, Sound))
        steps.close()

    return 1e-3 * medians({"first": first}, repeats)["first"]


def adaptive_speedup(synthesizer: Synthesizer, text: str, voice: str, settings: Settings, repeats: int) -> float:
    """Tokens/s of the decoding loop with adaptive lookahead over those with a fixed one, pooled over seeds, in turns."""
    tokens, seconds = {False: 0, True: 0}, {False: 0.0, True: 0.0}
    for seed in range(repeats):
        for adaptive in (False, True):
            take = synthesizer.take(text, settings.with_(seed=seed, adaptive=adaptive), voice)
            tokens[adaptive] += len(take.tokens)
            seconds[adaptive] += 1e-3 * take.decoding_ms
    return (tokens[True] / seconds[True]) / (tokens[False] / seconds[False])
