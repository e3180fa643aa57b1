"""`pcg transcribe` on a recogniser that spells nonsense: their contract, not their figures."""

import json

import numpy as np
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
    assert main([*given, "--mode", "fast"]) == 0
    gated = last_json(capsys)
    assert gated["text"] == " ".join(part["text"] for part in gated["parts"])
    assert main([*given, "--mode", "words"]) == 0
    assert last_json(capsys)["stage"] == "words"
