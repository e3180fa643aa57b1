"""The judges of sounds: words, speaker and quality, and their verdicts on the takes of the page. Knows nothing of gradio."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from explorers.session import Session
from pcg.asr.judges import FIRST_JUDGE, load_judge
from pcg.metrics.intelligibility import NORMALISED, Errors, Judge, char_errors, word_errors
from pcg.metrics.quality import DNSMOS, JUDGE_RATE, Metric, Resemblyzer, Sample, Similarity, for_judges
from pcg.synthesis.synthesizer import Synthesizer


@dataclass(frozen=True)
class JudgedTake:
    """The judges' figures of one sound. similarity: of the speaker to a reference, None without one; dnsmos: 1 to 5."""

    heard: str
    words: Errors
    characters: Errors
    similarity: float | None
    dnsmos: float


class Judges:
    """The judges of words, of speakers and of quality."""

    def __init__(self, words: Judge, speaker: Metric, quality: Metric) -> None:
        self._words, self._speaker, self._quality = words, speaker, quality

    @classmethod
    def load(cls, judge: str = FIRST_JUDGE) -> "Judges":
        """Load the judge of words of that name, and the usual ones of speakers and quality."""
        return cls(load_judge(judge), Similarity(Resemblyzer()), DNSMOS())

    def names(self, reference: str) -> dict[str, str]:
        """The name of the judge of each figure; `reference`: what speakers are compared with, in words."""
        return {
            "WER, CER": f"{self._words.name}; {NORMALISED}",
            "Speaker": f"{self._speaker.name} to {reference}",
            "DNSMOS": self._quality.name,
        }

    def verdicts(self, samples: Sequence[Sample]) -> list[JudgedTake]:
        """The verdict on each of `samples`, which have a text, and a reference where their speaker is to be compared."""
        compared = [i for i, sample in enumerate(samples) if sample.reference is not None]
        alike = dict(zip(compared, self._speaker.measure([samples[i] for i in compared]), strict=True))
        sounds = [for_judges(sample.samples, sample.sample_rate) for sample in samples]
        judged = zip(samples, self._words.transcribe(sounds, JUDGE_RATE), self._quality.measure(samples), strict=True)
        return [
            JudgedTake(shown, word_errors(sample.text, shown), char_errors(sample.text, shown), alike.get(i), mos)
            for i, (sample, shown, mos) in enumerate(judged)
        ]

    def transcribe(self, samples: np.ndarray, sample_rate: int) -> str:
        """The words of a sound `[N]`, by the judge of words."""
        return self._words.transcribe([for_judges(samples, sample_rate)], JUDGE_RATE)[0]


def judge_takes(
    synthesizer: Synthesizer, load_judges: Callable[[], Judges], session: Session
) -> Iterator[tuple[Path, JudgedTake]]:
    """Judge the takes on the cards of `session` that have no verdict yet, one by one.

    `load_judges` is called when there is something to judge. Closing the generator stops the work after the current take.
    """
    for card in session.cards.values():
        sound = card.shown.sound
        if sound and sound not in session.verdicts and sound.is_file():
            take, speaker = card.shown.with_sound(), card.shown.speaker(synthesizer.voice.references)
            codes = speaker.codes.tolist()
            voice = synthesizer.decode(codes, speaker) if codes else None
            yield sound, load_judges().verdicts([Sample(take.audio, take.sample_rate, take.text, voice)])[0]
