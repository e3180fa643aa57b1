"""The CTC paper's experiment: stored, not done twice, and its tables from figures that can be worked out by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pcg.asr.embedded import load_recogniser
from pcg.cli import main
from pcg.errors import AssetError
from pcg.experiments.recognition.speech import SpokenText, noisy, recorded_set
from pcg.experiments.recognition.study import ACCURATE, AR, FAST, SWEEP, Heard, RecognitionStudy, setting_name, study
from pcg.experiments.recognition.tables import (
    claim_table,
    difference,
    modes_table,
    recognition_claims,
    recognition_tables,
    two_proportions,
)
from pcg.experiments.results.claims import CONTRADICTED, HOLDS


def heard(errors: int, milliseconds: float, stage: str = "ar", n: int = 30) -> Heard:
    return Heard(((errors, 20),) * n, (stage,) * n, (milliseconds,) * 3)


def found(fast_errors: int = 2, fast_ms: float = 20.0) -> RecognitionStudy:
    """AR makes 2 errors in 20 words; every setting of the CTC step is faster than any without it."""
    by_setting = {setting_name(each): heard(2, 100.0 if each.ctc is None else 60.0 - 10 * each.ctc) for each in SWEEP}
    by_setting |= {AR: heard(2, 100.0), ACCURATE: heard(2, 90.0, "lm"), FAST: heard(fast_errors, fast_ms, "ctc")}
    return RecognitionStudy({"clean": by_setting}, {"clean": 60.0}, {})


def test_the_modes_stand_beside_the_papers():
    rows = {row[:2]: row for row in modes_table(found()).rows}
    ar, fast = rows["clean", "AR"], rows["clean", "high RTFx"]
    assert (ar[3].value, ar[8], ar[9]) == (0.1, 600.0, None)
    assert (fast[6], fast[7], fast[8], fast[9]) == (1.0, 0.0, 3000.0, 5.0)
    assert rows["the paper, average", "high RTFx"][9] == pytest.approx(4.42, abs=0.01)


def test_the_claims_follow_the_figures():
    verdicts = [claim.verdict for claim in recognition_claims(found())]
    assert verdicts == [HOLDS, HOLDS, HOLDS, HOLDS]
    assert claim_table(found()).rows[0][1] == f"{HOLDS}, n below 200"
    assert recognition_claims(found(fast_errors=4))[1].verdict == CONTRADICTED
    assert recognition_claims(found(fast_ms=50.0))[1].verdict == CONTRADICTED


def test_the_test_of_two_proportions_is_the_textbooks():
    # 60 of 600 against 90 of 600 words: z = 2.62, p = 0.0089.
    assert two_proportions(heard(3, 1.0), heard(2, 1.0)) == pytest.approx(0.0089, abs=2e-4)
    assert two_proportions(heard(2, 1.0), heard(2, 2.0)) == 1.0
    assert difference(heard(3, 1.0), heard(2, 1.0)).value == pytest.approx(0.05)


def test_noise_is_as_loud_as_asked():
    tone = SpokenText("a tone", np.sin(np.arange(16_000) * 0.1).astype(np.float32))
    (rough,) = noisy([tone], 10.0, seed=0)
    added = rough.samples - tone.samples
    assert 10 * np.log10(np.square(tone.samples).mean() / np.square(added).mean()) == pytest.approx(10, abs=0.1)


def test_what_is_done_is_stored_and_not_done_again(recogniser_folder: Path, tmp_path: Path):
    recogniser, rng = load_recogniser(recogniser_folder), np.random.default_rng(0)
    sets = {name: [SpokenText("a word", 0.1 * rng.standard_normal(8000).astype(np.float32))] for name in ("one", "two")}
    said: list[str] = []
    first = study(recogniser, sets, "one", tmp_path / "study.json", "who", announce=said.append, repeats=1)
    assert len(said) == 2
    assert len(first.heard["one"]) == len({setting_name(each) for each in SWEEP})
    again = study(recogniser, sets, "one", tmp_path / "study.json", "who", announce=said.append, repeats=1)
    assert len(said) == 2
    assert again.heard == first.heard
    assert {table.name for table in recognition_tables(again)} == {"recognition-claims", "recognition", "thresholds"}
    study(recogniser, sets, "one", tmp_path / "study.json", "somebody else", announce=said.append, repeats=1)
    assert len(said) == 4


def test_a_damaged_file_is_told_in_one_sentence(tmp_path: Path):
    (tmp_path / "study.json").write_text('{"format": 1, "made": {}, "seconds": {}, "heard": {"one": {"AR": 3}}}')
    with pytest.raises(AssetError, match=r"study\.json are missing or damaged"):
        RecognitionStudy.read(tmp_path / "study.json")


def test_bad_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["experiment", "recognition", "--count", "0"]) == 2
    assert "count" in capsys.readouterr().err
    (tmp_path / "results.sqlite").write_bytes(b"results of takes")
    assert main(["experiment", "recognition", "--results", str(tmp_path)]) == 2
    assert "results" in capsys.readouterr().err
    with pytest.raises(Exception, match="speech"):
        recorded_set(tmp_path, 3)


def test_sets_without_a_sweep_have_no_figure():
    whole = found()
    modes = {at: of for at, of in whole.heard["clean"].items() if at in (AR, ACCURATE, FAST)}
    only = replace(whole, heard={"clean": modes})
    assert {table.name for table in recognition_tables(only)} == {"recognition-claims", "recognition"}
