"""Spoof detectors that were trained on nothing, and a kind of them that likes even codes."""

import torch
from torch import Tensor

from pcg.spoof import RESOLUTIONS, Detector, DetectorConfig, Detectors, Resolution


class Even(Detectors):
    """Finds a segment the more real, the more of its codes are even."""

    def real(self, resolution: Resolution, segments: Tensor) -> Tensor:
        return (segments % 2 == 0).float().mean(1)


def untrained(kind: type[Detectors] = Detectors, codes: int = 64, name: str = "untrained") -> Detectors:
    torch.manual_seed(0)
    config = DetectorConfig(codes, width=16, heads=2, layers=1, feed_forward=16)
    return kind(name, {r.name: Detector(config).eval() for r in RESOLUTIONS})
