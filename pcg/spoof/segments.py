"""Segments that detectors learn from and are measured on: real codes, a voice's own samples, and garbage.

Detectors that learn from real speech and a model's own samples alone, as in MSpoofTTS (section 3.1), learn how likely codes are
to that model, and call everything real that is less likely than speech. Garbage, made of real segments, is unlikely and
synthetic, so a detector that has it among its negatives cannot judge by likelihood alone; a bench shows what it learned.

Functions of garbage take segments, codes `[N, span]` (int64) before any stride, and return as many. The
kinds "shuffled" and "reversed" keep the codes of each segment, so that only their order gives them away.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from safetensors.torch import load_file
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from torch import Generator, Tensor

from pcg.errors import AssetError, InputError
from pcg.files import write_safetensors
from pcg.settings import Checked
from pcg.spoof.detectors import RESOLUTIONS, Detectors, Resolution

KINDS = ("random", "uniform", "shuffled", "reversed", "swapped")
CANDIDATES = 16


@dataclass(frozen=True, eq=False)
class Garbage:
    """Makes garbage by how often the corpus uses each code, `usage [codes]`, and by the similarity of codes, the
    `embedding [codes, D]` of a language model (PCG Eq. 1)."""

    usage: Tensor
    embedding: Tensor

    def of(self, kind: str, segments: Tensor, generator: Generator) -> Tensor:
        """Make garbage of a kind, one of `KINDS`, of real `segments [N, span]`."""
        if kind == "random":
            return drawn(segments, generator, self.usage)
        if kind == "uniform":
            return drawn(segments, generator, self.usage > 0)
        if kind == "shuffled":
            return shuffled(segments, generator)
        if kind == "reversed":
            return segments.flip(-1)
        if kind == "swapped":
            return swapped(segments, generator, self.usage, self.embedding)
        raise InputError("garbage", kind, "one of " + ", ".join(KINDS))


def drawn(codes: Tensor, generator: Generator, weights: Tensor) -> Tensor:
    """Draw as many codes as `codes` has, each by `weights [codes]` and nothing else.

    With the corpus's usage as weights ("random") no single code gives garbage away, only how codes follow each other. With all
    used codes alike ("uniform") rare ones do, but to detectors of likely codes nothing is more real.
    """
    found = torch.multinomial(weights.double(), codes.numel(), replacement=True, generator=generator)
    return found.view(codes.shape)


def shuffled(codes: Tensor, generator: Generator) -> Tensor:
    """Put the codes of each segment into any order."""
    return codes.gather(-1, torch.rand(codes.shape, generator=generator).argsort(-1))


def swapped(codes: Tensor, generator: Generator, usage: Tensor, embedding: Tensor) -> Tensor:
    """Replace each code by one that sounds different.

    Of `CANDIDATES` codes, drawn by `usage`, it is any of that half whose cosine similarity to the replaced code is lower.
    That is the opposite of PCG's swap (PCG section 4): members of the code's Acoustic Similarity Group, whose swap is
    harmless, rank among the highest, unless they are half of all that is said. A rank needs no threshold, which would
    depend on the voice.
    """
    unit = torch.nn.functional.normalize(embedding.float(), dim=-1)
    candidates = drawn(codes.unsqueeze(-1).expand(*codes.shape, CANDIDATES), generator, usage)
    similar = torch.stack([(unit[codes] * unit[each]).sum(-1) for each in candidates.unbind(-1)], dim=-1)
    far = candidates.gather(-1, similar.argsort(-1))[..., : CANDIDATES // 2]
    choice = torch.randint(CANDIDATES // 2, (*codes.shape, 1), generator=generator)
    return far.gather(-1, choice).squeeze(-1)


OWN = "own"
GARBAGE = {"random": 0.1, "uniform": 0.05, "shuffled": 0.15, "reversed": 0.25, "swapped": 0.05}


@dataclass(frozen=True)
class Labelled:
    """Segments `[N, span]`, 1 for real or 0 for synthetic `[N]` (float32), and the number of the utterance of each `[N]`."""

    segments: Tensor
    real: Tensor
    utterance: Tensor


class Mix(Checked):
    """The content of a batch: synthetic segments for each real one, and the shares of garbage among them; the rest are the
    voice's own samples. Reversed speech has the largest share, as it is the hardest to tell."""

    synthetic: int = Field(1, ge=1, description="at least 1 for each real segment")
    garbage: dict[Literal[KINDS], Annotated[float, Field(ge=0, le=1)]] = Field(
        default_factory=GARBAGE.copy, description=f"shares from 0 to 1, together at most 1, of {', '.join(KINDS)}"
    )

    @model_validator(mode="after")
    def _leaves_a_share(self) -> "Mix":
        if self.own < 0:
            raise InputError("garbage", f"{sum(self.garbage.values()):g} together", self.allowed("garbage"))
        return self

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
        real = self._drawn(False, resolution.span, positives, rng)
        synthetic: list[Cut] = []
        for kind, wanted in mix.kinds(count - positives, rng).items():
            cuts = self._drawn(kind == OWN, resolution.span, wanted, rng)
            synthetic += cuts if kind == OWN else _spoilt(cuts, kind, garbage, rng)
        return _labelled(real, synthetic)

    @cached_property
    def _lengths(self) -> tuple[list[int], list[int]]:
        return [len(u) for u in self.real], [len(u) for u in self.synthetic]

    def _drawn(self, synthetic: bool, span: int, count: int, rng: random.Random) -> "list[Cut]":
        """Every place of every utterance is as likely as any other."""
        utterances = self.synthetic if synthetic else self.real
        places = [max(0, length - span + 1) for length in self._lengths[synthetic]]
        if not any(places):
            raise InputError("utterances", f"all shorter than {span} codes", f"some of at least {span} codes")
        chosen = rng.choices(range(len(utterances)), weights=places, k=count)
        starts = [(i, rng.randrange(places[i])) for i in chosen]
        return [(i, utterances[i][s : s + span]) for i, s in starts]

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


