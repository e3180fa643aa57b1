"""`pcg bench judge` and `pcg transcribe` on a recogniser that spells nonsense: their contract, not their figures."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import soundfile

from pcg.cli import main
from pcg.training.data.corpus import HELD_OUT, CorpusEntry

SENTENCES = ("the quick brown fox", "a warm bright morning sun", "don't the boats move")


@pytest.fixture
def work(tmp_path, babble):
    """Held-out splits of the corpus's format, of one voice."""
    for seed, split in enumerate(HELD_OUT):
        samples = [(20_000 * s.numpy()).astype(np.int16) for s in babble(len(SENTENCES), seed)]
        starts = np.cumsum([0, *(len(s) for s in samples)])
        folder = tmp_path / "corpus" / split / "tone"
        folder.mkdir(parents=True)
        np.save(folder / "00000.npy", np.concatenate(samples))
        index = [asdict(CorpusEntry(t, int(b), len(s))) for t, b, s in zip(SENTENCES, starts, samples, strict=False)]
        (folder / "00000.json").write_text(json.dumps(index))
    return tmp_path


def last_json(capsys):
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


@pytest.mark.slow
def test_the_modes_are_measured_side_by_side(work, recogniser_folder, capsys):
    arguments = ["--work", str(work), "--recogniser", str(recogniser_folder), "--utterances", "2", "--repeats", "1"]
    assert main(["bench", "judge", *arguments]) == 0
    figures = last_json(capsys)
    assert figures["judge"].startswith("tiny (weights ")
    assert figures["homophones_sentences"] == figures["homophones_words"] == 0
    for name in ("wer_sentences", "wer_words", "wer_pocketsphinx_sentences", "wer_pocketsphinx_words"):
        assert figures[name] >= 0
    assert set(figures["modes"]) >= {"ar", "accurate", "fast", "words"}
    assert all(set(mode) == {"wer", "rtfx", "ctc_accepted", "slm_accepted", "n"} for mode in figures["modes"].values())
    assert all(mode["n"] == 4 and mode["rtfx"] > 0 for mode in figures["modes"].values())
    ar, gate = figures["modes"]["ar"], figures["modes"]["ctc only"]
    assert (ar["ctc_accepted"], ar["slm_accepted"], gate["ctc_accepted"]) == (0, 0, 1)


def test_without_a_corpus_it_says_what_is_missing(tmp_path, recogniser_folder, capsys):
    assert main(["bench", "judge", "--work", str(tmp_path), "--recogniser", str(recogniser_folder)]) == 2
    assert "pcg train corpus" in capsys.readouterr().err


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
