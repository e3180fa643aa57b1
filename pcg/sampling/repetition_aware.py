"""RAS, repetition-aware sampling (VALL-E 2: Chen et al., arXiv 2406.05370, section 3.2.2), as probabilities.

VALL-E 2 draws a token from the nucleus; where it fills more than a share of the last tokens, it draws once more, from all.
Both draws together have probabilities of their own, so that speculative decoding can be exact against it:

    probabilities(x) = nucleus(x) [x is not worn out] + full(x) * (the nucleus's mass of worn-out tokens)
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pcg.sampling.memory import Warped
from pcg.sampling.warp import probabilities, truncated


@dataclass(frozen=True)
class RepetitionAware:
    """top_k, top_p: of the nucleus; the second draw is from the `top_k`. A token is worn out when it fills more than `share`
    of a window of `window` tokens. `recent` holds the last `window` tokens."""

    temperature: float
    top_k: int = 50
    top_p: float = 0.8
    window: int = 25
    share: float = 0.1
    recent: tuple[int, ...] = ()

    @property
    def remembers(self) -> bool:
        return True

    def warp(self, logits: Tensor) -> Warped:
        full = truncated(probabilities(logits, self.temperature).cpu(), self.top_k, 1.0)
        nucleus = truncated(full, self.top_k, self.top_p)
        worn = [token for token in set(self.recent) if self.recent.count(token) > self.share * self.window]
        if not worn:
            return Warped(nucleus)
        kept = nucleus.clone()
        kept[torch.tensor(worn)] = 0
        return Warped(kept + full * (nucleus.sum() - kept.sum()))

    def after(self, token: int, warped: Warped) -> "RepetitionAware":
        return replace(self, recent=(*self.recent, token)[-self.window :])
