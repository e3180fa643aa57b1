"""A recording becomes a reference, whatever it comes as, and nothing of it is left in what is said in its voice."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

from pcg.audio import load_audio
from pcg.errors import InputError, PCGError
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import last_pause, read_recording
from pcg.take import Sound
from pcg.text.prompt import Reference

RATE = 16_000
SECONDS = (1.0, 15.0)
SHORTEST_FADE = 80


class Countable:
    """A codec whose code is the level of its samples, and which remembers what it read."""

    sample_rate, hop, codebook_size, past_tokens = RATE, 640, 64, 20

    def encode(self, wave):
        self.heard = wave.numpy()
        return torch.arange(-(-len(wave) // self.hop)) % self.codebook_size

    def decode(self, codes):
        return ((codes.float() + 1) / 100).repeat_interleave(self.hop)

    def render(self, codes, anchor):
        return self.decode(codes), torch.zeros(len(codes) + 1)


def voiced(seconds: float, rate: int = RATE, level: float = 0.3, seed: int = 0) -> np.ndarray:
    t = np.arange(int(seconds * rate)) / rate
    noise = np.random.default_rng(seed).standard_normal(len(t))
    return level * np.sin(2 * np.pi * 180 * t) * (1 + 0.5 * np.sin(20 * t)) / 1.5 + 0.01 * level * noise


def silence(seconds: float, rate: int = RATE) -> np.ndarray:
    return 1e-4 * np.random.default_rng(9).standard_normal(int(seconds * rate))


def read(path, transcript="some words", transcribe=None, seconds=SECONDS):
    codec = Countable()
    return read_recording(path, codec, seconds, transcript, transcribe), codec


@pytest.mark.parametrize(
    ("suffix", "rate", "channels"), [("wav", 8_000, 1), ("flac", 44_100, 2), ("mp3", 48_000, 2), ("ogg", 22_050, 1)]
)
def test_any_format_and_rate_is_read(tmp_path, suffix, rate, channels):
    path = tmp_path / f"voice.{suffix}"
    soundfile.write(path, np.repeat(voiced(2, rate)[:, None], channels, axis=1), rate)
    reference, codec = read(path)
    assert reference.text == "some words"
    assert len(codec.heard) == pytest.approx(2 * RATE, abs=0.12 * RATE)
    assert len(reference.codes) == -(-len(codec.heard) // codec.hop)
    spectrum = np.abs(np.fft.rfft(codec.heard))
    assert spectrum.argmax() * RATE / len(codec.heard) == pytest.approx(180, abs=8)


BEFORE = np.zeros(5 * RATE)
CLICK = np.where(np.arange(5 * RATE) == RATE, 0.9, 0.0)
NOISE = np.random.default_rng(0).normal(0, 0.003, 7 * RATE)


@pytest.mark.parametrize(
    "change",
    [
        lambda speech: np.concatenate([BEFORE, speech]),
        lambda speech: np.concatenate([BEFORE, speech]) + 0.02,
        lambda speech: np.concatenate([CLICK, speech]),
        lambda speech: np.concatenate([BEFORE, speech]) + NOISE,
        lambda speech: speech / np.abs(speech).max() * 8,
        lambda speech: speech * 32768,
        lambda speech: np.stack([speech, -speech], 1),
    ],
    ids=["silence", "offset", "click", "noise", "loud", "int16", "opposite"],
)
def test_a_recording_with_a_fault_gives_what_the_clean_one_gives(tmp_path, change):
    for name, samples in (("clean", voiced(2)), ("faulty", change(voiced(2)))):
        soundfile.write(tmp_path / f"{name}.wav", samples, RATE, subtype="FLOAT")
    (clean, _), (faulty, codec) = (read(tmp_path / f"{name}.wav") for name in ("clean", "faulty"))
    assert len(faulty.codes) == pytest.approx(len(clean.codes), abs=4)
    assert np.abs(codec.heard).max() <= 1


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs the program ffmpeg")
def test_a_file_whose_recorder_was_stopped_is_read(tmp_path):
    """Its header says that it has no samples."""
    path = tmp_path / "stopped.wav"
    soundfile.write(path, voiced(2), RATE, subtype="PCM_16")
    content = bytearray(path.read_bytes())
    content[4:8] = content[40:44] = bytes(4)
    path.write_bytes(content)
    assert len(soundfile.read(path)[0]) == 0
    assert len(load_audio(path, RATE)) == pytest.approx(2 * RATE, abs=100)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs the program ffmpeg")
@pytest.mark.parametrize("suffix", ["m4a", "webm", "mp4"])
def test_what_phones_and_browsers_record_is_read_through_ffmpeg(tmp_path, suffix):
    soundfile.write(tmp_path / "voice.wav", voiced(2, 48_000), 48_000)
    path = tmp_path / f"-voice of me.{suffix}"
    subprocess.run(["ffmpeg", "-v", "error", "-i", tmp_path / "voice.wav", f"file:{path}"], check=True)
    with pytest.raises(soundfile.LibsndfileError):
        soundfile.info(path)
    _, codec = read(path)
    assert len(codec.heard) == pytest.approx(2 * RATE, abs=0.15 * RATE)
    assert len(load_audio(path, RATE, longest_seconds=0.5)) == pytest.approx(0.5 * RATE, abs=0.03 * RATE)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs the program ffmpeg")
def test_a_playlist_that_names_another_file_is_refused(tmp_path):
    """ffmpeg alone would play the file that it names, which need not be the visitor's."""
    soundfile.write(tmp_path / "secret.wav", voiced(2), RATE)
    lists = {
        "list.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nsecret.wav\n#EXT-X-ENDLIST\n",
        "list.webm": "ffconcat version 1.0\nfile secret.wav\n",
    }
    for name, content in lists.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match="readable"):
            load_audio(tmp_path / name, RATE)
    played = ["ffmpeg", "-v", "error", "-i", tmp_path / "list.webm", tmp_path / "played.wav"]
    assert subprocess.run(played, check=False).returncode == 0, "the control: the list is one that ffmpeg follows"


