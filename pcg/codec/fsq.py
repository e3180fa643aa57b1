"""Finite scalar quantization (Mentzer et al., arXiv 2309.15505): one codebook without a codebook."""

import math

import torch
from torch import Tensor, nn


class FSQ(nn.Module):
    """Rounds each of `len(levels)` bounded dimensions to `levels[i]` values; a code is their mixed-radix number.

    The digits of a code are a geometry of their own: two codes one step apart in one digit decode to similar sound.
    """

    def __init__(self, levels: list[int]) -> None:
        super().__init__()
        self.levels = levels
        self.codebook_size = math.prod(levels)
        radix = torch.tensor([math.prod(levels[:i]) for i in range(len(levels))])
        self.register_buffer("_levels", torch.tensor(levels), persistent=False)
        self.register_buffer("_radix", radix, persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        """Quantize `z [..., D]` to values in [-1, 1], with a straight-through gradient (their section 3)."""
        half = (self._levels - 1) * (1 + 1e-3) / 2
        offset = torch.where(self._levels % 2 == 0, 0.5, 0.0)
        shift = (offset / half).atanh()
        bounded = (z + shift).tanh() * half - offset
        rounded = bounded + (bounded.round() - bounded).detach()
        return rounded / (self._levels // 2)

    def codes(self, quantized: Tensor) -> Tensor:
        """Quantized values `[..., D]` -> code numbers `[...]`, int64."""
        digits = (quantized * (self._levels // 2)).round().long() + self._levels // 2
        return (digits * self._radix).sum(dim=-1)

    def digits(self, codes: Tensor) -> Tensor:
        """Code numbers `[...]` -> digits `[..., D]`, digit i in 0..levels[i]-1."""
        return codes.unsqueeze(-1) // self._radix % self._levels

    def values(self, codes: Tensor) -> Tensor:
        """Code numbers `[...]` -> quantized values `[..., D]`, the inverse of `codes`."""
        half = self._levels // 2
        return (self.digits(codes) - half) / half
