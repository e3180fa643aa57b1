"""EAS, entropy-aware sampling (MSpoofTTS: Zhao et al., arXiv 2603.05373, Algorithm 1)."""

from collections import defaultdict
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pcg.sampling.memory import Warped
from pcg.sampling.warp import probabilities, truncated


@dataclass(frozen=True)
class Competitor:
    """A token that led or was spoken: its `rank` then (1 is best) and its `age` in steps."""

    token: int
    rank: int
    age: int


@dataclass(frozen=True)
class EntropyAware:
    """Nucleus sampling from s' = s - pi, where pi weighs down the competitors of the last `window` steps (Algorithm 1).

    cluster: how many leaders a step leaves behind (k_e). alpha, beta, gamma: weight of a competitor, its decay with age, and
    the most that a token loses. Probabilities that fall below zero are zero; where none is left above it, s is drawn from as
    it is, which the paper leaves open.
    """

    temperature: float
    top_k: int = 50
    top_p: float = 0.8
    cluster: int = 3
    window: int = 15
    alpha: float = 0.2
    beta: float = 0.7
    gamma: float = 0.8
    competitors: tuple[Competitor, ...] = ()

    @property
    def remembers(self) -> bool:
        return True

    def warp(self, logits: Tensor) -> Warped:
        s = probabilities(logits, self.temperature).cpu()
        weighed = s - self._penalties(len(s))
        leaders = weighed.argsort(descending=True, stable=True)[: self.cluster]
        weights = weighed.clamp(min=0)
        return Warped(truncated(weights if weights.any() else s, self.top_k, self.top_p), tuple(leaders.tolist()))

    def after(self, token: int, warped: Warped) -> "EntropyAware":
        older = tuple(replace(c, age=c.age + 1) for c in self.competitors if c.age + 1 <= self.window)
        ranked = warped.leaders if token in warped.leaders else (*warped.leaders, token)
        newest = tuple(Competitor(leader, rank, 0) for rank, leader in enumerate(ranked, start=1))
        return replace(self, competitors=older + newest)

    def _penalties(self, vocabulary: int) -> Tensor:
        """pi, `[vocabulary]` (line 5)."""
        sums: defaultdict[int, float] = defaultdict(float)
        for c in self.competitors:
            sums[c.token] += self.alpha / (1 + c.rank) * self.beta**c.age
        penalties = torch.zeros(vocabulary)
        for token, total in sums.items():
            penalties[token] = min(self.gamma, total)
        return penalties
