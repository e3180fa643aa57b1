"""What every codec offers to the rest of the house."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Anchor:
    """Where codes stand in their utterance: the one at `index` is the utterance's code number `position`, and a decoder with
    an oscillator of its own is at `phase` (in cycles) when it begins."""

    index: int = 0
    position: int = 0
    phase: float = 0.0


class Codec(Protocol):
    """Speech codes <-> samples; a code stands for `hop` samples at `sample_rate`."""

    @property
    def sample_rate(self) -> int: ...

    @property
    def hop(self) -> int: ...

    @property
    def codebook_size(self) -> int: ...

    def encode(self, wave: Tensor) -> Tensor:
        """Samples `[N]`, float32 in -1..1 -> codes `[ceil(N / hop)]`, int64."""
        ...

    def decode(self, codes: Tensor) -> Tensor:
        """Codes `[T]` -> samples `[T * hop]`, float32 in -1..1."""
        ...

    def render(self, codes: Tensor, anchor: Anchor) -> tuple[Tensor, Tensor]:
        """`decode` of codes from the middle of an utterance: samples `[T * hop]`, and the phase before each code and after
        the last, `[T + 1]` (zeros if the decoder has no oscillator). Samples far before the anchor may be silence."""
        ...
