"""What a WAV file carries: everything that rebuilds its take, and nothing that a hostile file could bring in."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pcg import __version__
from pcg.audio import load_audio, write_wav
from pcg.errors import InputError
from pcg.places import PROJECT
from pcg.saved_take import LARGEST, RECORDING, Origin, Stored, fingerprint
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text.reading import MAX_CHARACTERS
from tests.explorers.hostile import settings_texts
from tests.wav_comment import read_stored

ORIGIN = Origin(model="tiny", digest="0123456789abcdef" * 4)
SETTINGS = Settings("ssd", theta=0.31, seed=7, hierarchical=True)
STORED = Stored(text='He said "$HOME" \\ and\nleft 🎈.', voice="two", settings=SETTINGS, origin=ORIGIN)
SAMPLES = np.linspace(-1.2, 1.2, 1600).astype(np.float32)


def refused(content: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        Stored.from_json(content)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250
    return str(caught.value)


def test_json_gives_back_what_was_stored() -> None:
    for stored in (STORED, STORED.with_(reference="f" * 64, streamed=True)):
        assert Stored.from_json(stored.to_json()) == stored
        assert Stored.from_json(stored.to_json(indent=2).encode()) == stored
    assert STORED.to_json().isascii()


def test_the_longest_text_fits() -> None:
    """Every one of these characters is written as two escapes of six."""
    stored = STORED.with_(text="a" + "🎈" * (MAX_CHARACTERS - 1))
    assert 12 * MAX_CHARACTERS < len(stored.to_json()) < LARGEST
    assert Stored.from_json(stored.to_json()) == stored


def test_the_version_of_the_program_is_that_of_the_changelog() -> None:
    assert STORED.origin.app == __version__
    assert f"\n## {__version__}\n" in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_a_take_knows_its_origin_and_a_recording_leaves_its_fingerprint_alone(synthesizer: Synthesizer) -> None:
    voice = synthesizer.voice
    origin, reference = Origin.of(voice), voice.reference("two")
    take = synthesizer.take("Hello, yes.", Settings(seed=3), "secret-name", reference)
    stored = Stored.of(take, origin, reference)
    mark = fingerprint(reference)
    asked = {"text": "Hello, yes.", "voice": RECORDING, "settings": Settings(seed=3)}
    assert stored == Stored(**asked, origin=origin, reference=mark)
    assert "secret-name" not in stored.to_json()
    assert fingerprint(reference) != fingerprint(voice.reference("one"))
    assert stored.caveats(origin) == ("Its voice came from a recording, which is not stored: bring the same recording.",)


def test_a_digest_may_be_its_first_twelve_digits() -> None:
    short = STORED.with_(origin=ORIGIN.with_(digest=ORIGIN.digest[:12]))
    assert Stored.from_json(short.to_json()) == short
    assert short.caveats(ORIGIN) == STORED.caveats(short.origin) == ()
    assert short.caveats(ORIGIN.with_(digest="f" * 64)) == ("It was made with other weights.",)
    with pytest.raises(InputError, match="or the first 12"):
        ORIGIN.with_(digest=ORIGIN.digest[:13])


def test_other_weights_are_another_origin(tiny_voice_folder: Path, synthesizer: Synthesizer, tmp_path: Path) -> None:
    origin = Origin.of(synthesizer.voice)
    assert STORED.caveats(origin) == ("It was made with other weights.",)
    assert STORED.with_(origin=origin).caveats(origin) == ()
    for file in tiny_voice_folder.rglob("*.*"):
        if file.is_file():
            copy = tmp_path / file.relative_to(tiny_voice_folder)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(file.read_bytes())
    assert Origin.of(replace(synthesizer.voice, folder=tmp_path)) == origin
    draft = tmp_path / "draft" / "model.safetensors"
    draft.write_bytes(draft.read_bytes()[:-1] + b"!")
    assert Origin.of(replace(synthesizer.voice, folder=tmp_path)).digest != origin.digest


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"text": 7}, "text"),
        ({"voice": "../../etc\n"}, "voice"),
        ({"voice": ["one"]}, "voice"),
        ({"settings": {"theta": 0.5}}, "method"),
        ({"origin": None}, "origin"),
        ({"origin": {"model": "m"}}, "digest"),
        ({"origin": {"model": "m", "digest": "0" * 63, "device": "cpu", "app": "1"}}, "digest"),
        ({"origin": {"model": "m", "digest": "0" * 64, "device": "/dev/sda", "app": "1"}}, "device"),
        *(({"origin": ORIGIN.model_dump() | {"licence": each}}, "licence") for each in (7, None, "MIT\nGPL", "<b>", "x" * 41)),
        ({"reference": "/etc/passwd"}, "reference"),
        ({"streamed": 1}, "streamed"),
        ({"x" * 9000: 1}, "xxx"),
    ],
)
def test_a_wrong_value_is_one_sentence(change: dict[str, object], named: str) -> None:
    assert named in refused(json.dumps(json.loads(STORED.to_json()) | change))


def test_what_is_no_settings_file_is_one_sentence(synthesizer: Synthesizer) -> None:
    for content in (*settings_texts(synthesizer).values(), "", "null", b"\xff\xfe\x00\xd8", b"{\xff}", " " * (LARGEST + 1)):
        refused(content)


def test_a_wav_carries_its_take_and_sounds_the_same(tmp_path: Path) -> None:
    with_it, without = tmp_path / "a.wav", tmp_path / "b.wav"
    write_wav(with_it, SAMPLES, 16_000, STORED.to_json())
    write_wav(without, SAMPLES, 16_000)
    assert read_stored(with_it) == STORED
    samples, rate = soundfile.read(with_it, dtype="int16")
    plain, _ = soundfile.read(without, dtype="int16")
    assert rate == 16_000
    assert np.array_equal(samples, plain)


@pytest.mark.parametrize("name", ["fake.wav", "fake.raw"])
@pytest.mark.parametrize("content", [b"", b"not audio at all" * 50, b"RIFF" + b"\xff" * 4 + b"WAVEdata" + b"\xff" * 4])
def test_fake_audio_is_one_sentence(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="readable"):
        load_audio(tmp_path / name, 16_000)


def test_rates_and_samples_that_no_recording_has_are_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "fast.wav", np.zeros(100), 2_000_000_000)
    with pytest.raises(InputError, match="sample rate"):
        load_audio(tmp_path / "fast.wav", 16_000)
    soundfile.write(tmp_path / "nan.wav", np.array([0.0, np.nan]), 16_000, subtype="FLOAT")
    with pytest.raises(InputError, match="no numbers"):
        load_audio(tmp_path / "nan.wav", 16_000)
