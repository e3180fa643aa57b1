"""Which of several texts was said: what the CTC head, the language model and the bigrams think of each, in one sum.

CTC and a decoder score together what one of them proposed (Hori, Watanabe and Hershey, "Joint CTC/attention decoding for
end-to-end speech recognition", ACL 2017, section 3.3), with the bigrams as a third voice.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A text, and its log-probability in nats: ctc: of its characters in the sound; lm: of its tokens and the end behind the
    sound; bigrams: of its words, whatever the sound."""

    text: str
    ctc: float
    lm: float
    bigrams: float

    @property
    def words(self) -> int:
        return len(self.text.split())


@dataclass(frozen=True)
class CandidateWeights:
    """What each voice counts for, and what a word adds, in nats. Chosen on held-out speech that no bench reads."""

    ctc: float = 0.3
    lm: float = 0.3
    bigrams: float = 0.3
    word: float = -1.0

    def score(self, candidate: Candidate) -> float:
        """ctc log p_ctc(y|x) + lm log p_lm(y|x) + bigrams log p(y) + word |y|."""
        return (
            self.ctc * candidate.ctc + self.lm * candidate.lm + self.bigrams * candidate.bigrams + self.word * candidate.words
        )


def ranked(candidates: Sequence[Candidate], weights: CandidateWeights) -> list[Candidate]:
    """The best first."""
    return sorted(candidates, key=weights.score, reverse=True)
