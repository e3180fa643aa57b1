"""`pcg evaluate` at its surface: who speaks, who drafts, who compares, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from pcg.audio import write_wav
from pcg.cli import main
from pcg.metrics.quality import DNSMOS

SMALL = ["--sentences", "1", "--stopping", "2", "--method", "ar"]


def test_no_takes_are_refused_in_one_sentence(tiny_voice_folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["evaluate", "stopping", *SMALL, "--model", str(tiny_voice_folder), "--stopping", "0"]) == 2
    assert capsys.readouterr().err == "pcg: stopping is 0, but must be a whole number from 1 up.\n"


def test_the_draft_and_the_recording_are_those_that_were_named(
    tiny_voice_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["evaluate", "stopping", *SMALL, "--model", str(tiny_voice_folder), "--draft", "nobody"]) == 2
    assert "draft is 'nobody'" in capsys.readouterr().err
    recording = tmp_path / "hum.wav"
    write_wav(recording, 0.2 * np.sin(np.arange(32_000) * 0.05), 16_000)
    mine = ["--reference", str(recording), "--reference-text", "hello"]
    assert main(["evaluate", "stopping", *SMALL, "--model", str(tiny_voice_folder), *mine]) == 0
    assert "of 2 takes" in capsys.readouterr().out


def test_an_unknown_judge_of_speakers_is_refused(tiny_voice_folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["evaluate", "table", *SMALL, "--model", str(tiny_voice_folder), "--speaker-judge", "nobody"]) == 2
    assert "speaker judge is 'nobody'" in capsys.readouterr().err


def test_an_unknown_or_repeated_judge_is_refused_before_anything_is_loaded(capsys: pytest.CaptureFixture) -> None:
    for judges in ("nobody", "embedded,nobody", "embedded,embedded", ""):
        assert main(["evaluate", "table", *SMALL, "--model", "nowhere", "--judge", judges]) == 2
        assert f"judge is {repr(judges) if judges else 'missing'}" in capsys.readouterr().err


def test_all_voices_are_those_of_the_model_and_no_recording(
    tiny_voice_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    every = ["--model", str(tiny_voice_folder), "--voice", "all"]
    assert main(["evaluate", "stopping", *SMALL, *every]) == 0
    assert "of 2 takes" in capsys.readouterr().out
    assert main(["evaluate", "stopping", *SMALL, *every, "--reference", str(tmp_path / "a.wav")]) == 2
    assert "voice is 'all', but must be left out" in capsys.readouterr().err


@pytest.mark.slow
def test_the_table_of_the_command_has_every_voice_and_judge(
    tiny_voice_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(DNSMOS, "score", lambda self, samples, sample_rate: 3.0)
    every = ["--model", str(tiny_voice_folder), "--voice", "all", "--judge", "embedded,pocketsphinx", "--json"]
    assert main(["evaluate", "table", *SMALL, *every]) == 0
    *table, figures = capsys.readouterr().out.splitlines()
    (row,) = json.loads(figures)["table"]["rows"]
    assert row["n"] == 2
    assert set(row["wer_by"]) == {"embedded", "pocketsphinx"}
    assert any("| WER %, embedded | WER %, pocketsphinx |" in line for line in table)
