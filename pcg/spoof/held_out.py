"""Figures of detectors on held-out utterances and on garbage: AUC with an interval over utterances, accuracy, macro-F1."""

from functools import partial

import numpy as np
import torch
from scipy.stats import rankdata
from sklearn.metrics import accuracy_score, f1_score

from pcg.errors import InputError
from pcg.spoof.detector import RESOLUTIONS
from pcg.spoof.detectors import Detectors
from pcg.spoof.garbage import KINDS, Garbage
from pcg.spoof.segments import Segments

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


def auc_of(real: np.ndarray, scores: np.ndarray) -> float:
    """Return the probability that a real segment scores above another, ties counting half (Mann and Whitney, by ranks)."""
    positive = int(real.sum())
    above = rankdata(scores)[real].sum() - positive * (positive + 1) / 2
    return float(above / (positive * (len(real) - positive)))


def _auc(scores: np.ndarray, real: np.ndarray, utterance: np.ndarray) -> dict[str, object]:
    """Return the AUC with its 95 % bootstrap interval; utterances of each kind are resampled separately."""
    rng = np.random.default_rng(0)
    kinds = [[np.flatnonzero(utterance == number) for number in np.unique(utterance[real == kind])] for kind in (0, 1)]
    draws = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([rows[i] for rows in kinds for i in rng.integers(len(rows), size=len(rows))])
        draws.append(auc_of(real[rows], scores[rows]))
    low, high = np.percentile(draws, [2.5, 97.5])
    return {"auc": round(auc_of(real, scores), 4), "auc_interval": [round(float(low), 4), round(float(high), 4)]}


def _spoof(scores: np.ndarray) -> float:
    return round(float(1 - scores.mean()), 4)
