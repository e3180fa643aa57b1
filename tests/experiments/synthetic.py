"""Records that nobody spoke, with figures that can be worked out by hand."""

from pcg.experiments.unit import Condition, Record, Result, Unit, Utterance

CONTEXT = {"processor": "a machine", "workers": 1, "judges": {"WER": "a judge"}, "date": "2025-01-01T00:00:00Z"}


def record(
    condition: Condition,
    utterance: int | str,
    errors: int = 1,
    words: int = 10,
    speed: float = 100.0,
    seed: int = 0,
    context: dict[str, object] | None = None,
    **figures: object,
) -> Record:
    """One utterance of 100 tokens at `speed` tokens per second of decoding; `figures` replace fields of the result."""
    fields: dict[str, object] = {
        "tokens": (7,) * 100,
        "heard": "what was heard",
        "words": (errors, words),
        "characters": (2 * errors, 5 * words),
        "similarity": 0.8,
        "dnsmos": 3.0,
        "rounds": 40,
        "drafted": 0,
        "accepted": 0,
        "tested": (),
        "accepted_at": (),
        "trials": 0,
        "hit_limit": False,
        "swapped": 0.0,
        "mel_distance": None,
        "audio_seconds": 2.0,
        "decoding_seconds": 100 / speed,
        "wall_seconds": 100 / speed + 0.5,
    }
    text = utterance if isinstance(utterance, str) else f"Sentence {utterance}."
    unit = Unit(Utterance(text, "one"), condition, seed)
    return Record(unit, Result(**(fields | figures)), CONTEXT if context is None else context)
