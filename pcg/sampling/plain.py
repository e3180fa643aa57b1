"""Plain sampling: temperature, top-k, top-p and a repetition penalty."""

from dataclasses import dataclass, replace

from torch import Tensor

from pcg.decoding.laws import law
from pcg.sampling.memory import Warped
from pcg.sampling.warp import penalised, truncated


@dataclass(frozen=True)
class Plain:
    """Softmax at `temperature` over the `top_k` likeliest tokens (0: all) that hold the share `top_p`. With `penalty` above 1,
    tokens that were `spoken` in this utterance are less likely."""

    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    penalty: float = 1.0
    spoken: frozenset[int] = frozenset()

    def warp(self, logits: Tensor) -> Warped:
        weights = law(penalised(logits, self.spoken, self.penalty), self.temperature).cpu()
        return Warped(truncated(weights, self.top_k, self.top_p))

    def after(self, token: int, warped: Warped) -> "Plain":
        return self if self.penalty == 1 else replace(self, spoken=self.spoken | {token})
