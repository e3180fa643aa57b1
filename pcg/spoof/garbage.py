"""Garbage: codes that nobody would take for speech, made of real segments.

Detectors that learn from real speech and a model's own samples alone, as in MSpoofTTS (section 3.1), learn how likely codes are
to that model, and call everything real that is less likely than speech. Garbage is unlikely and synthetic, so a
detector that has it among its negatives cannot judge by likelihood alone; a bench uses it to show what a detector learned.

Every function takes segments as detectors look at them, codes `[N, span]` (int64) before any stride, and returns as many. The
kinds "shuffled" and "reversed" keep the codes of each segment, so that only their order gives them away.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from pcg.errors import InputError

KINDS = ("random", "uniform", "shuffled", "reversed", "swapped")
CANDIDATES = 16


@dataclass(frozen=True, eq=False)
class Garbage:
    """What garbage is made with: how often the corpus uses each code, `usage [codes]`, and what makes codes similar, the
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
