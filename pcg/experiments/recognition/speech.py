"""Test sets for the recogniser: speech of synthesizers that it learned from, of others, through noise, and of one's own."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from pcg.audio import load_audio
from pcg.errors import InputError
from pcg.metrics.intelligibility import read_sentences
from pcg.metrics.recording import JUDGE_RATE

SECTIONS = ("everyday", "balanced")
NOISE_DB = 10.0
LONGEST_SECONDS = 30.0
FLITE_VOICES = ("rms", "slt", "awb", "kal16")
HEARD, NOISY, OTHER, UNHEARD = "voices of the training", "with noise, 10 dB", "another synthesizer", "a voice held out"


@dataclass(frozen=True, eq=False)
class SpokenText:
    """Samples `[N]`, float32 at 16 kHz, and what they say."""

    text: str
    samples: np.ndarray


def spoken_sets(count: int, seed: int = 0) -> dict[str, list[SpokenText]]:
    """By name, `count` evaluation sentences each; none of them was in any training. Without flite only espeak-ng speaks."""
    from pcg.training.speech import speak_held_out

    written = read_sentences(*SECTIONS)
    if not 1 <= count <= len(written):
        raise InputError("count", count, f"a whole number from 1 to {len(written)}, the sentences that there are")
    texts = [written[i * len(written) // count] for i in range(count)]
    sets = {OTHER: [SpokenText(*pair) for pair in zip(texts, speak_held_out(texts, seed), strict=True)]}
    if shutil.which("flite"):
        from pcg.training.corpus import speak
        from pcg.training.speech import speak_kal

        voices = [FLITE_VOICES[i % len(FLITE_VOICES)] for i in range(count)]
        heard = [SpokenText(text, speak(voice, text)) for voice, text in zip(voices, texts, strict=True)]
        unheard = [SpokenText(text, speak_kal(text)) for text in texts]
        sets = {HEARD: heard, NOISY: noisy(heard, NOISE_DB, seed), UNHEARD: unheard} | sets
    return sets


def recorded_set(folder: Path, count: int) -> list[SpokenText]:
    """Up to `count` recordings below `folder` with their transcripts, as `pcg.training.samples.find_recordings` finds
    them. Longer ones than `LONGEST_SECONDS` are left out. InputError where there are none."""
    from pcg.training.samples import find_recordings

    found = [each for each in find_recordings(folder) if soundfile.info(each.sound).duration <= LONGEST_SECONDS]
    if not found:
        allowed = f"a folder of recordings of at most {LONGEST_SECONDS:g} s with a .txt beside each"
        raise InputError("speech", str(folder), allowed)
    chosen = [found[i * len(found) // min(count, len(found))] for i in range(min(count, len(found)))]
    return [SpokenText(r.words.read_text(encoding="utf-8").strip(), load_audio(r.sound, JUDGE_RATE)) for r in chosen]


def noisy(spoken: Sequence[SpokenText], decibels: float, seed: int) -> list[SpokenText]:
    """The same with white noise, so many decibels below the mean power of each utterance."""
    rng = np.random.default_rng(seed)
    found = []
    for each in spoken:
        level = np.sqrt(np.square(each.samples).mean()) * 10 ** (-decibels / 20)
        found.append(SpokenText(each.text, (each.samples + level * rng.standard_normal(len(each.samples))).astype(np.float32)))
    return found
