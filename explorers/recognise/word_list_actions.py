"""The transcript of a sound in words of a list, and its candidates. Knows nothing of gradio."""

from dataclasses import dataclass

import numpy as np

from explorers.recognise.actions import Alignment, align, total_times
from pcg.asr.candidates import Candidate, CandidateWeights
from pcg.asr.lexicon import Lexicon
from pcg.asr.listening import as_speech, listen
from pcg.asr.recogniser import ScoringRecogniser
from pcg.asr.self_speculative import Transcript

MOST_CANDIDATES = 6


@dataclass(frozen=True, eq=False)
class Wording:
    """The transcript by `judge` of a sound of `seconds`. parts: its utterances, none in silence; starts: where each begins, in
    seconds; alignment: with the reference, if there was one."""

    judge: str
    seconds: float
    text: str
    parts: tuple[Transcript, ...]
    starts: tuple[float, ...]
    alignment: Alignment | None = None

    @property
    def rtfx(self) -> float | None:
        """Seconds of sound per second of work; None without speech."""
        return 1000 * self.seconds / total_times(self.parts).total if self.parts else None

    def record(self) -> dict[str, object]:
        """Ready for JSON."""
        return {
            "judge": self.judge,
            "text": self.text,
            "seconds": round(self.seconds, 3),
            "rtfx": self.rtfx and round(self.rtfx, 2),
            "wer": self.alignment and round(self.alignment.errors.rate, 6),
            "weights": vars(CandidateWeights()),
            "parts": [
                {"begin": round(begin, 3), "text": part.text, "candidates": [_record(c) for c in part.candidates]}
                for begin, part in zip(self.starts, self.parts, strict=True)
            ],
        }


def hear_in_words(
    recogniser: ScoringRecogniser, lexicon: Lexicon, samples: np.ndarray, sample_rate: int, reference: str = ""
) -> Wording:
    """Transcribe one sound in listed words, and count the errors if there is a reference."""
    speech = as_speech(samples, sample_rate, recogniser.sample_rate)
    found = listen(recogniser, speech, recogniser.sample_rate, lexicon)
    alignment = align(reference, found.text) if reference.strip() else None
    judge, seconds = f"{recogniser.name}, {lexicon.name}", len(speech) / recogniser.sample_rate
    return Wording(judge, seconds, found.text, found.parts, found.starts, alignment)


def _record(candidate: Candidate) -> dict[str, object]:
    figures = {name: round(getattr(candidate, name), 3) for name in ("ctc", "lm", "bigrams")}
    return {"text": candidate.text, **figures, "score": round(CandidateWeights().score(candidate), 3)}
