"""Real and synthetic utterances, cut into the segments that detectors are trained on and judged by."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from pcg.errors import AssetError, InputError
from pcg.files import write_safetensors
from pcg.spoof.detector import Resolution


@dataclass(frozen=True)
class Labelled:
    """Segments `[N, span]`, 1 for real or 0 for synthetic `[N]` (float32), and the number of the utterance of each `[N]`."""

    segments: Tensor
    real: Tensor
    utterance: Tensor


@dataclass(frozen=True)
class Segments:
    """Utterances, each codes `[T]` (int64); those that are shorter than a segment are left out of it."""

    real: Sequence[Tensor]
    synthetic: Sequence[Tensor]

    def batch(self, resolution: Resolution, count: int, rng: random.Random) -> Labelled:
        """`count` segments from anywhere, half of them real."""
        halves = [_drawn(part, resolution.span, count // 2, rng) for part in (self.real, self.synthetic)]
        return _labelled(*halves)

    def every(self, resolution: Resolution) -> Labelled:
        """All segments side by side, as many real as synthetic ones."""
        halves = [_side_by_side(part, resolution.span) for part in (self.real, self.synthetic)]
        count = min(map(len, halves))
        return _labelled(*(half[:count] for half in halves))

    def save(self, path: Path) -> None:
        parts = {"real": self.real, "synthetic": self.synthetic}
        codes = {name: torch.cat(list(part)).to(torch.int32) for name, part in parts.items()}
        lengths = {f"{name}_lengths": torch.tensor([len(u) for u in part]) for name, part in parts.items()}
        write_safetensors(path, codes | lengths)

    @classmethod
    def load(cls, path: Path) -> "Segments":
        """Read what `save` wrote; raise AssetError if it is missing or damaged."""
        try:
            tensors = load_file(path)
            parts = [tensors[name].long().split(tensors[f"{name}_lengths"].tolist()) for name in ("real", "synthetic")]
        except Exception as error:
            raise AssetError(f"The utterances {path} are missing or damaged ({type(error).__name__}).") from error
        return cls(*parts)


Cut = tuple[int, Tensor]
"""The number of an utterance, and a segment of it `[span]`."""


def _labelled(real: Sequence[Cut], synthetic: Sequence[Cut]) -> Labelled:
    after = 1 + max((number for number, _ in real), default=-1)
    cuts = [*real, *((after + number, segment) for number, segment in synthetic)]
    labels = torch.tensor([1.0] * len(real) + [0.0] * len(synthetic))
    return Labelled(torch.stack([segment for _, segment in cuts]), labels, torch.tensor([number for number, _ in cuts]))


def _side_by_side(utterances: Sequence[Tensor], span: int) -> list[Cut]:
    return [(i, u[s : s + span]) for i, u in enumerate(utterances) for s in range(0, len(u) - span + 1, span)]


def _drawn(utterances: Sequence[Tensor], span: int, count: int, rng: random.Random) -> list[Cut]:
    """Every place of every utterance is as likely as any other."""
    places = [max(0, len(u) - span + 1) for u in utterances]
    if not any(places):
        raise InputError("utterances", f"all shorter than {span} codes", f"some of at least {span} codes")
    chosen = rng.choices(range(len(utterances)), weights=places, k=count)
    starts = [(i, rng.randrange(places[i])) for i in chosen]
    return [(i, utterances[i][s : s + span]) for i, s in starts]
