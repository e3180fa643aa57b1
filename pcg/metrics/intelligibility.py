"""Can it be understood? A judge writes down what it hears, and the differences to what was meant are counted.

Both sides are normalised alike: `text.normalise` (lower case, numbers and abbreviations as words), punctuation stripped,
apostrophes kept, spelling variants made one. A rate is only as good as its judge, so it is never shown without the judge's
name and the same judge's rate on the original recordings.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pcg.errors import InputError
from pcg.metrics.estimate import Estimate, bootstrap
from pcg.metrics.recording import JUDGE_RATE, Recording, for_judges
from pcg.text.text import normalise

NORMALISED = "lower case, numbers as words, no punctuation, apostrophes kept"

# A recogniser's dictionary holds several spellings of one spoken word; choosing another one is no error of the speaker.
_VARIANTS = {
    "ok": "okay", "alright": "all right", "can not": "cannot", "good bye": "goodbye", "good night": "goodnight",
    "grey": "gray", "colour": "color", "colours": "colors", "neighbour": "neighbor", "neighbours": "neighbors",
    "favourite": "favorite", "centre": "center", "theatre": "theater", "programme": "program", "towards": "toward",
}  # fmt: skip
_VARIANT = re.compile(r"\b(" + "|".join(_VARIANTS) + r")\b")


class Judge(Protocol):
    """`transcribe` writes down each of a batch of recordings `[N]`; what is empty or silent has the text "". `name` says who
    judged, model and version included."""

    @property
    def name(self) -> str: ...

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]: ...


class PocketSphinx:
    """The offline judge: US English acoustic model, dictionary and trigram language model from inside the package."""

    def __init__(self) -> None:
        from importlib.metadata import version

        self.name = f"pocketsphinx {version('pocketsphinx')}, stock US English model"

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]:
        return [self._hear(for_judges(samples, sample_rate)) for samples in recordings]

    def _hear(self, speech: np.ndarray) -> str:
        from pocketsphinx import Decoder

        if not np.any(speech):
            return ""
        # A decoder carries state from one utterance to the next, so that the verdict would depend on the order.
        decoder = Decoder(samprate=JUDGE_RATE, loglevel="FATAL")
        decoder.start_utt()
        decoder.process_raw((speech * 32767).astype(np.int16).tobytes(), full_utt=True)
        decoder.end_utt()
        hypothesis = decoder.hyp()
        return hypothesis.hypstr if hypothesis else ""


def transcripts(judge: Judge, recordings: Sequence[Recording]) -> list[str]:
    """What `judge` hears in each of `recordings`; those of one sample rate go to it as one batch."""
    texts = [""] * len(recordings)
    for rate in dict.fromkeys(r.sample_rate for r in recordings):
        rows = [i for i, r in enumerate(recordings) if r.sample_rate == rate]
        for row, text in zip(rows, judge.transcribe([recordings[i].samples for i in rows], rate), strict=True):
            texts[row] = text
    return texts


@dataclass(frozen=True)
class Errors:
    """Substitutions, deletions and insertions against `length` words (or characters) of the reference."""

    errors: int
    length: int

    @property
    def rate(self) -> float:
        return self.errors / self.length


def word_errors(reference: str, hypothesis: str) -> Errors:
    import jiwer

    return _errors(jiwer.process_words(*_pair(reference, hypothesis)))


def char_errors(reference: str, hypothesis: str) -> Errors:
    """Like `word_errors`, over characters, the spaces between words included."""
    import jiwer

    return _errors(jiwer.process_characters(*_pair(reference, hypothesis)))


def misheard_words(reference: str, hypothesis: str) -> tuple[bool, ...]:
    """Whether each word of `comparable(reference)` was substituted or left out; inserted words belong to none."""
    import jiwer

    found = [False] * len(comparable(reference).split())
    for part in jiwer.process_words(*_pair(reference, hypothesis)).alignments[0]:
        if part.type in ("substitute", "delete"):
            found[part.ref_start_idx : part.ref_end_idx] = [True] * (part.ref_end_idx - part.ref_start_idx)
    return tuple(found)


def homophone_errors(reference: str, hypothesis: str) -> int:
    """How many of the word errors are words that sound as the right one does: no ear can tell these apart."""
    import jiwer

    meant, heard = (text.split() for text in _pair(reference, hypothesis))
    found = 0
    for part in jiwer.process_words(" ".join(meant), " ".join(heard)).alignments[0]:
        if part.type == "substitute":
            right, wrong = meant[part.ref_start_idx : part.ref_end_idx], heard[part.hyp_start_idx : part.hyp_end_idx]
            found += sum(_sounds(one) == _sounds(other) for one, other in zip(right, wrong, strict=True))
    return found


def _sounds(word: str) -> list[str]:
    from pcg.text.text import phonemise

    return [symbol.strip("ˈˌ") for symbol in phonemise(word)]


def pooled(errors: Sequence[Errors]) -> Estimate:
    """All errors over all reference words: long utterances weigh more than short ones, as is usual for WER."""
    return bootstrap([e.errors for e in errors], [e.length for e in errors])


def comparable(text: str) -> str:
    """`text` as both sides of a comparison are written: lower-case words and apostrophes, one space between words."""
    words = re.sub(r"[^a-z' ]+", " ", normalise(text))
    return _VARIANT.sub(lambda match: _VARIANTS[match[0]], " ".join(words.split()))


def _pair(reference: str, hypothesis: str) -> tuple[str, str]:
    meant = comparable(reference)
    if not meant:
        raise InputError("reference", reference, "a text with at least one word")
    return meant, comparable(hypothesis)


def _errors(output: object) -> Errors:
    wrong = output.substitutions + output.deletions  # type: ignore[attr-defined]
    return Errors(wrong + output.insertions, wrong + output.hits)  # type: ignore[attr-defined]
