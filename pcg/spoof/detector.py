"""Spoof detection on tokens (MSpoofTTS: Zhao et al., arXiv 2603.05373, section 2.2): was a segment of codes spoken?"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pcg.asr.network.conformer import ConformerBlock, EncoderConfig, rotations


@dataclass(frozen=True)
class Resolution:
    """A segment of `span` codes, of which every `stride`-th is looked at."""

    name: str
    span: int
    stride: int = 1

    @property
    def key(self) -> str:
        """Its name as a file's."""
        return self.name.lower().replace("<-", "_")


M50, M25, M10 = Resolution("M50", 50), Resolution("M25", 25), Resolution("M10", 10)
M50_25, M50_10 = Resolution("M50<-25", 50, 2), Resolution("M50<-10", 50, 5)
RESOLUTIONS = (M50, M25, M10, M50_25, M50_10)


@dataclass(frozen=True)
class DetectorConfig:
    """Shape of a detector over `codes` codes; the defaults are the paper's (section 3.2). kernel: codes that a block's
    convolution sees, of which the paper does not tell. code_width: of the embeddings, where it is not `width`."""

    codes: int
    width: int = 256
    heads: int = 8
    layers: int = 4
    feed_forward: int = 1024
    kernel: int = 7
    dropout: float = 0.1
    code_width: int | None = None

    @classmethod
    def small(cls, codes: int, code_width: int) -> "DetectorConfig":
        """For a codebook of a few thousand codes and a few hours of speech. code_width: of a language model's embeddings, from
        which these start."""
        return cls(codes, width=128, heads=4, layers=3, feed_forward=256, code_width=code_width)


class Detector(nn.Module):
    """Embedding, Conformer blocks, adaptive pooling over time, a small classifier."""

    def __init__(self, config: DetectorConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        block = EncoderConfig(config.layers, width, config.heads, config.feed_forward, config.kernel)
        self.embedding = nn.Embedding(config.codes, config.code_width or width)
        self.enter = nn.Linear(config.code_width, width) if config.code_width else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([ConformerBlock(block) for _ in range(config.layers)])
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.classify = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Dropout(config.dropout), nn.Linear(width, 1)
        )

    def forward(self, segments: Tensor) -> Tensor:
        """Codes `[B, L]` (int64, already strided) -> logits `[B]`, above zero where a segment looks real."""
        x = self.dropout(self.enter(self.embedding(segments)))
        real = torch.ones(*segments.shape, 1, dtype=torch.bool, device=segments.device)
        rotary = rotations(segments.shape[1], self.config.width // self.config.heads, segments.device)
        for block in self.blocks:
            x = self.dropout(block(x, real, rotary))
        return self.classify(self.pool(x.transpose(1, 2)).squeeze(-1)).squeeze(-1)
