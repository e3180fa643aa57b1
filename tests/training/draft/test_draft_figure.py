"""The proof's figure on a tiny voice: every curve from one command, resumable, and drawn from its JSON alone."""

import json

import numpy as np
import pytest

from pcg.cli import main
from pcg.errors import InputError
from pcg.synthesis.voice import load_voice
from pcg.training.data.corpus import write_shard
from pcg.training.draft.figure import CURVES, FigurePlan, draft_figure, draw

PLAN = FigurePlan(steps=4, every=2, budget=400, shards=2, samples=40, sentences=6)
TEXTS = ("hello", "yes, is this one?", "the quick brown fox jumps", "a lazy dog")


@pytest.fixture
def work(tmp_path):
    """A corpus of tones in the corpus's own format."""
    rng = np.random.default_rng(0)
    for split in ("train", "held_out_sentences"):
        for voice in ("rms", "slt"):
            tones = [np.sin(np.arange(16_000 + 3_000 * (i % 5)) * rng.uniform(0.02, 0.2)) for i in range(16)]
            spoken = [(TEXTS[i % 4], 0.3 * tone.astype(np.float32)) for i, tone in enumerate(tones)]
            write_shard(tmp_path / "corpus" / split / voice / "00000.npy", spoken)
    return tmp_path


def make(work, folder, name="figure", plan=PLAN):
    return draft_figure(load_voice(str(folder)), work / "corpus", work / name, work / "out" / name, plan)


@pytest.mark.slow
def test_every_curve_starts_untrained_and_resumes(work, tiny_voice_folder):
    found = make(work, tiny_voice_folder)
    assert json.loads((work / "out" / "figure.json").read_text()) == json.loads(json.dumps(found))
    assert [(c["objective"], c["depth"]) for c in found["curves"]] == [("ce", 2), ("distil", 2), ("distil", 3), ("distil", 4)]
    assert [c["layers"] for c in found["curves"][:2]] == [(0, 2)] * 2
    for curve in found["curves"]:
        assert [point["step"] for point in curve["points"]] == ([0, 2, 4] if curve["depth"] == 2 else [0, 4])
        for point in curve["points"]:
            for name in ("sd", "pcg", "expected"):
                assert 0 <= point[name]["low"] <= point[name]["value"] <= point[name]["high"] <= 1
    ce, distil = found["curves"][:2]
    assert ce["points"][0] == distil["points"][0]
    assert ce["points"][2] != distil["points"][2]
    assert found["utterances"]["tried on"] == 6

    logs = {curve.name: (work / "figure" / f"{curve.name}.jsonl") for curve in CURVES}
    whole = logs["distil_3_layers"].read_text().splitlines()
    logs["distil_3_layers"].write_text("\n".join(whole) + "\n" + whole[-1] + "\n")  # a kill between log and checkpoint
    written = {name: log.stat().st_mtime_ns for name, log in logs.items()}
    assert make(work, tiny_voice_folder) == found
    assert {name: log.stat().st_mtime_ns for name, log in logs.items()} == written
    with pytest.raises(InputError, match="another plan"):
        make(work, tiny_voice_folder, plan=FigurePlan(steps=5))

    picture = work / "out" / "figure.png"
    assert picture.stat().st_size > 20_000
    picture.unlink()
    draw(json.loads((work / "out" / "figure.json").read_text()), picture)
    assert picture.stat().st_size > 20_000


def test_the_command_needs_a_corpus(tmp_path, tiny_voice_folder, capsys):
    asked = ["train", "draft-figure", "--target", str(tiny_voice_folder), "--work", str(tmp_path), "--steps", "2"]
    assert main([*asked, "--out", str(tmp_path / "figure")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pcg: work is ")
    assert error.count("\n") == 1
