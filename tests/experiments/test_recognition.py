"""The recogniser's modes over test sets: what was done is not done again, and tables have the paper's tests."""

from pathlib import Path

import numpy as np
import pytest

from pcg.asr.embedded import load_recogniser
from pcg.cli import main
from pcg.errors import AssetError, InputError
from pcg.experiments.recognition import (
    MODES,
    SWEEP,
    SetResult,
    SpokenText,
    Study,
    noisy,
    recognition_tables,
    recorded_set,
    setting_name,
    study,
    two_proportions,
)


def test_a_study_resumes_and_is_done_again_for_another_recogniser(recogniser_folder, babble, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("pcg.experiments.recognition.REPEATS", 1)
    monkeypatch.setattr("pcg.experiments.recognition.SWEEP", SWEEP[::8])
    sets = {name: [SpokenText("the quick fox", each.numpy()) for each in babble(2, seed)] for seed, name in enumerate("ab")}
    recogniser, said, path = load_recogniser(recogniser_folder), [], tmp_path / "study.json"
    first = study(recogniser, sets, "a", path, "who", announce=said.append)
    assert len(said) == 2
    assert len(first.heard["a"]) == len({setting_name(each) for each in SWEEP[::8]} | {*first.heard["b"]})
    assert len(first.heard["b"]) == len(MODES)
    again = study(recogniser, sets, "a", path, "who", announce=said.append)
    assert (again.heard, again.seconds, len(said)) == (first.heard, first.seconds, 2)
    assert Study.read(path) == first
    tables = recognition_tables(first)
    assert [table.name for table in tables] == ["recognition", "thresholds"]
    assert len(tables[0].rows) == 2 * len(MODES) + len(MODES)
    study(recogniser, sets, "a", path, "somebody else", announce=said.append)
    assert len(said) == 4


def test_two_proportions_are_told_apart_as_the_paper_does() -> None:
    def result(errors: int) -> SetResult:
        return SetResult(((errors, 1000),), ("ar",), (1.0,))

    assert two_proportions(result(100), result(100)) == 1.0
    assert two_proportions(result(100), result(130)) == pytest.approx(0.0355, abs=2e-4)
    assert two_proportions(result(0), result(0)) == 1.0


def test_noise_lies_ten_decibels_below() -> None:
    sound = SpokenText("a", np.sin(np.arange(16_000) / 5).astype(np.float32))
    (changed,) = noisy([sound], 10.0, 0)
    noise = changed.samples - sound.samples
    assert 10 * np.log10(np.square(sound.samples).mean() / np.square(noise).mean()) == pytest.approx(10, abs=0.2)


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "recognition", "--count", "0"]) == 2
    assert "count" in capsys.readouterr().err
    (tmp_path / "results.sqlite").write_bytes(b"results of takes")
    assert main(["experiment", "recognition", "--results", str(tmp_path)]) == 2
    assert "results" in capsys.readouterr().err
    with pytest.raises(InputError, match="speech"):
        recorded_set(tmp_path, 3)
    (tmp_path / "study.json").write_text('{"format": 1, "made": {}, "seconds": {}, "heard": {"one": {"AR": 3}}}')
    with pytest.raises(AssetError, match=r"study\.json are missing or damaged"):
        Study.read(tmp_path / "study.json")