RESAMPLES = 100


def held_out_figures(detectors: Detectors, held_out: Segments, garbage: Garbage) -> dict[str, object]:
    """Return the figures by detector, and under "garbage" by kind and detector; spoof is the mean of 1 - P(real)."""
    if not detectors.fit(garbage.usage):
        known = f"of the {detectors.codes} codes that the detectors know"
        raise InputError("voice", f"of {len(garbage.usage)} codes", f"{known}, by the same codec")
    figures: dict[str, object] = {"detectors": detectors.name}
    on_garbage: dict[str, dict[str, object]] = {kind: {} for kind in KINDS}
    for resolution in RESOLUTIONS:
        judge, labelled = partial(detectors.real, resolution), held_out.every(resolution)
        scores, real, utterance = judge(labelled.segments).numpy(), labelled.real.numpy() > 0, labelled.utterance.numpy()
        figures[resolution.name] = {
            **_auc(scores, real, utterance),
            "accuracy": round(float(accuracy_score(real, scores > 0.5)), 4),
            "macro_f1": round(float(f1_score(real, scores > 0.5, average="macro")), 4),
            "n": len(real),
            "spoof": {"real": _spoof(scores[real]), "own": _spoof(scores[~real])},
        }
        segments, of_real = labelled.segments[real], utterance[real]
        for kind in KINDS:
            made = judge(garbage.of(kind, segments, torch.Generator().manual_seed(0))).numpy()
            both = np.concatenate([scores[real], made]), np.repeat([True, False], len(made))
            area = _auc(*both, np.concatenate([of_real, of_real + of_real.max() + 1]))
            on_garbage[kind][resolution.name] = {"spoof": _spoof(made), **area}
    return figures | {"garbage": on_garbage}


def _auc(scores: np.ndarray, real: np.ndarray, utterance: np.ndarray) -> dict[str, object]:
    """Return the AUC with its 95 % bootstrap interval; utterances of each kind are resampled separately."""
    rng = np.random.default_rng(0)
    kinds = [[np.flatnonzero(utterance == number) for number in np.unique(utterance[real == kind])] for kind in (0, 1)]
    draws = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([rows[i] for rows in kinds for i in rng.integers(len(rows), size=len(rows))])
        draws.append(roc_auc_score(real[rows], scores[rows]))
    low, high = np.percentile(draws, [2.5, 97.5])
    return {"auc": round(float(roc_auc_score(real, scores)), 4), "auc_interval": [round(float(low), 4), round(float(high), 4)]}


def _spoof(scores: np.ndarray) -> float:
    return round(float(1 - scores.mean()), 4)
