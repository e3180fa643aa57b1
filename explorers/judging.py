"""The judges of sounds: words, speaker and quality. Knows nothing of gradio."""

from collections.abc import Sequence

import numpy as np

from pcg.asr.judges import FIRST_JUDGE, load_judge
from pcg.metrics.intelligibility import NORMALISED, Judge, word_errors
from pcg.metrics.quality import DNSMOS, JUDGE_RATE, Resemblyzer, cosine, for_judges


class Judges:
    """The judges of words, of speakers and of quality."""

    def __init__(self, words: Judge, speaker: Resemblyzer, quality: DNSMOS) -> None:
        self._words, self._speaker, self._quality = words, speaker, quality

    @classmethod
    def load(cls, judge: str = FIRST_JUDGE) -> "Judges":
        """Load the judge of words of that name, and the usual ones of speakers and quality."""
        return cls(load_judge(judge), Resemblyzer(), DNSMOS())

    @property
    def names(self) -> dict[str, str]:
        """The name of the judge of each figure."""
        words, speaker = f"{self._words.name}; {NORMALISED}", f"cosine by {self._speaker.name} to the original"
        return {"WER": words, "Speaker": speaker, "DNSMOS": self._quality.name}

    def verdicts(self, sounds: Sequence[np.ndarray], sample_rate: int, text: str) -> list[dict[str, float | str]]:
        """Return the figures of each of `sounds [N]`, speakers compared with the first, and the words that were heard."""
        ready = [for_judges(sound, sample_rate) for sound in sounds]
        speakers, heard = [self._speaker.embed(sound, JUDGE_RATE) for sound in ready], self._words.transcribe(ready, JUDGE_RATE)
        return [
            {"heard": words, "wer": word_errors(text, words).rate, "similarity": cosine(speaker, speakers[0])}
            | {"dnsmos": self._quality.score(sound, JUDGE_RATE)}
            for sound, speaker, words in zip(ready, speakers, heard, strict=True)
        ]

    def transcribe(self, samples: np.ndarray, sample_rate: int) -> str:
        """Return the words of a sound `[N]`, by the judge of words."""
        return self._words.transcribe([for_judges(samples, sample_rate)], JUDGE_RATE)[0]
