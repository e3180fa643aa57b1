"""Settings -> the sampler that they ask for."""

from pcg.sampling.entropy_aware import EntropyAware
from pcg.sampling.memory import Memory
from pcg.sampling.plain import Plain
from pcg.sampling.repetition_aware import RepetitionAware
from pcg.settings import Settings


def memory_of(settings: Settings) -> Memory:
    """What an utterance remembers before its first token. A `top_k` or `top_p` of 0 leaves it to the sampler: all tokens for
    "plain", the papers' 50 and 0.8 for "ras" and "eas"."""
    given = {name: value for name in ("top_k", "top_p") if (value := getattr(settings, name))}
    if settings.sampler == "ras":
        return RepetitionAware(settings.temperature, **given)
    if settings.sampler == "eas":
        return EntropyAware(settings.temperature, **given)
    return Plain(settings.temperature, penalty=settings.repetition_penalty, **given)
