"""A small Conformer with a character CTC head (Gulati et al., arXiv:2005.08100), conditioned on its own draft in the middle
(Nozaki and Komatsu, arXiv:2104.02724), as the encoder of Granite Speech is.

A frame of 40 ms spells two labels: fast speech has more characters a second than there are frames.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pcg.asr.network.alphabet import CLASSES
from pcg.asr.network.features import BANDS

LABELS_PER_FRAME = 2


@dataclass(frozen=True)
class EncoderConfig:
    """Shape of the encoder. kernel: frames that a block's convolution sees."""

    layers: int = 6
    width: int = 192
    heads: int = 4
    feed_forward: int = 576
    kernel: int = 15
    bands: int = BANDS
    classes: int = CLASSES


@dataclass(frozen=True)
class Encoded:
    """Frames `[B, S, D]` and their counts `[B]`; log-probabilities over the CTC classes `[B, 2 S, C]`, at the end and at the
    draft in the middle. Behind a row's count nothing has a meaning."""

    frames: Tensor
    counts: Tensor
    log_probs: Tensor
    draft_log_probs: Tensor


class ConformerCTC(nn.Module):
    """Log-mel frames -> acoustic embeddings and character log-probabilities."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.enter = nn.ModuleList([_Halve(config.bands, width), _Halve(width, width)])
        self.blocks = nn.ModuleList([ConformerBlock(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(width)
        self.draft_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, LABELS_PER_FRAME * config.classes)
        self.condition = nn.Linear(LABELS_PER_FRAME * config.classes, width)

    def forward(self, features: Tensor, counts: Tensor) -> Encoded:
        """features `[B, T, bands]`, of which `counts [B]` frames of each row are real."""
        x = features
        for halve in self.enter:
            counts = (counts + 1) // 2
            x = halve(x, counts)
        real = _real(x, counts)
        rotary = rotations(x.shape[1], self.config.width // self.config.heads, x.device)
        draft = x
        for index, block in enumerate(self.blocks):
            x = block(x, real, rotary)
            if index + 1 == len(self.blocks) // 2:
                draft = self._spell(self.draft_norm(x))
                x = x + self.condition(draft.exp().flatten(2).to(x.dtype))
        frames = self.norm(x)
        return Encoded(frames, counts, self._spell(frames).flatten(1, 2), draft.flatten(1, 2))

    def _spell(self, frames: Tensor) -> Tensor:
        logits = self.head(frames).float()
        return logits.unflatten(-1, (LABELS_PER_FRAME, self.config.classes)).log_softmax(-1)


class _Halve(nn.Module):
    """A strided convolution over time, written as one matrix product: every other frame sees itself and two to each side."""

    _SPAN = 5

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.mix = nn.Linear(self._SPAN * inputs, outputs)
        self.norm = nn.LayerNorm(outputs)

    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        side = self._SPAN // 2
        padded = F.pad(x, (0, 0, side, side + 1))
        windows = padded.unfold(1, self._SPAN, 2)[:, : (x.shape[1] + 1) // 2]
        y = F.silu(self.norm(self.mix(windows.transpose(2, 3).flatten(2))))
        return y * _real(y, counts)


class ConformerBlock(nn.Module):
    """Half a feed-forward layer, attention, convolution, half a feed-forward layer.

    x `[B, S, D]`; real `[B, S, 1]`: True where a frame counts; rotary: see `rotations`.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.before = _FeedForward(config)
        self.attention = _Attention(config)
        self.convolution = _Convolution(config)
        self.after = _FeedForward(config)

    def forward(self, x: Tensor, real: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        x = x + 0.5 * self.before(x)
        x = x + self.attention(x, real, rotary)
        x = x + self.convolution(x, real)
        return x + 0.5 * self.after(x)


class _FeedForward(nn.Module):
    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, config.feed_forward)
        self.down = nn.Linear(config.feed_forward, config.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.up(self.norm(x))))


class _Attention(nn.Module):
    """Full attention within the row, positions as rotations."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm = nn.LayerNorm(config.width)
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, real: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        y = self.norm(x)
        query, key, value = (
            part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        query, key = (_rotate(t, *rotary).to(value.dtype) for t in (query, key))
        mask = real[:, None, None, :, 0]
        if self.training:
            # The fused kernel's backward pass in bfloat16 is several times slower on a CPU.
            weights = (query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5).masked_fill(~mask, -1e4).softmax(-1)
            mixed = weights.to(value.dtype) @ value
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, mask)
        return self.out(mixed.transpose(1, 2).flatten(2))


class _Convolution(nn.Module):
    """Gated, then along time for each channel by itself."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.enter = nn.Linear(config.width, 2 * config.width)
        self.along = nn.Conv2d(
            config.width, config.width, (1, config.kernel), padding=(0, config.kernel // 2), groups=config.width
        )
        self.between = nn.LayerNorm(config.width)
        self.leave = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        y = F.glu(self.enter(self.norm(x)), -1) * real
        # As an image of height 1 the rows lie in channels-last order already, for which the depthwise kernel is fast.
        along = self.along(y.transpose(1, 2)[:, :, None]).squeeze(2).transpose(1, 2)
        return self.leave(F.silu(self.between(along)))


def rotations(count: int, dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of positions 0 .. count - 1, each `[count, dim]` (Su et al., arXiv:2104.09864)."""
    half = dim // 2
    angles = torch.arange(count, device=device)[:, None] * 10_000.0 ** (-torch.arange(half, device=device) / half)
    turns = torch.cat([angles, angles], -1)
    return turns.cos(), turns.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def _real(x: Tensor, counts: Tensor) -> Tensor:
    """True where a frame of `x [B, T, D]` counts, `[B, T, 1]`."""
    return (torch.arange(x.shape[1], device=x.device) < counts[:, None])[..., None]
