"""The best speed-up that an acceptance and a draft's cost allow, so that an engine's own loss is visible."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StepCosts:
    """Milliseconds of one step alone: `ar` a target pass of one token and its draw, `draft` the same of the draft, `verify` a
    target pass of lookahead + 1 tokens."""

    ar: float
    draft: float
    verify: float

    def bound(self, mean_acceptance_length: float, lookahead: int) -> float:
        """E[tokens per round] / (v + L c), with v and c the verification's and the draft step's cost in AR steps.

        Leviathan et al. (arXiv 2211.17192, Theorem 3.8) with the measured v in place of 1.
        """
        return mean_acceptance_length * self.ar / (self.verify + lookahead * self.draft)
