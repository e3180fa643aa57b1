"""`pcg evaluate` at its surface: who speaks, who drafts, who compares, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from pcg.audio import write_wav
from pcg.cli import main

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
