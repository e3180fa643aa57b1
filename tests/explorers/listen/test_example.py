import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from explorers.listen.example import EXAMPLE, read_example, write_example
from pcg.errors import AssetError
from pcg.files.checksums import LIST
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from tests.explorers.listen.test_judging import new_judges

Damage = Callable[[dict], object]


def test_what_was_written_is_read(example_folder: Path) -> None:
    example = read_example(example_folder)
    assert tuple(example.takes) == METHODS
    for method in METHODS:
        take, (samples, rate) = example.takes[method], soundfile.read(example.sounds[method])
        assert (take.settings.seed, take.settings.theta, take.voice) == (7, 0.3, "two")
        assert len(samples) / rate == pytest.approx(take.audio_seconds, abs=1e-3)
        assert len(take.rounds) > 2
    assert example.session.cards["pcg"].first.take().rounds == example.takes["pcg"].rounds


def test_the_judges_verdicts_are_kept_with_it(synthesizer: Synthesizer, tmp_path: Path) -> None:
    judges, *_ = new_judges("hello")
    write_example(tmp_path, synthesizer, "Hello, yes.", "one", turns=1, judges=judges)
    example = read_example(tmp_path)
    found = example.verdicts.of(example.session.cards["ar"].first)
    assert (found.heard, found.words.errors, found.words.length) == ("hello", 1, 2)
    assert example.verdicts.judges["WER, CER"].startswith("a parrot")


def test_without_a_folder_there_is_no_example(tmp_path: Path) -> None:
    assert read_example(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c.update(format=99),
        lambda c: c["takes"].pop("ssd"),
        lambda c: c["takes"]["pcg"]["rounds"][0]["kinds"].pop(),
        lambda c: c["takes"]["pcg"]["rounds"][0]["kinds"].__setitem__(0, "<script>"),
        lambda c: c["takes"]["pcg"]["rounds"][0]["tests"][0].pop("coin"),
        lambda c: c["takes"]["pcg"]["rounds"][0].update(verify_ms="fast"),
        lambda c: c["takes"]["pcg"]["settings"].update(theta=7),
        lambda c: c.pop("verdicts"),
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


@pytest.mark.parametrize("method", METHODS)
def test_the_page_opens_with_the_engines_defaults(method: str) -> None:
    own = json.loads((EXAMPLE / "example.json").read_text(encoding="utf-8"))["takes"][method]["settings"]
    assert own == Settings(method, seed=own["seed"]).as_dict()


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
