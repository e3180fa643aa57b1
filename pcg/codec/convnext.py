"""ConvNeXt blocks over time, the backbone of Vocos (Siuzdak, arXiv 2306.00814) and of X-codec2's decoder."""

import torch
from torch import Tensor, nn


class ConvNeXtBlock(nn.Module):
    """Depth-wise convolution, LayerNorm, expansion, GELU, projection, learned residual scale. `[B, T, C]` in and out."""

    def __init__(self, width: int, expansion: int = 3, kernel: int = 7, scale: float = 0.2) -> None:
        super().__init__()
        self.mix = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, expansion * width)
        self.project = nn.Linear(expansion * width, width)
        self.scale = nn.Parameter(torch.full((width,), scale))

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.mix(x.transpose(1, 2)).transpose(1, 2)
        hidden = nn.functional.gelu(self.expand(self.norm(mixed)), approximate="tanh")
        return x + self.scale * self.project(hidden)


def stack(width: int, depth: int) -> nn.Sequential:
    return nn.Sequential(*(ConvNeXtBlock(width) for _ in range(depth)))
