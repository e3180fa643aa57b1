"""The bench of a codec tells a round trip from noise, and says which codecs it knows."""

import json

import numpy as np
import pytest
import soundfile
from tiny_xcodec2 import save_tiny_neucodec, save_tiny_xcodec2

from pcg.bench.parts.codec import bench_codec, open_codec
from pcg.cli import main
from pcg.codec.embedded import EmbeddedCodec
from pcg.errors import InputError
from pcg.synthesis.voice import load_voice


class Hearing:
    """A judge that hears "one two three" in what is as long as the recording, and less in what came later."""

    name = "a fixed judge"

    def transcribe(self, recordings, sample_rate):
        return ["one two three", "one two"][: len(recordings)]


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Two seconds in which the embedded voice speaks."""
    voice = load_voice("embedded")
    path = tmp_path_factory.mktemp("recording") / "speech.wav"
    codes = next(iter(voice.references.values())).codes[:100]
    soundfile.write(path, voice.codec.decode(codes).numpy(), voice.codec.sample_rate)
    return path


def test_a_good_codec_is_told_from_noise(recording):
    figures = bench_codec(open_codec("embedded", "cpu"), recording, Hearing(), "", repeats=1)
    assert figures["mel_distance"] < 0.4 * figures["mel_distance_random"]
    assert figures["stream_error_db"] < -40
    assert (figures["wer_recording"], figures["wer_round_trip"]) == (None, pytest.approx(1 / 3))
    against = bench_codec(open_codec("embedded", "cpu"), recording, Hearing(), "one three", repeats=1)
    assert (against["wer_recording"], against["wer_round_trip"]) == (0.5, 0.5)


def test_weights_that_mean_nothing_are_no_better_than_random_codes(recording, tmp_path):
    """The negative control: a checkpoint that loads, and whose codec is wrong."""
    save_tiny_xcodec2(tmp_path)
    figures = bench_codec(open_codec(str(tmp_path), "cpu"), recording, Hearing(), "", repeats=1)
    assert figures["codes"] == 100
    assert figures["mel_distance"] > 0.7 * figures["mel_distance_random"]


def test_codecs_are_opened_by_what_their_config_says(tmp_path):
    save_tiny_neucodec(tmp_path)
    assert open_codec(str(tmp_path), "cpu").sample_rate == 24_000
    assert isinstance(open_codec("embedded", "cpu"), EmbeddedCodec)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    for model in (str(tmp_path), str(tmp_path / "none")):
        with pytest.raises(InputError, match="xcodec2 or neucodec"):
            open_codec(model, "cpu")


def test_the_command_prints_its_figures_as_json(recording, tmp_path, capsys):
    assert main(["bench", "codec", str(recording), "--repeats", "1", "--out", str(tmp_path / "figures.json")]) in (0, None)
    printed = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert printed == json.loads((tmp_path / "figures.json").read_text())
    assert printed["judge"].startswith("pocketsphinx")
    assert main(["bench", "codec"]) == 2
    soundfile.write(tmp_path / "short.wav", np.zeros(100), 16_000)
    assert main(["bench", "codec", str(tmp_path / "short.wav")]) == 2
    assert "at least 1 second" in capsys.readouterr().err
