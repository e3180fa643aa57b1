"""Recordings become codes once: in either layout, shard by shard, and never a mixture of two codecs."""

import numpy as np
import pytest
import soundfile
import torch

from pcg.audio import load_audio, normalise_loudness, trim
from pcg.cli import main
from pcg.errors import AssetError, InputError, PCGError
from pcg.synthesis.voice import open_codec
from pcg.text.prompt import PhonemeReader
from pcg.training import samples as prepare
from pcg.training.samples import find_recordings, prepare_tokens, read_shards, tokens_path, write_shard
from pcg.training.tokens import TokenizedUtterance

READER = PhonemeReader(tuple("helo.j"), (1.0,) * 6)


class Counting:
    """A codec whose codes say how loud each 0.02 s is, and that counts its calls, or stops at one."""

    sample_rate, hop, codebook_size = 16_000, 320, 65_536

    def __init__(self, stop_at=None):
        self.calls, self._stop_at = 0, stop_at

    def encode(self, wave):
        self.calls += 1
        if self.calls == self._stop_at:
            raise KeyboardInterrupt
        padded = torch.nn.functional.pad(wave, (0, -len(wave) % self.hop)).view(-1, self.hop)
        return (padded.abs().amax(1) * 65_535).long()


class Reading:
    """A reader without symbols that cannot read one text."""

    def __init__(self, refused=None):
        self._refused = refused

    def tokens_for(self, text, reference=None):
        if text == self._refused:
            raise PCGError("Nothing can be said.")
        return 1.0


def record(path, text, seconds=1.5, rate=16_000, words=".txt"):
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(len(path.stem)).normal(0, 0.1, int(seconds * rate))
    soundfile.write(path, noise, rate)
    path.with_suffix(words).write_text(text, encoding="utf-8")


@pytest.fixture
def speech(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "SHARD", 3)
    for i in range(7):
        record(tmp_path / "speech" / "anna" / f"{i}.wav", f"hello  {i}\n")
    return tmp_path / "speech"


def test_librittss_layout_names_the_reader_and_a_plain_one_the_folder(tmp_path):
    record(tmp_path / "train" / "84" / "121123" / "84_121123_000007_000001.wav", "hello.", words=".normalized.txt")
    (tmp_path / "train" / "84" / "121123" / "84_121123_000007_000001.original.txt").write_text("Hello!")
    record(tmp_path / "anna" / "one.flac", "yes.")
    soundfile.write(tmp_path / "anna" / "without_words.wav", np.zeros(1600), 16_000)
    found = [(r.voice, r.sound.name, r.words.name) for r in find_recordings(tmp_path)]
    assert found == [
        ("anna", "one.flac", "one.txt"),
        ("84", "84_121123_000007_000001.wav", "84_121123_000007_000001.normalized.txt"),
    ]


def test_codes_are_those_of_the_trimmed_and_levelled_recording(speech, tmp_path, tiny_voice_folder, capsys):
    codec = str(tiny_voice_folder / "codec")
    asked = ["train", "tokens", "--speech", str(speech), "--codec", codec, "--tokens", str(tmp_path / "tokens")]
    assert main(asked) == 0
    assert "tokens: 7 utterances, 0.0 hours; 0 recordings left out" in capsys.readouterr().out
    spoken, codec = read_shards(tmp_path / "tokens", READER), open_codec(codec, "cpu")
    assert len(spoken) == 7
    assert spoken[2].text == "hello 2"
    assert {s.voice for s in spoken} == {"anna"}
    samples = load_audio(speech / "anna" / "2.wav", 16_000)
    assert torch.equal(spoken[2].codes, codec.encode(torch.from_numpy(normalise_loudness(trim(samples, 16_000)))))
    assert [len(s.symbols) > 0 for s in spoken] == [True] * 7


def test_a_killed_run_goes_on_at_its_shard(speech, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        prepare_tokens(speech, Counting(stop_at=5), "a", tmp_path / "broken")
    assert tokens_path(tmp_path / "broken", 0).exists()
    assert not tokens_path(tmp_path / "broken", 1).exists()
    rest = Counting()
    prepare_tokens(speech, rest, "a", tmp_path / "broken")
    assert rest.calls == 4
    prepare_tokens(speech, Counting(), "a", tmp_path / "whole")
    broken, whole = (read_shards(tmp_path / name, READER) for name in ("broken", "whole"))
    assert all(torch.equal(a.codes, b.codes) and a.text == b.text for a, b in zip(broken, whole, strict=True))


def test_what_cannot_be_learned_from_is_left_out(speech, tmp_path):
    record(speech / "anna" / "short.wav", "hello", seconds=0.3)
    record(speech / "anna" / "long.wav", "hello", seconds=31)
    record(speech / "anna" / "empty.wav", " \n")
    record(speech / "anna" / "broken.wav", "hello")
    (speech / "anna" / "broken.wav").write_bytes(b"not a sound")
    (speech / "anna" / "6.txt").write_bytes(b"\xff\xfe\xff")
    assert prepare_tokens(speech, Counting(), "a", tmp_path / "tokens")[:2] == (6, 5)
    longest = max(len(s.codes) for s in read_shards(tmp_path / "tokens", READER))
    assert read_shards(tmp_path / "tokens", READER, longest=longest - 1) == []


def test_a_folder_never_mixes_codecs_or_recordings(speech, tmp_path):
    prepare_tokens(speech, Counting(), "a", tmp_path / "tokens")
    with pytest.raises(InputError, match="same recordings and codec"):
        prepare_tokens(speech, Counting(), "b", tmp_path / "tokens")
    record(speech / "ben" / "0.wav", "hello")
    with pytest.raises(InputError, match="same recordings and codec"):
        prepare_tokens(speech, Counting(), "a", tmp_path / "tokens")
    shard = tokens_path(tmp_path / "tokens", 1)
    for codes in (np.arange(3, dtype=np.uint16), np.arange(4.0), np.zeros((2, 2), np.uint16)):
        np.save(shard.with_suffix(".npy"), codes)
        with pytest.raises(AssetError, match=r"without 00001\.json, they are made again"):
            read_shards(tmp_path / "tokens", READER)


def test_texts_that_the_reader_cannot_read_are_left_out(tmp_path):
    codes = torch.arange(4)
    write_shard(
        tokens_path(tmp_path, 0),
        [TokenizedUtterance("a", "hello", [], codes), TokenizedUtterance("a", "!?", [], codes + 65_531)],
    )
    (only,) = read_shards(tmp_path, READER)
    assert only.text == "hello"
    (_, other) = read_shards(tmp_path, Reading())
    assert other.codes.tolist() == [65_531, 65_532, 65_533, 65_534]
    assert [u.text for u in read_shards(tmp_path, Reading(refused="!?"))] == ["hello"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--speech": "nowhere"}, "speech"),
        ({"--codec": "nowhere"}, "codec"),
        ({"--device": "tpu"}, "device"),
        ({"--speech": None}, "speech"),
        ({"--tokens": None}, "tokens"),
    ],
)
def test_bad_input_is_one_sentence(speech, tmp_path, capsys, change, said):
    options = {"--speech": str(speech), "--tokens": str(tmp_path / "tokens"), "--codec": "embedded"} | change
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    assert main(["train", "tokens", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pcg: {said} is ")
    assert error.count("\n") == 1
