"""Segments that detectors learn from and are measured on: real codes, a voice's own samples, and garbage.

Detectors that learn from real speech and a model's own samples alone, as in MSpoofTTS (section 3.1), learn how likely codes are
to that model, and call everything real that is less likely than speech. Garbage, made of real segments, is unlikely and
synthetic, so a detector that has it among its negatives cannot judge by likelihood alone.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from sklearn.metrics import accuracy_score, f1_score
from torch import Generator, Tensor

from pcg.errors import InputError
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
        """Make garbage of a kind, one of `KINDS`, of real `segments [N, span]`.

        "random" codes are drawn by the corpus's usage: no single code gives them away, only how codes follow each other. With
        all used codes alike ("uniform") rare ones do, but to detectors of likely codes nothing is more real.

        "swapped": of `CANDIDATES` codes, drawn by usage, each code becomes any of that half whose cosine similarity to it is
        lower. That is the opposite of PCG's swap (PCG section 4). A rank needs no threshold, which would depend on the voice.
        """
        if kind == "random":
            return self._drawn(segments, self.usage, generator)
        if kind == "uniform":
            return self._drawn(segments, self.usage > 0, generator)
        if kind == "shuffled":
            return segments.gather(-1, torch.rand(segments.shape, generator=generator).argsort(-1))
        if kind == "reversed":
            return segments.flip(-1)
        if kind == "swapped":
            unit = torch.nn.functional.normalize(self.embedding.float(), dim=-1)
            candidates = self._drawn(segments.unsqueeze(-1).expand(*segments.shape, CANDIDATES), self.usage, generator)
            similar = torch.stack([(unit[segments] * unit[codes]).sum(-1) for codes in candidates.unbind(-1)], dim=-1)
            far = candidates.gather(-1, similar.argsort(-1))[..., : CANDIDATES // 2]
            choice = torch.randint(CANDIDATES // 2, (*segments.shape, 1), generator=generator)
            return far.gather(-1, choice).squeeze(-1)
        raise InputError("garbage", kind, "one of " + ", ".join(KINDS))

    def _drawn(self, like: Tensor, weights: Tensor, generator: Generator) -> Tensor:
        """Draw as many codes as `like` has, each by `weights [codes]` and nothing else."""
        found = torch.multinomial(weights.double(), like.numel(), replacement=True, generator=generator)
        return found.view(like.shape)


OWN = "own"
GARBAGE = {"random": 0.1, "uniform": 0.05, "shuffled": 0.15, "reversed": 0.25, "swapped": 0.05}


@dataclass(frozen=True)
class Labelled:
    """Segments `[N, span]`, and 1 for real or 0 for synthetic `[N]` (float32), real ones first; by `every`, also the number of
    the utterance of each `[N]`, counted from 0 for both kinds."""

    segments: Tensor
    real: Tensor
    utterance: Tensor | None = None


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


@dataclass(frozen=True)
class Segments:
    """Utterances, each codes `[T]` (int64); those that are shorter than a segment are left out of it."""

    real: Sequence[Tensor]
    synthetic: Sequence[Tensor]

    def batch(self, resolution: Resolution, count: int, mix: Mix, garbage: Garbage, rng: random.Random) -> Labelled:
        """`count` segments from anywhere, real and synthetic as `mix` says; garbage is made of other real segments."""
        positives = max(1, count // (1 + mix.synthetic))
        kinds = rng.choices([OWN, *mix.garbage], weights=[mix.own, *mix.garbage.values()], k=count - positives)
        parts = [_drawn(self.real, resolution.span, positives, rng)]
        for kind, wanted in Counter(kinds).items():
            segments = _drawn(self.synthetic if kind == OWN else self.real, resolution.span, wanted, rng)
            if kind != OWN:
                segments = garbage.of(kind, segments, torch.Generator().manual_seed(rng.getrandbits(63)))
            parts.append(segments)
        return Labelled(torch.cat(parts), (torch.arange(count) < positives).float())

    def every(self, resolution: Resolution) -> Labelled:
        """All segments side by side, as many real as synthetic ones."""
        span = resolution.span
        halves = [
            [(i, u[s : s + span]) for i, u in enumerate(utterances) for s in range(0, len(u) - span + 1, span)]
            for utterances in (self.real, self.synthetic)
        ]
        count = min(map(len, halves))
        if not count:
            raise InputError("utterances", f"real or synthetic ones all shorter than {span} codes", "some that are as long")
        numbers, segments = zip(*halves[0][:count], *halves[1][:count], strict=True)
        return Labelled(torch.stack(segments), (torch.arange(2 * count) < count).float(), torch.tensor(numbers))


def _drawn(utterances: Sequence[Tensor], span: int, count: int, rng: random.Random) -> Tensor:
    """Cut segments `[count, span]`; every place of every utterance is as likely as any other."""
    places = [max(0, len(utterance) - span + 1) for utterance in utterances]
    if not any(places):
        raise InputError("utterances", f"all shorter than {span} codes", f"some of at least {span} codes")
    chosen = rng.choices(range(len(utterances)), weights=places, k=count)
    starts = [(i, rng.randrange(places[i])) for i in chosen]
    return torch.stack([utterances[i][start : start + span] for i, start in starts])


RESAMPLES = 1000


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
            area = _auc(*both, np.tile(of_real, 2))
            on_garbage[kind][resolution.name] = {"spoof": _spoof(made), **area}
    return figures | {"garbage": on_garbage}


def _auc(scores: np.ndarray, real: np.ndarray, utterance: np.ndarray) -> dict[str, object]:
    """Return the AUC with its 95 % bootstrap interval; utterances of each kind are resampled separately."""
    above = (scores[real, None] > scores[~real]) + 0.5 * (scores[real, None] == scores[~real])
    numbers = [np.unique(utterance[kind], return_inverse=True)[1] for kind in (real, ~real)]
    members = [np.arange(number.max() + 1)[:, None] == number for number in numbers]  # [utterances, segments]
    wins, sizes = members[0] @ above @ members[1].T, [of.sum(1) for of in members]
    rng = np.random.default_rng(0)
    times = [rng.multinomial(len(of), np.full(len(of), 1 / len(of)), RESAMPLES) for of in members]
    draws = ((times[0] @ wins) * times[1]).sum(1) / ((times[0] @ sizes[0]) * (times[1] @ sizes[1]))
    low, high = np.percentile(draws, [2.5, 97.5])
    return {"auc": round(float(above.mean()), 4), "auc_interval": [round(float(low), 4), round(float(high), 4)]}


def _spoof(scores: np.ndarray) -> float:
    return round(float(1 - scores.mean()), 4)
