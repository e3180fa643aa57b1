"""`pcg transcribe` on a recogniser that spells nonsense: their contract, not their figures."""

import json

import numpy as np
import pytest
import soundfile

from pcg.cli import main


def last_json(capsys):
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_a_recording_is_transcribed(tmp_path, recogniser_folder, babble, capsys):
    file = tmp_path / "a.wav"
    soundfile.write(file, np.concatenate([s.numpy() for s in babble(3, 1)]), 16_000)
    given = ["transcribe", str(file), "--recogniser", str(recogniser_folder), "--json"]
    assert main([*given, "--mode", "ar"]) == 0
    plain = last_json(capsys)
    assert set(plain) >= {"text", "stage", "rtfx", "judge"}
    assert plain["stage"] == "ar"
    assert main([*given, "--tau-ctc", "10"]) == 0
    gated = last_json(capsys)
    assert gated["stage"] == "ctc"
    assert gated["text"] == " ".join(part["text"] for part in gated["parts"])
    assert main([*given, "--mode", "words"]) == 0
    assert last_json(capsys)["stage"] == "words"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--mode", "magic"], "mode"),
        (["--mode", "words", "--tau-slm", "0.2"], "mode"),
        (["--tau-ctc", "-1"], "tau-ctc"),
        (["--tau-slm", "2"], "tau-slm"),
        ([], "audio file"),
    ],
)
def test_bad_input_is_one_sentence(recogniser_folder, capsys, arguments, named):
    assert main(["transcribe", "missing.wav", "--recogniser", str(recogniser_folder), *arguments]) == 2
    said = capsys.readouterr().err
    assert named in said
    assert len(said.strip().splitlines()) == 1
