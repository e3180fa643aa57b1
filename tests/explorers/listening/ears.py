"""A listening test to ask for, and judges that cost nothing."""

from collections.abc import Sequence

from explorers.judging import JudgedTake
from explorers.listening.actions import ListeningRequest
from pcg.metrics.intelligibility import Errors
from pcg.metrics.recording import Sample

LINES = "The quick brown fox.\nHello, is this one sentence? yes!"
ASKED = ListeningRequest("ab", ("AR", "PCG"), None, False, "own", LINES, 2, "two", 0.3, 3, 0.3, 0.6, 5)


class FakeEars:
    """Judges that know what they are told."""

    def names(self, reference: str) -> dict[str, str]:
        return {"WER, CER": f"nobody <b>, who knows {reference}"}

    def verdicts(self, samples: Sequence[Sample]) -> list[JudgedTake]:
        assert all(sample.text and sample.reference for sample in samples)
        return [JudgedTake("", Errors(1, 4), Errors(1, 4), 0.25, 0.25) for _ in samples]