@pytest.mark.parametrize("level", [0.004, 0.05, 0.9])
def test_silence_goes_and_every_reference_is_equally_loud(tmp_path, level):
    quiet = silence(1.5) * level
    soundfile.write(tmp_path / "a.wav", np.concatenate([quiet, voiced(3, level=level), quiet]), RATE, subtype="FLOAT")
    _, codec = read(tmp_path / "a.wav")
    assert len(codec.heard) == pytest.approx(3.12 * RATE, abs=0.05 * RATE)
    middle = codec.heard[RATE : 2 * RATE]
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.08, rel=0.1)
    assert codec.heard.dtype == np.float32


def test_what_is_too_short_too_long_or_silent_is_one_sentence(tmp_path):
    for name, samples, said in (
        ("short.wav", voiced(0.4), "0.4 seconds of speech"),
        ("long.wav", voiced(16), "1 to 15 seconds of speech"),
        ("silent.wav", silence(3), "0.0 seconds of speech"),
        ("faint.wav", np.random.default_rng(0).normal(0, 0.0005, 3 * RATE), "0.0 seconds of speech"),
        ("endless.wav", voiced(70), "60.0 seconds of speech"),
    ):
        soundfile.write(tmp_path / name, samples, RATE, subtype="FLOAT")
        with pytest.raises(InputError, match=said):
            read(tmp_path / name)
    with pytest.raises(InputError, match="audio file"):
        read(tmp_path / "none.wav")


def test_a_long_recording_without_words_is_cut_at_its_last_pause(tmp_path):
    parts = [voiced(6), silence(0.6), voiced(5, seed=1), silence(0.6), voiced(6, seed=2)]
    soundfile.write(tmp_path / "long.wav", np.concatenate(parts), RATE, subtype="FLOAT")
    asked = []

    def transcribe(samples):
        asked.append(samples)
        return " what was heard "

    reference, codec = read(tmp_path / "long.wav", " ", transcribe)
    assert reference.text == "what was heard"
    assert np.array_equal(asked[0], codec.heard)
    # Two parts, the pause between them, and the margin that trimming leaves.
    assert len(codec.heard) == pytest.approx(11.66 * RATE, abs=0.15 * RATE)
    with pytest.raises(InputError, match="left blank"):
        read(tmp_path / "long.wav", "all the words", transcribe)


def test_without_a_pause_the_quietest_place_is_where_it_is_cut():
    speech = voiced(20)
    assert RATE < last_pause(speech, RATE, 1, 15) <= 15 * RATE
    speech[9 * RATE : int(9.4 * RATE)] *= 0.4
    assert last_pause(speech, RATE, 1, 15) == pytest.approx(9.2 * RATE, abs=0.12 * RATE)


def test_words_come_from_the_transcript_or_from_the_recogniser_or_not_at_all(tmp_path):
    soundfile.write(tmp_path / "a.wav", voiced(2), RATE)

    def nobody(samples):
        raise AssertionError("a transcript was given")

    assert read(tmp_path / "a.wav", " As I said. ", nobody)[0].text == "As I said."
    assert read(tmp_path / "a.wav", "", lambda _: "heard")[0].text == "heard"
    with pytest.raises(InputError, match="the words in the recording"):
        read(tmp_path / "a.wav", " ")
    with pytest.raises(PCGError, match="No word was understood"):
        read(tmp_path / "a.wav", "", lambda _: " ")
    with pytest.raises(InputError, match="control characters"):
        read(tmp_path / "a.wav", "a\0b")


@pytest.mark.parametrize("method", ["ar", "pcg"])
@pytest.mark.parametrize("length", [0, 7, 100])
def test_nothing_of_the_reference_is_left_in_the_sound(voice, tmp_path, method, length):
    """Every sample tells its code: the sound is the take's codes and no other, with a context shorter and longer than what is
    decoded before them."""
    synthesizer = Synthesizer(replace(voice, codec=Countable()), tmp_path)
    speaker = Reference("hello", torch.arange(length) % 64)
    steps = list(synthesizer.speak("one sentence", Settings(method), "mine", speaker, stream=True))
    take = steps[-1]
    at_once = synthesizer.decode(list(take.tokens), speaker)
    streamed = np.concatenate([s.samples for s in steps if isinstance(s, Sound)])
    wanted = ((np.array(take.tokens) + 1) / 100).repeat(640)
    for sound in (at_once, streamed, take.audio):
        assert len(sound) == len(take.tokens) * 640
        np.testing.assert_allclose(sound[SHORTEST_FADE:-SHORTEST_FADE], wanted[SHORTEST_FADE:-SHORTEST_FADE], atol=1e-6)
