"""The sweep over thresholds: its files, its transcripts, its counts."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from explorers.recognise.actions import hear
from explorers.recognise.figures import sweep_figure
from explorers.recognise.sweep import MOST_FILES, SWEPT, Sweep, read_recordings, read_transcripts, sweep
from explorers.recognise.transcript import sweep_summary, sweep_table
from pcg.asr.embedded import EmbeddedRecogniser
from pcg.asr.recogniser import Recogniser
from pcg.asr.self_speculative import PRESETS
from pcg.errors import InputError
from pcg.metrics.intelligibility import comparable, word_errors
from tests.explorers.hostile import MARKUP

RATE = 16_000


def _swept(recogniser: Recogniser, recordings: list[Path], transcripts: Path | None) -> list[Sweep]:
    return list(sweep(recogniser, read_recordings(recordings, transcripts, RATE), SWEPT[:6]))


def test_the_sweeps_counts_add_up(recogniser: EmbeddedRecogniser, recordings: list[Path]) -> None:
    *steps, last = _swept(recogniser, recordings, None)
    assert (last.measure, last.files, len(last.points), last.now) == ("disagreement with AR", 10, 6, None)
    assert [(step.now, step.heard) for step in steps[:3]] == [("AR", 0), ("AR", 8), ("τ 0.3, 0.1", 0)]
    for point in last.points:
        assert sum(point.stages.values()) == 10
        assert sum(point.share(stage) for stage in ("ctc", "lm", "ar")) == pytest.approx(1)
        assert point.rtfx == pytest.approx(last.seconds / point.work_seconds)
    ar, *others = last.points
    assert (ar.rate.value, ar.stages["ar"]) == (0, 10)
    # The same seconds of sound are gated at every setting: a higher gate accepts no less.
    gated = [point.stages["ctc"] for point in others[:4]]
    assert gated == sorted(gated)
    json.dumps(last.record(), allow_nan=False)
    drawn = [x for trace in sweep_figure(last).data for x in trace.x]
    assert sorted(drawn) == pytest.approx(sorted(point.rtfx for point in last.points))
    assert sweep_table(last).count('<th scope="row">') == 6
    assert "n = 10 files" in sweep_summary(last)


def test_with_transcripts_the_sweep_counts_errors(
    recogniser: EmbeddedRecogniser, recordings: list[Path], tmp_path: Path
) -> None:
    texts = {path.stem: f"word {MARKUP}" for path in recordings}
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    last = _swept(recogniser, recordings, tmp_path / "texts.json")[-1]
    assert (last.measure, last.words) == ("WER", 10 * len(comparable(f"word {MARKUP}").split()))
    heard = [hear(recogniser, soundfile.read(p, dtype="float32")[0], RATE, SWEPT[0]).text for p in recordings]
    expected = sum(word_errors(f"word {MARKUP}", text).errors for text in heard) / last.words
    assert last.points[0].rate.value == pytest.approx(expected)


def test_a_closed_sweep_stops(recogniser: EmbeddedRecogniser, recordings: list[Path]) -> None:
    steps = sweep(recogniser, read_recordings(recordings, None, RATE))
    next(steps)
    steps.close()
    assert list(steps) == []


@pytest.mark.parametrize("content", ["b.wav\tone two\na b.flac\tthree", '{"b.wav": "one two", "folder/a b.flac": "three"}'])
def test_transcripts_are_lines_or_json(content: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(content)
    assert read_transcripts(tmp_path / "t") == {"b": "one two", "ab": "three"}


@pytest.mark.parametrize("content", ["", "no tab here", "a\tb\tc", '{"a": 1}', '{"a"', "[1]", b"\xff\xfe\x00"])
def test_other_transcripts_are_refused_in_one_sentence(content: str | bytes, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match="transcript file is 't', but must be lines"):
        read_transcripts(tmp_path / "t")


def test_transcripts_of_any_size_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a\tb\n" * 300_000)
    with pytest.raises(InputError, match=r"transcript file is '1,200,000 bytes', but must be at most 1,048,576 bytes"):
        read_transcripts(tmp_path / "t")


def test_bad_files_are_refused_in_one_sentence(recordings: list[Path], tmp_path: Path) -> None:
    first = recordings[0]
    (tmp_path / "notes.wav").write_text("no audio")
    (tmp_path / "some.tsv").write_text("utt-0\tone\nutt-1\t?!")
    soundfile.write(tmp_path / "silence.wav", np.zeros(RATE), RATE)
    refusals = {
        "number of files is 0": ([], None),
        f"number of files is {MOST_FILES + 1}": ([first] * (MOST_FILES + 1), None),
        "audio file is 'notes.wav'": ([first, tmp_path / "notes.wav"], None),
        "but must be speech": ([tmp_path / "silence.wav"], None),
        "file is 'utt-1.wav', but must be one that": ([first, tmp_path / "utt-1.wav"], tmp_path / "some.tsv"),
        "a unique name": ([first, first], tmp_path / "some.tsv"),
    }
    for sentence, (paths, transcripts) in refusals.items():
        with pytest.raises(InputError, match=sentence):
            read_recordings(paths, transcripts, RATE)


def test_the_grid_holds_ar_and_both_presets() -> None:
    assert SWEPT[0] == PRESETS["ar"]
    assert set(PRESETS.values()) < set(SWEPT)
    assert len(set(SWEPT)) == len(SWEPT)
