"""`bench spoof` as a program reads it, on the tiny voice with detectors that have learned nothing."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from pcg.bench.parts.spoof import auc_of
from pcg.cli import main
from pcg.files.checksums import write_checksums
from pcg.spoof.detector import RESOLUTIONS, Detector, DetectorConfig
from pcg.spoof.detectors import save_detectors
from pcg.spoof.garbage import KINDS
from pcg.spoof.segments import Segments

NAMES = [r.name for r in RESOLUTIONS]


def folder_of(codes: int, folder: Path) -> Path:
    """Untrained detectors and held-out utterances of any codes."""
    torch.manual_seed(0)
    config = DetectorConfig(codes, width=16, heads=2, layers=1, feed_forward=16)
    save_detectors(folder, "untrained", {name: Detector(config).eval() for name in NAMES})
    parts = [[torch.randint(60, (length,)) for length in (60, 110, 55)] for _ in range(2)]
    Segments(*parts).save(folder / "held_out.safetensors")
    write_checksums(folder)
    return folder


def test_the_last_line_has_the_figures_of_each_detector_and_of_each_kind_of_garbage(
    tiny_voice_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(64, tmp_path)
    asked = ["bench", "spoof", "--detectors", str(folder), "--model", str(tiny_voice_folder)]
    assert main(asked) in (0, None)
    said = capsys.readouterr().out.splitlines()
    figures = json.loads(said[-1])
    assert set(figures) == {"detectors", *NAMES, "garbage"}
    for name in NAMES:
        assert set(figures[name]) == {"auc", "auc_interval", "accuracy", "macro_f1", "n", "spoof"}
        assert set(figures[name]["spoof"]) == {"real", "own"}
    assert list(figures["garbage"]) == list(KINDS)
    for kind, row in figures["garbage"].items():
        assert list(row) == NAMES
        (shown,) = [line.split() for line in said if line.startswith(f"{kind} ")]
        assert [float(cell) for cell in shown[1:]] == pytest.approx(
            [value for each in row.values() for value in (each["spoof"], each["auc"])], abs=6e-4
        )
        for each in row.values():
            low, high = each["auc_interval"]
            assert 0 <= low <= each["auc"] <= high <= 1
            assert 0 < each["spoof"] < 1
    assert main(asked) in (0, None)
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == figures, "the same garbage each time"


def test_a_voice_of_other_codes_is_refused(tiny_voice_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(65, tmp_path)
    assert main(["bench", "spoof", "--detectors", str(folder), "--model", str(tiny_voice_folder)]) not in (0, None)
    assert "of the 65 codes" in capsys.readouterr().err


def test_the_auc_by_ranks_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    real, scores = rng.random(300) < 0.3, rng.integers(20, size=300) / 20
    assert auc_of(real, scores) == pytest.approx(roc_auc_score(real, scores))
    assert auc_of(real, real + scores) > 0.95
