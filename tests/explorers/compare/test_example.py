import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from explorers.compare.example import read_example
from pcg.errors import AssetError
from pcg.files.checksums import LIST
from pcg.settings import METHODS

Damage = Callable[[dict], object]


def test_what_was_written_is_read(example_folder: Path) -> None:
    example = read_example(example_folder)
    assert tuple(example.readings) == METHODS
    for method in METHODS:
        reading, (samples, rate) = example.readings[method], soundfile.read(example.sounds[method])
        assert reading.settings.seed == 7
        assert len(samples) / rate == pytest.approx(reading.audio_seconds, abs=1e-3)
    content = json.loads((example_folder / "example.json").read_text())
    assert content["voice"] == "two"
    assert content["settings"]["theta"] == 0.3


def test_without_a_folder_there_is_no_example(tmp_path: Path) -> None:
    assert read_example(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c.update(format=99),
        lambda c: c["takes"].pop("ssd"),
        lambda c: c["takes"]["pcg"]["kinds"].pop(),
        lambda c: c["takes"]["pcg"]["kinds"].__setitem__(0, "<script>"),
        lambda c: c["takes"]["pcg"]["summary"]["settings"].update(theta=7),
        lambda c: c["takes"]["pcg"]["summary"].update(tokens_per_second="fast"),
        lambda c: c["takes"].update(sd=c["takes"]["ar"]),
    ],
)
def test_a_damaged_example_is_told_in_one_sentence(damage: Damage, example_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(example_folder, tmp_path / "example")
    (folder / LIST).unlink()  # which would tell before the content does
    content = json.loads((folder / "example.json").read_text())
    damage(content)
    (folder / "example.json").write_text(json.dumps(content))
    with pytest.raises(AssetError, match=r"example\.json is missing or damaged"):
        read_example(folder)


def test_a_missing_sound_is_named(example_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(example_folder, tmp_path / "example")
    (folder / "sd.wav").unlink()
    for _ in range(2):
        with pytest.raises(AssetError, match=r"sd\.wav is missing"):
            read_example(folder)
        (folder / LIST).unlink(missing_ok=True)


def test_what_is_written_is_listed(example_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(example_folder, tmp_path / "example")
    (folder / "sd.wav").write_bytes((folder / "ar.wav").read_bytes())
    with pytest.raises(AssetError, match=r"sd\.wav is damaged"):
        read_example(folder)
