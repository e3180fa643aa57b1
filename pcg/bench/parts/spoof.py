"""The detectors on utterances that no training saw, beside MSpoofTTS Table 3 (LibriTTS test-clean)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from pcg.metrics.estimate import Estimate, between
from pcg.spoof.detector import RESOLUTIONS, Resolution
from pcg.spoof.detectors import Detectors
from pcg.spoof.segments import Segments

PAPER = {
    "M50": (0.9199, 0.8616, 0.8180),
    "M25": (0.8298, 0.8034, 0.6892),
    "M10": (0.6842, 0.7506, 0.5336),
    "M50<-25": (0.8346, 0.7935, 0.5973),
    "M50<-10": (0.6914, 0.7456, 0.5952),
}
"""AUC, accuracy and macro-F1, there with three synthetic segments for each real one."""
RESAMPLES = 100
THRESHOLD = 0.5


@dataclass(frozen=True)
class DetectorFigures:
    """One detector over n segments, half of them real; the interval is over utterances."""

    resolution: Resolution
    auc: Estimate
    accuracy: float
    macro_f1: float
    n: int

    def as_dict(self) -> dict[str, object]:
        return {
            "auc": round(self.auc.value, 4),
            "auc_interval": [round(self.auc.low, 4), round(self.auc.high, 4)],
            "accuracy": round(self.accuracy, 4),
            "macro_f1": round(self.macro_f1, 4),
            "n": self.n,
        }


def bench_spoof(detectors: Detectors, held_out: Segments) -> dict[str, object]:
    """Print our figures beside the paper's, and return ours by the detectors' names."""
    print(f"detectors: {detectors.name}; {len(held_out.real)} real and {len(held_out.synthetic)} synthetic utterances")
    print(f"{'':9}{'AUC':>22}{'Acc':>7}{'F1':>7}{'n':>7}   paper: AUC   Acc    F1")
    figures = {}
    for resolution in RESOLUTIONS:
        found = figures_of(detectors, resolution, held_out)
        figures[resolution.name] = found.as_dict()
        auc, theirs = found.auc, PAPER[resolution.name]
        interval = f"{auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]"
        ours = f"{resolution.name:9}{interval:>22}{found.accuracy:7.3f}{found.macro_f1:7.3f}{found.n:7}"
        print(f"{ours}      {theirs[0]:8.3f}{theirs[1]:6.3f}{theirs[2]:6.3f}")
    return {"detectors": detectors.name, **figures}


def figures_of(detectors: Detectors, resolution: Resolution, held_out: Segments) -> DetectorFigures:
    labelled = held_out.every(resolution)
    scores, real = detectors.real(resolution, labelled.segments).numpy(), labelled.real.numpy()
    draws = np.array([roc_auc_score(real[rows], scores[rows]) for rows in _resampled(labelled.utterance.numpy(), real)])
    auc = between(float(roc_auc_score(real, scores)), draws)
    said = scores > THRESHOLD
    return DetectorFigures(
        resolution, auc, float(accuracy_score(real, said)), float(f1_score(real, said, average="macro")), len(real)
    )


def _resampled(utterance: np.ndarray, real: np.ndarray) -> Iterator[np.ndarray]:
    """The segments of utterances that were drawn anew with replacement, those of each kind by themselves."""
    rng = np.random.default_rng(0)
    kinds = [[np.flatnonzero(utterance == number) for number in np.unique(utterance[real == kind])] for kind in (0, 1)]
    for _ in range(RESAMPLES):
        yield np.concatenate([rows[i] for rows in kinds for i in rng.integers(len(rows), size=len(rows))])
