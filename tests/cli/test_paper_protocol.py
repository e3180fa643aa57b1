"""The papers' protocol from one command, on a folder in LibriTTS's layout."""

import numpy as np
import pytest

from pcg.audio import write_wav
from pcg.cli import main

pytestmark = pytest.mark.slow
TIME = np.arange(44_800) / 16_000
SOUND = (0.3 * np.sin(2 * np.pi * 200 * TIME) * (1 + np.sin(20 * TIME))).astype(np.float32)


@pytest.mark.parametrize(("model", "count", "seeds"), [("tiny_voice_folder", 2, (0, 1)), ("llasa_folder", 1, (0,))])
def test_the_papers_protocol_is_one_command(model, count, seeds, tmp_path, request, capsys):
    """On a folder in LibriTTS's layout, of a made sound: texts of two speakers, each cloned, by two judges."""
    for speaker in ("slt", "rms"):
        chapter = tmp_path / "LibriTTS" / "test-clean" / speaker / "1"
        chapter.mkdir(parents=True)
        for i, text in enumerate(("the quick brown fox jumps over a lazy dog, yes.", "hello, this is one sentence.")):
            write_wav(chapter / f"{speaker}_1_{i}.wav", SOUND, 16_000)
            (chapter / f"{speaker}_1_{i}.normalized.txt").write_text(text, encoding="utf-8")
    asked = ["--libritts", str(tmp_path / "LibriTTS"), "--count", str(count), "--quick"]
    asked += ["--seeds", ",".join(map(str, seeds))]
    who = ["--model", str(request.getfixturevalue(model)), "--judge", "whisper,embedded"]
    assert main(["experiment", "run", "paper", *asked, *who, "--results", str(tmp_path / "results")]) == 0
    said = capsys.readouterr().out
    for title in ("Words, speaker, sound and speed", "WER %, embedded", "(PCG Table 2)"):
        assert title in said
    table = next(part for part in said.split("**") if part.startswith("\n\n| setting") and "| original" in part)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "|" in line]
    rows = {line[0]: dict(zip(lines[0], line, strict=True)) for line in lines}
    assert {"original", "codec alone"} < set(rows)
    assert rows["original"]["n"] == str(count)
