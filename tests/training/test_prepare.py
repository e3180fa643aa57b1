"""Recordings become codes once: in either layout, shard by shard, and never a mixture of two codecs."""

import json

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
from pcg.training.samples import find_recordings, prepare_tokens, read_tokens
from pcg.training.shards import Utterance, write_shard

READER = PhonemeReader(tuple("helo.j"), (1.0,) * 6)


class Reading:
    """A reader without symbols that cannot read one text."""

    def tokens_for(self, text, reference=None):
        if text == "!?":
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


@pytest.fixture
def codec(tiny_voice_folder):
    return str(tiny_voice_folder / "codec")


def test_librittss_layout_names_the_reader_and_a_plain_one_the_folder(tmp_path):
    chapter = tmp_path / "train" / "84" / "121123"
    record(chapter / "7_1.wav", "hello.", words=".normalized.txt")
    (chapter / "7_1.original.txt").write_text("Hello!")
    record(tmp_path / "anna" / "one.flac", "yes.")
    soundfile.write(tmp_path / "anna" / "without_words.wav", np.zeros(1600), 16_000)
    found = [(r.voice, r.sound.name, r.words.name) for r in find_recordings(tmp_path)]
    assert found == [("anna", "one.flac", "one.txt"), ("84", "7_1.wav", "7_1.normalized.txt")]


def test_codes_are_those_of_the_trimmed_and_levelled_recording(speech, codec, tmp_path, capsys):
    asked = ["train", "tokens", "--speech", str(speech), "--codec", codec, "--tokens", str(tmp_path / "tokens")]
    assert main(asked) == 0
    assert "tokens: 7 utterances; 0 recordings left out" in capsys.readouterr().out
    spoken = read_tokens(tmp_path / "tokens", READER)
    assert [s.text for s in spoken] == [f"hello {i}" for i in range(7)]
    assert {s.voice for s in spoken} == {"anna"}
    assert all(s.symbols for s in spoken)
    samples = load_audio(speech / "anna" / "2.wav", 16_000)
    expected = open_codec(codec, "cpu").encode(torch.from_numpy(normalise_loudness(trim(samples, 16_000))))
    assert torch.equal(spoken[2].codes, expected)


def test_a_killed_run_goes_on_at_its_shard(speech, codec, tmp_path, monkeypatch):
    calls = []

    def counted(*given):
        calls.append(given)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return encode(*given)

    encode = prepare.encoded
    monkeypatch.setattr(prepare, "encoded", counted)
    with pytest.raises(KeyboardInterrupt):
        prepare_tokens(speech, codec, tmp_path / "broken", "cpu")
    assert [path.stem for path in sorted((tmp_path / "broken").glob("0*.json"))] == ["00000"]
    prepare_tokens(speech, codec, tmp_path / "broken", "cpu")
    assert len(calls) == 5 + 4
    prepare_tokens(speech, codec, tmp_path / "whole", "cpu")
    broken, whole = (read_tokens(tmp_path / name, READER) for name in ("broken", "whole"))
    assert all(torch.equal(a.codes, b.codes) and a.text == b.text for a, b in zip(broken, whole, strict=True))


def test_what_cannot_be_learned_from_is_left_out(speech, codec, tmp_path):
    record(speech / "anna" / "short.wav", "hello", seconds=0.3)
    record(speech / "anna" / "long.wav", "hello", seconds=31)
    record(speech / "anna" / "empty.wav", " \n")
    record(speech / "anna" / "broken.wav", "hello")
    (speech / "anna" / "broken.wav").write_bytes(b"not a sound")
    (speech / "anna" / "6.txt").write_bytes(b"\xff\xfe\xff")
    assert prepare_tokens(speech, codec, tmp_path / "tokens", "cpu") == (6, 5)
    longest = max(len(s.codes) for s in read_tokens(tmp_path / "tokens", READER))
    assert read_tokens(tmp_path / "tokens", READER, longest=longest - 1) == []


def test_a_folder_never_mixes_codecs_or_recordings(speech, codec, tmp_path):
    prepare_tokens(speech, codec, tmp_path / "tokens", "cpu")
    manifest = tmp_path / "tokens" / prepare.MANIFEST
    for other in ({"recordings": 8}, {"codec": "another"}):
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | other))
        with pytest.raises(InputError, match="same recordings and codec"):
            prepare_tokens(speech, codec, tmp_path / "tokens", "cpu")
    for codes in (np.arange(3, dtype=np.uint16), np.arange(4.0)):
        np.save(tmp_path / "tokens" / "00001.npy", codes)
        with pytest.raises(AssetError, match=r"without 00001\.json it is made again"):
            read_tokens(tmp_path / "tokens", READER)


@pytest.mark.parametrize("reader", [READER, Reading()])
def test_texts_that_the_reader_cannot_read_are_left_out(tmp_path, reader):
    largest = np.arange(65_532, 65_536, dtype=np.uint16)
    write_shard(tmp_path / "00000.npy", [Utterance("a", "hello", largest), Utterance("a", "!?", largest)])
    (only,) = read_tokens(tmp_path, reader)
    assert (only.text, only.codes.tolist()) == ("hello", largest.tolist())


@pytest.mark.parametrize(("name", "value"), [("speech", "nowhere"), ("codec", "nowhere"), ("device", "tpu")])
def test_bad_input_is_one_sentence(speech, tmp_path, capsys, name, value):
    options = {"speech": str(speech), "tokens": str(tmp_path / "tokens")} | {name: value}
    assert main(["train", "tokens", *(word for option, given in options.items() for word in (f"--{option}", given))]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pcg: {name} is ")
    assert error.count("\n") == 1
