"""What every codec offers to the rest of the house."""

from typing import Protocol

from torch import Tensor


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
