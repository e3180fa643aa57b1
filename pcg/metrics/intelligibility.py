"""Word and character errors of a judge's transcript, and the sentences that voices are judged on.

Both sides are normalised by Whisper's `EnglishTextNormalizer`. A rate depends on its judge: it never stands without the judge's
name.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pcg.errors import AssetError, InputError
from pcg.files import check_checksums
from pcg.metrics.estimate import Estimate, bootstrap
from pcg.places import ASSETS
from pcg.text.reading import normalise, plain_words

NORMALISED = "both sides by Whisper's English normaliser"
SENTENCES = ASSETS / "evaluation" / "sentences.txt"
# The sections that figures of a voice are measured on; experiments read more.
SECTIONS = ("everyday", "balanced", "rare")
# Spelling variants of one spoken word.
VARIANTS = {
    "ok": "okay", "alright": "all right", "goodbye": "good bye", "goodnight": "good night", "cannot": "can not",
    "grey": "gray", "colour": "color", "colours": "colors", "neighbour": "neighbor", "neighbours": "neighbors",
    "favourite": "favorite", "centre": "center", "theatre": "theater", "programme": "program", "towards": "toward",
}  # fmt: skip


class Judge(Protocol):
    """Writes down recordings `[N]`; empty or silent ones get "". `name` includes model and version."""

    @property
    def name(self) -> str: ...

    def transcribe(self, recordings: Sequence[np.ndarray], sample_rate: int) -> list[str]: ...


@dataclass(frozen=True)
class Errors:
    """Substitutions, deletions and insertions against `length` words (or characters) of the reference."""

    errors: int
    length: int

    @property
    def rate(self) -> float:
        return self.errors / self.length


def word_errors(reference: str, hypothesis: str) -> Errors:
    return _count(align("words", reference, hypothesis))


def char_errors(reference: str, hypothesis: str) -> Errors:
    """Count errors of characters, the spaces between words included."""
    return _count(align("characters", reference, hypothesis))


def misheard_words(reference: str, hypothesis: str) -> tuple[bool, ...]:
    """Return for each word of `comparable(reference)` whether it was substituted or deleted."""
    wrong = [False] * len(comparable(reference).split())
    for part in align("words", reference, hypothesis).alignments[0]:
        if part.type in ("substitute", "delete"):
            wrong[part.ref_start_idx : part.ref_end_idx] = [True] * (part.ref_end_idx - part.ref_start_idx)
    return tuple(wrong)


def pooled(errors: Sequence[Errors]) -> Estimate:
    """Return all errors over all reference words."""
    return bootstrap([e.errors for e in errors], [e.length for e in errors])


def comparable(text: str) -> str:
    """Return `text` as both sides of a comparison are written."""
    return _normaliser()(plain_words(text))


@cache
def _normaliser() -> Callable[[str], str]:
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    return EnglishTextNormalizer(VARIANTS)


def spoken_words(text: str) -> str:
    """Return `text` in lower-case words and apostrophes, numbers and abbreviations spelled out."""
    return " ".join(re.sub(r"[^a-z' ]+", " ", normalise(plain_words(text)).lower()).split())


def read_sentences(*sections: str, path: Path = SENTENCES) -> list[str]:
    """Return the sentences of `sections` (SECTIONS where none is named). No corpus may train on them."""
    check_checksums(path)
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise AssetError(f"The evaluation sentences in {path} are missing or damaged ({error}).") from error
    by_section: dict[str, list[str]] = {}
    for line in filter(None, lines):
        if line.startswith("#"):
            current = by_section.setdefault(line.lstrip("# "), [])
        else:
            current.append(line)
    for section in sections:
        if section not in by_section:
            raise InputError("section", section, "one of " + ", ".join(by_section))
    return [sentence for section in sections or SECTIONS for sentence in by_section[section]]


def align(units: str, reference: str, hypothesis: str) -> Any:
    import jiwer

    meant = comparable(reference)
    if not meant:
        raise InputError("reference", reference, "a text with at least one word")
    return getattr(jiwer, f"process_{units}")(meant, comparable(hypothesis))


def _count(output: Any) -> Errors:
    wrong = output.substitutions + output.deletions
    return Errors(wrong + output.insertions, wrong + output.hits)
