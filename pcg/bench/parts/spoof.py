"""The detectors on utterances that no training saw, beside MSpoofTTS Table 3 (LibriTTS test-clean), and on garbage."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.stats import rankdata
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor

from pcg.errors import InputError
from pcg.metrics.estimate import Estimate, between
from pcg.spoof.detector import RESOLUTIONS, Resolution
from pcg.spoof.detectors import Detectors
from pcg.spoof.garbage import KINDS, Garbage
from pcg.spoof.segments import Labelled, Segments

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
SEED = 0


@dataclass(frozen=True)
class DetectorFigures:
    """One detector over n segments, half of them real; the interval is over utterances. spoof_real, spoof_own: the mean of
    1 - P(real) over real segments and over the voice's own."""

    auc: Estimate
    accuracy: float
    macro_f1: float
    n: int
    spoof_real: float
    spoof_own: float

    def as_dict(self) -> dict[str, object]:
        return {
            **_auc_dict(self.auc),
            "accuracy": round(self.accuracy, 4),
            "macro_f1": round(self.macro_f1, 4),
            "n": self.n,
            "spoof": {"real": round(self.spoof_real, 4), "own": round(self.spoof_own, 4)},
        }


@dataclass(frozen=True)
class GarbageFigures:
    """One detector over one kind of garbage: the mean of 1 - P(real), and the AUC against the real segments that it was made
    of. Above an AUC of a half, the detector finds it less real than speech."""

    spoof: float
    auc: Estimate

    def as_dict(self) -> dict[str, object]:
        return {"spoof": round(self.spoof, 4), **_auc_dict(self.auc)}


def bench_spoof(detectors: Detectors, held_out: Segments, garbage: Garbage) -> dict[str, object]:
    """Print our figures beside the paper's, and those on garbage; return ours by the detectors' names, and of garbage
    (`garbage`) by its kind and the detectors' names."""
    if not detectors.fit(garbage.usage):
        known = f"of the {detectors.codes} codes that the detectors know"
        raise InputError("voice", f"of {len(garbage.usage)} codes", f"{known}, by the same codec")
    print(f"detectors: {detectors.name}; {len(held_out.real)} real and {len(held_out.synthetic)} synthetic utterances")
    judged = {r.name: _Judged.by(detectors, r, held_out) for r in RESOLUTIONS}
    found = {name: _figures(each) for name, each in judged.items()}
    spoilt = {kind: {name: _on_garbage(each, garbage, kind) for name, each in judged.items()} for kind in KINDS}
    print("\n".join([*_beside_the_paper(found), "", *_garbage_lines(found, spoilt)]))
    return {
        "detectors": detectors.name,
        **{name: figures.as_dict() for name, figures in found.items()},
        "garbage": {kind: {name: figures.as_dict() for name, figures in row.items()} for kind, row in spoilt.items()},
    }


@dataclass(frozen=True, eq=False)
class _Judged:
    """Held-out segments and what one detector said of each: `scores`, P(real)."""

    judge: Callable[[Tensor], Tensor]
    labelled: Labelled
    scores: np.ndarray

    @classmethod
    def by(cls, detectors: Detectors, resolution: Resolution, held_out: Segments) -> "_Judged":
        judge, labelled = partial(detectors.real, resolution), held_out.every(resolution)
        return cls(judge, labelled, judge(labelled.segments).numpy())

    @property
    def real(self) -> np.ndarray:
        return self.labelled.real.numpy() > 0


def _figures(judged: _Judged) -> DetectorFigures:
    scores, real = judged.scores, judged.real
    said = scores > THRESHOLD
    return DetectorFigures(
        _auc(scores, real, judged.labelled.utterance.numpy()),
        float(accuracy_score(real, said)),
        float(f1_score(real, said, average="macro")),
        len(real),
        *(float(1 - scores[real == kind].mean()) for kind in (True, False)),
    )


def _on_garbage(judged: _Judged, garbage: Garbage, kind: str) -> GarbageFigures:
    """Of garbage of all real segments, the same at each call."""
    real, utterance = judged.labelled.segments[judged.real], judged.labelled.utterance[judged.real].numpy()
    made = judged.judge(garbage.of(kind, real, torch.Generator().manual_seed(SEED))).numpy()
    scores, labels = np.concatenate([judged.scores[judged.real], made]), np.repeat([True, False], len(made))
    auc = _auc(scores, labels, np.concatenate([utterance, utterance + utterance.max() + 1]))
    return GarbageFigures(float(1 - made.mean()), auc)


def _beside_the_paper(found: Mapping[str, DetectorFigures]) -> list[str]:
    lines = [f"{'':9}{'AUC':>22}{'Acc':>7}{'F1':>7}{'n':>7}   paper: AUC   Acc    F1"]
    for name, ours in found.items():
        auc, theirs = ours.auc, PAPER[name]
        interval = f"{auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]"
        row = f"{name:9}{interval:>22}{ours.accuracy:7.3f}{ours.macro_f1:7.3f}{ours.n:7}"
        lines.append(f"{row}      {theirs[0]:8.3f}{theirs[1]:6.3f}{theirs[2]:6.3f}")
    return lines


def _garbage_lines(found: Mapping[str, DetectorFigures], spoilt: Mapping[str, Mapping[str, GarbageFigures]]) -> list[str]:
    """A row for each kind, a column for each detector."""
    title = "mean spoof probability; of garbage also the AUC against real speech (0.5: as real as speech)"
    lines = [title, f"{'':16}" + "".join(f"{name:>14}" for name in found)]
    for name, means in {
        "real speech": [f.spoof_real for f in found.values()],
        "the voice's own": [f.spoof_own for f in found.values()],
    }.items():
        lines.append(f"{name:16}" + "".join(f"{mean:7.3f}{'':7}" for mean in means))
    for kind, row in spoilt.items():
        lines.append(f"{kind:16}" + "".join(f"{f.spoof:7.3f} {f.auc.value:.3f} " for f in row.values()))
    return lines


def _auc(scores: np.ndarray, real: np.ndarray, utterance: np.ndarray) -> Estimate:
    draws = np.array([auc_of(real[rows], scores[rows]) for rows in _resampled(utterance, real)])
    return between(auc_of(real, scores), draws)


def auc_of(real: np.ndarray, scores: np.ndarray) -> float:
    """How probable it is that a real segment scores above another; ties count half. real `[N]`, bool; scores `[N]`.

    By ranks (Mann and Whitney): of thousands of resamples, scikit-learn's checks take most of the time.
    """
    positive = int(real.sum())
    above = rankdata(scores)[real].sum() - positive * (positive + 1) / 2
    return float(above / (positive * (len(real) - positive)))


def _auc_dict(auc: Estimate) -> dict[str, object]:
    return {"auc": round(auc.value, 4), "auc_interval": [round(auc.low, 4), round(auc.high, 4)]}


def _resampled(utterance: np.ndarray, real: np.ndarray) -> Iterator[np.ndarray]:
    """The segments of utterances that were drawn anew with replacement, those of each kind by themselves."""
    rng = np.random.default_rng(0)
    kinds = [[np.flatnonzero(utterance == number) for number in np.unique(utterance[real == kind])] for kind in (0, 1)]
    for _ in range(RESAMPLES):
        yield np.concatenate([rows[i] for rows in kinds for i in rng.integers(len(rows), size=len(rows))])
