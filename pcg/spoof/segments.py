"""Real and synthetic utterances, cut into the segments that detectors are trained on and judged by."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from pcg.errors import AssetError, InputError
from pcg.files import write_safetensors
from pcg.spoof.detector import Resolution
from pcg.spoof.garbage import KINDS, Garbage

OWN = "own"
GARBAGE = {"random": 0.1, "uniform": 0.05, "shuffled": 0.15, "reversed": 0.25, "swapped": 0.05}


@dataclass(frozen=True)
class Labelled:
    """Segments `[N, span]`, 1 for real or 0 for synthetic `[N]` (float32), and the number of the utterance of each `[N]`."""

    segments: Tensor
    real: Tensor
    utterance: Tensor


@dataclass(frozen=True)
class Mix:
    """What a batch holds: `synthetic` segments for each real one, and of these the shares of `garbage`, by its kinds; the rest
    are the voice's own samples. Reversed speech has the largest share, as it is the hardest to tell."""

    synthetic: int = 1
    garbage: Mapping[str, float] = field(default_factory=lambda: dict(GARBAGE))

    def __post_init__(self) -> None:
        if self.synthetic < 1:
            raise InputError("synthetic", self.synthetic, "at least 1 for each real segment")
        for kind, share in self.garbage.items():
            if kind not in KINDS:
                raise InputError("garbage", kind, "one of " + ", ".join(KINDS))
            if not 0 <= share <= 1:
                raise InputError(f"the share of {kind}", share, "a number from 0 to 1")
        if self.own < 0:
            raise InputError("the shares of garbage", f"{sum(self.garbage.values()):g} together", "at most 1")

    @property
    def own(self) -> float:
        """The share of the voice's own samples among synthetic segments."""
        return round(1 - sum(self.garbage.values()), 9)

    def kinds(self, count: int, rng: random.Random) -> Counter[str]:
        """How many of `count` synthetic segments are of each kind of garbage, and how many the voice's own (`OWN`)."""
        return Counter(rng.choices([OWN, *self.garbage], weights=[self.own, *self.garbage.values()], k=count))


@dataclass(frozen=True)
class Segments:
    """Utterances, each codes `[T]` (int64); those that are shorter than a segment are left out of it."""

    real: Sequence[Tensor]
    synthetic: Sequence[Tensor]

    def batch(self, resolution: Resolution, count: int, mix: Mix, garbage: Garbage, rng: random.Random) -> Labelled:
        """`count` segments from anywhere, real and synthetic as `mix` says; garbage is made of other real segments."""
        positives = count // (1 + mix.synthetic)
        real = _drawn(self.real, resolution.span, positives, rng)
        synthetic: list[Cut] = []
        for kind, wanted in mix.kinds(count - positives, rng).items():
            cuts = _drawn(self.synthetic if kind == OWN else self.real, resolution.span, wanted, rng)
            synthetic += cuts if kind == OWN else _spoilt(cuts, kind, garbage, rng)
        return _labelled(real, synthetic)

    def every(self, resolution: Resolution) -> Labelled:
        """All segments side by side, as many real as synthetic ones."""
        halves = [_side_by_side(part, resolution.span) for part in (self.real, self.synthetic)]
        count = min(map(len, halves))
        if not count:
            given = f"real or synthetic ones all shorter than {resolution.span} codes"
            raise InputError("utterances", given, "some that are as long")
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


def _spoilt(cuts: Sequence[Cut], kind: str, garbage: Garbage, rng: random.Random) -> list[Cut]:
    generator = torch.Generator().manual_seed(rng.getrandbits(63))
    made = garbage.of(kind, torch.stack([segment for _, segment in cuts]), generator)
    return [(number, segment) for (number, _), segment in zip(cuts, made, strict=True)]


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
