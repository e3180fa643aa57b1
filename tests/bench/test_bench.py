"""The benches run on small models and print the figures that they promise; no test asks how fast anything is."""

import json
import os

import pytest
import soundfile
import torch
from tiny_xcodec2 import save_tiny_xcodec2

from pcg.bench.batching import bench_batching
from pcg.bench.codec import bench_codec
from pcg.bench.engine import bench_engine
from pcg.bench.shapes import Forced
from pcg.cli import main
from pcg.rules import Coins
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice, open_codec


@pytest.fixture
def synthesizer(tiny_voice_folder, tmp_path):
    return Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path)


def last_json(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.slow
def test_the_bench_prints_what_rounds_allow_beside_the_speed_of_takes(synthesizer, monkeypatch, capsys):
    for name, value in (("TOKENS", 6), ("TURNS", 2)):
        monkeypatch.setattr(f"pcg.bench.engine.{name}", value)
    figures = bench_engine(synthesizer, Settings(), repeats=1)
    lines = capsys.readouterr().out.splitlines()
    assert figures["methods"]["ar"]["expected"] is None
    assert figures["first_sound_seconds"] > 0
    assert any("for a forced length of 6 tokens" in line for line in lines)
    for method in METHODS[1:]:
        row = figures["methods"][method]
        assert row["expected"] == pytest.approx(row["mean_acceptance_length"] / figures["round_cost"]["3"], rel=1e-3)
        (line,) = (line for line in lines if line.startswith(f"{method}: "))
        assert f"E/R {row['expected']:.2f}x, bound {row['bound']:.2f}x" in line
        assert f"{row['acceptance_of_tested']:.0%} of tested tokens" in line
    assert json.loads(json.dumps(figures)) == figures


def test_clients_at_once_are_measured_against_one_by_one(synthesizer):
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    figures = bench_batching(synthesizer, clients=2, repeats=1)
    assert list(figures) == ["ar", "pcg"]
    for rows in figures.values():
        assert [row["clients"] for row in rows] == [1, 2]
        assert rows[0]["decoding_speedup"] == 1
        for row in rows:
            assert min(row.values()) > 0
    if cores:
        assert os.sched_getaffinity(0) == cores


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_forced_acceptance_accepts_at_its_rate(rate):
    coins = Coins.draw(3, torch.Generator().manual_seed(0))
    probabilities = torch.full((4, 8), 1 / 8)
    verdict = Forced(rate)(torch.tensor([1, 2, 3]), probabilities[:3], probabilities, coins)
    assert verdict.accepted == 3 * rate
    assert verdict.next_kind == ("bonus" if rate else "resampled")


@pytest.mark.slow
def test_the_figures_of_a_shape_are_written_as_json(capsys, monkeypatch):
    monkeypatch.setattr("pcg.bench.shapes.TOKENS", 8)
    assert main(["bench", "shape", "--shape", "small", "--repeats", "1"]) == 0
    printed = last_json(capsys)
    assert printed["forced_tokens"] == 8
    assert list(printed["over_ar"]) == list(printed["round_in_ar_steps"]) == [str(n) for n in range(1, 9)]


class FixedJudge:
    """Hears "the cat sat" in the recording, and less in the round trip."""

    name = "a fixed judge"

    def transcribe(self, recordings, sample_rate):
        return ["the cat sat", "the cat"][: len(recordings)]


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Two seconds of the embedded voice."""
    voice = load_voice("embedded")
    path = tmp_path_factory.mktemp("recording") / "speech.wav"
    codes = next(iter(voice.references.values())).codes[:100]
    soundfile.write(path, voice.codec.decode(codes).numpy(), voice.codec.sample_rate)
    return path


def test_a_good_codec_is_told_from_noise_and_a_wrong_one_is_not(recording, tmp_path):
    figures = bench_codec(open_codec("embedded", "cpu"), recording, FixedJudge(), "", repeats=1)
    assert figures["mel_distance"] < 0.4 * figures["mel_distance_random"]
    assert figures["stream_error_db"] < -40
    assert (figures["wer_recording"], figures["wer_round_trip"]) == (None, pytest.approx(1 / 3))
    save_tiny_xcodec2(tmp_path)
    control = bench_codec(open_codec(str(tmp_path), "cpu"), recording, FixedJudge(), "the sat", repeats=1)
    assert control["mel_distance"] > 0.7 * control["mel_distance_random"]
    assert (control["wer_recording"], control["wer_round_trip"]) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--repeats", "0"], "repeats"),
        (["--threads", "0"], "threads"),
        (["shape", "--shape", "huge"], "shape"),
        (["codec"], "file"),
    ],
)
def test_bad_input_is_one_sentence(arguments, named, capsys):
    assert main(["bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1
