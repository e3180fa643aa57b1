"""The pitch that codes mean: a network that looks far back and hardly ahead, so that a stream hears what the whole does."""

import torch
from torch import Tensor, nn

AHEAD = 3
"""How many codes to the right a pitch depends on."""
DILATIONS = (1, 2, 4)
TAPS = 5
BEHIND = AHEAD + (TAPS - 1) * sum(DILATIONS)
"""How many codes to the left: enough to know the speaker."""
MIDDLE = 7.0


class PitchHead(nn.Module):
    """Quantized values `[B, T, D]` -> the log2 of the pitch in Hz, `[B, T * frames]`."""

    def __init__(self, inputs: int, width: int, frames: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(inputs, width, 2 * AHEAD + 1, padding=AHEAD)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, TAPS, dilation=d) for d in DILATIONS)
        self.last = nn.Conv1d(width, frames, 1)

    def forward(self, quantized: Tensor) -> Tensor:
        x = nn.functional.gelu(self.first(quantized.transpose(1, 2)))
        for layer in self.layers:
            past = (TAPS - 1) * layer.dilation[0]
            x = x + nn.functional.gelu(layer(nn.functional.pad(x, (past, 0))))
        return self.last(x).transpose(1, 2).flatten(1) + MIDDLE


def hertz(log_pitch: Tensor, low: float = 40.0, high: float = 500.0) -> Tensor:
    return torch.exp2(log_pitch).clamp(low, high)
