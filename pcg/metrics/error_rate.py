"""Word and character error rates of single utterances, by any judge."""

from collections.abc import Sequence
from typing import Literal

from pcg.errors import InputError
from pcg.metrics.intelligibility import NORMALISED, Judge, char_errors, word_errors
from pcg.metrics.metric import Sample
from pcg.metrics.recording import Recording

_COUNTS = {"wer": word_errors, "cer": char_errors}


class ErrorRate:
    """Errors over the length of the reference text, 0 for a faultless reading; insertions can take it above 1.

    The rate over many utterances is not the mean of these, but `pooled` from their counts. Both rates of one judge need its
    transcripts once only if it is a `RememberedJudge`.
    """

    higher_is_better = False

    def __init__(self, judge: Judge, key: Literal["wer", "cer"] = "wer") -> None:
        if key not in _COUNTS:
            raise InputError("error rate", key, "one of " + ", ".join(_COUNTS))
        self.key, self.name = key, f"{judge.name}; {NORMALISED}"
        self._judge, self._count = judge, _COUNTS[key]

    def measure(self, batch: Sequence[Sample]) -> list[float]:
        meant = [sample.text_for(self.key) for sample in batch]
        heard = transcripts(self._judge, batch)
        return [self._count(text, said).rate for text, said in zip(meant, heard, strict=True)]


def transcripts(judge: Judge, recordings: Sequence[Recording]) -> list[str]:
    """What `judge` hears in each of `recordings`; those of one sample rate go to it as one batch."""
    texts = [""] * len(recordings)
    for rate in dict.fromkeys(r.sample_rate for r in recordings):
        rows = [i for i, r in enumerate(recordings) if r.sample_rate == rate]
        for row, text in zip(rows, judge.transcribe([recordings[i].samples for i in rows], rate), strict=True):
            texts[row] = text
    return texts
