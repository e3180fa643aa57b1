"""Plain sampling: temperature, top-k, top-p and a repetition penalty."""

from dataclasses import dataclass, replace

from torch import Tensor

from pcg.sampling.memory import Warped
from pcg.sampling.warp import penalised, probabilities, truncated


@dataclass(frozen=True)
class Plain:
    """Softmax at `temperature` over the `top_k` likeliest tokens (0: all) that hold the share `top_p`. With `penalty` above 1,
    tokens that were `spoken` in this utterance are less likely."""

    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    penalty: float = 1.0
    spoken: frozenset[int] = frozenset()

    @property
    def remembers(self) -> bool:
        return self.penalty != 1

    @property
    def softmax_alone(self) -> bool:
        """Whether its probabilities are the softmax at its temperature and nothing else."""
        return not self.remembers and self.top_k == 0 and self.top_p >= 1

    def warp(self, logits: Tensor) -> Warped:
        """As `Memory.warp`, and for `logits [..., V]` of any shape."""
        weights = probabilities(penalised(logits, self.spoken, self.penalty), self.temperature).cpu()
        return Warped(weights if self.softmax_alone else truncated(weights, self.top_k, self.top_p))

    def after(self, token: int, warped: Warped) -> "Plain":
        return replace(self, spoken=self.spoken | {token}) if self.remembers else self
