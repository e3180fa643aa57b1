"""No damaged file of a published folder is read: every loader refuses it by its name."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from explorers.listen.example import read_example
from pcg.asr.embedded import load_recogniser
from pcg.asr.word_search import Lexicon
from pcg.errors import AssetError
from pcg.experiments.store import Store
from pcg.experiments.traces import Traces
from pcg.files import LIST, check_checksums, renew_checksums, write_checksums
from pcg.metrics.intelligibility import read_sentences
from pcg.places import ASSETS, PROJECT
from pcg.spoof import load_detectors
from pcg.synthesis.voice import load_codec, load_voice

LOADERS: dict[str, Callable[[Path], object]] = {
    "voice": lambda folder: load_voice(str(folder)),
    "recogniser": load_recogniser,
    "detectors": load_detectors,
    "example": read_example,
    "results": lambda folder: Store(folder).all(),
    **dict.fromkeys(("lossy", "lossy_pcg", "lossy_ssd", "draft_pcg", "draft_ssd"), lambda folder: Store(folder).all()),
    "traces": Traces.read,
    "evaluation": lambda folder: read_sentences(path=folder / "sentences.txt"),
}
SHIPPED = [
    (name, path.relative_to(ASSETS / name).as_posix())
    for name in LOADERS
    for path in sorted((ASSETS / name).rglob("*"))
    if path.is_file() and path.suffix not in (".html", ".sqlite") and path.name != LIST
]


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published folders, to be damaged and mended."""
    assets = tmp_path_factory.mktemp("assets")
    for name in LOADERS:
        shutil.copytree(ASSETS / name, assets / name)
    return assets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A published folder of three files."""
    for name in ("card.json", "part/config.json", "part/weights.bin"):
        (tmp_path / "voice" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "voice" / name).write_text(f"what is in {name}")
    write_checksums(tmp_path / "voice")
    return tmp_path / "voice"


def flip(path: Path) -> None:
    """Another byte in the middle of the file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    whole = path.read_bytes()
    flip(path)
    try:
        yield
    finally:
        path.write_bytes(whole)


def refused(load: Callable[[], object], file: Path, why: str) -> None:
    with pytest.raises(AssetError) as caught:
        load()
    assert str(file) in str(caught.value)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "file"), SHIPPED, ids=["/".join(each) for each in SHIPPED])
def test_a_damaged_file_is_refused_by_its_name(copies: Path, name: str, file: str) -> None:
    with damaged(copies / name / file):
        refused(lambda: LOADERS[name](copies / name), copies / name / file, "is damaged")


@pytest.mark.parametrize("name", LOADERS)
def test_what_is_whole_is_loaded(copies: Path, name: str) -> None:
    assert LOADERS[name](copies / name)


PARTS: dict[str, Callable[[Path], object]] = {
    "voice/codec/model.safetensors": lambda file: load_codec(file.parent),
    "recogniser/words.arpa.gz": Lexicon,
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_loaded_alone_is_compared_alone(copies: Path, part: str) -> None:
    folder = copies / part.split("/")[0]
    with damaged(folder / "MODEL_CARD.md"):
        assert PARTS[part](copies / part)
    with damaged(copies / part):
        refused(lambda: PARTS[part](copies / part), copies / part, "is damaged")


@pytest.mark.parametrize("name", LOADERS)
def test_what_is_missing_is_refused(copies: Path, name: str) -> None:
    place, aside = copies / name / next(file for folder, file in SHIPPED if folder == name), copies / "aside"
    place.rename(aside)
    try:
        refused(lambda: LOADERS[name](copies / name), place, "is missing")
    finally:
        aside.rename(place)


def test_the_lists_are_those_of_git() -> None:
    if shutil.which("git") is None or not (PROJECT / ".git").exists():
        pytest.skip("no git here to say what belongs to the project")
    for name in LOADERS:
        folder = ASSETS / name
        said = subprocess.run(["git", "ls-files", "."], cwd=folder, capture_output=True, text=True, check=True).stdout
        listed = [line.split("  ", 1)[1] for line in (folder / LIST).read_text().splitlines()]
        assert sorted({*said.splitlines()} - {LIST}) == listed
        check_checksums(folder)


def test_a_folder_without_a_list_is_not_checked(folder: Path) -> None:
    (folder / LIST).unlink()
    flip(folder / "card.json")
    for path in (folder, folder / "part", folder / "card.json", folder / "missing"):
        check_checksums(path)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "part/../../secret", "..\\secret", ""])
def test_nothing_outside_of_the_folder_is_read(folder: Path, name: str) -> None:
    secret = folder.parent / "secret"
    secret.write_text("secret")
    with (folder / LIST).open("a") as lines:
        lines.write(f"{'0' * 64}  {name}\n")
    with pytest.raises(AssetError, match=f"The list .*{LIST} is damaged"):
        check_checksums(folder)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe" * 40, b"not a digest  card.json\n", b"0" * 64])
def test_a_list_that_is_damaged_is_refused(folder: Path, content: bytes) -> None:
    (folder / LIST).write_bytes(content)
    refused(lambda: check_checksums(folder), folder / LIST, "is damaged")


def test_renewing_a_part_leaves_the_damage_of_others(folder: Path) -> None:
    config, card = folder / "part" / "config.json", folder / "card.json"
    flip(config)
    (folder / "part" / "new.bin").write_text("new")
    (folder / "part" / "weights.bin").unlink()
    renew_checksums(folder / "part")
    check_checksums(folder)
    flip(card)
    flip(config)
    renew_checksums(config)
    refused(lambda: check_checksums(folder), card, "is damaged")
    assert "part/weights.bin" not in (folder / LIST).read_text()
