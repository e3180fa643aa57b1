"""Whatever happens to a file in cache/ or to the disk under it: what was asked for comes all the same, or one sentence, and
nothing wrong."""

import resource
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from pcg.errors import PCGError
from pcg.experiments.store import FILE, PACKED, Store
from pcg.experiments.unit import Record
from pcg.groups.library import GroupLibrary
from pcg.synthesis.voice import Voice
from tests.experiments.fake_worker import result_of, units_of

UNITS = units_of(4)


def a_folder(path: Path) -> None:
    path.unlink()
    (path / "within").mkdir(parents=True)


def a_link_to_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "no" / "where")


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "a picture": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20),
    "a folder": a_folder,
    "a link": a_link_to_nowhere,
}


@contextmanager
def no_room_to_write() -> Iterator[None]:
    """Every file ends after some hundred bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Cache(NamedTuple):
    """make: what is asked for, through the files in a folder. file: the name of the one that is damaged. lost: whether its
    content cannot be made again, so that a sentence says that it is damaged, or that less is known."""

    make: Callable[[Path], object]
    file: str
    lost: bool = False


@pytest.fixture
def caches(voice: Voice, monkeypatch: pytest.MonkeyPatch) -> dict[str, Cache]:
    monkeypatch.setattr("pcg.groups.atlas._umap", lambda plane, *_: plane)

    def library(folder: Path) -> GroupLibrary:
        return GroupLibrary(voice.code_embedding, voice.codec, voice.usage > 0, 0.2, folder)

    def lists(folder: Path, similarity: str) -> list[torch.Tensor]:
        found = library(folder).neighbours(similarity)
        return [found.indptr, found.neighbours, found.similarity, library(folder).groups(0.3, similarity).members]

    def atlas(folder: Path) -> list[torch.Tensor]:
        found = library(folder).atlas()
        return [found.x, found.y, found.nearest, found.similarity]

    return {
        "neighbours": Cache(lambda folder: lists(folder, "cosine"), "neighbours-*.safetensors"),
        "mel": Cache(lambda folder: lists(folder, "mel"), "mel-*.safetensors"),
        "map": Cache(atlas, "atlas-*.safetensors"),
        "results": Cache(lambda folder: stored(folder, packed=False), FILE, lost=True),
        "packed results": Cache(lambda folder: stored(folder, packed=True), PACKED, lost=True),
    }


def stored(folder: Path, packed: bool) -> list[Record]:
    """The results that are there; if there is nothing, they are made first."""
    store = Store(folder)
    if not folder.exists():
        for unit in UNITS:
            store.add(unit.key("v"), Record(unit, result_of(unit), {}))
        if packed:
            store.pack()
    return store.all()


KINDS = ("neighbours", "mel", "map", "results", "packed results")
MADE_AGAIN = KINDS[:3]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_made_again_or_told_of(
    kind: str, damage: Callable[[Path], None], caches: dict[str, Cache], tmp_path: Path
) -> None:
    cache, folder = caches[kind], tmp_path / "cache"
    truth = cache.make(folder)
    (file,) = folder.glob(cache.file)
    damage(file)
    found, told = asked(cache, folder)
    if cache.lost:
        assert_true_so_far(found, truth)
    else:
        assert_same(found, truth)
        assert told
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)
        assert_same(cache.make(folder), truth)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same(cache.make(folder), truth)


@pytest.mark.parametrize("kind", MADE_AGAIN)
def test_where_a_cache_has_no_room_work_goes_on_without_it(kind: str, caches: dict[str, Cache], tmp_path: Path) -> None:
    cache, folder = caches[kind], tmp_path / "cache"
    truth = cache.make(tmp_path / "elsewhere")
    with no_room_to_write():
        found, told = asked(cache, folder)
    assert_same(found, truth)
    assert told
    assert [path for path in folder.rglob("*") if path.suffix != ".sqlite"] == []
    assert_same(cache.make(folder), truth)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(cache.make(folder), truth)


def asked(cache: Cache, folder: Path) -> tuple[object, list[str]]:
    """What comes, None where it is one sentence; and that sentence, or the warnings."""
    found, sentences = None, []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = cache.make(folder)
        except PCGError as error:
            sentences.append(str(error))
    sentences += [str(each.message) for each in told if each.category is UserWarning]
    assert [sentence for sentence in sentences if "\n" in sentence] == []
    return found, sentences


def assert_same(found: object, truth: list) -> None:
    assert isinstance(found, list)
    if isinstance(truth[0], torch.Tensor):
        assert [torch.equal(one, other) for one, other in zip(found, truth, strict=True)] == [True] * len(truth)
    else:
        assert found == truth


def assert_true_so_far(found: object, truth: list) -> None:
    """One sentence, or of the true ones as many as could be read."""
    assert found is None or (isinstance(found, list) and all(record in truth for record in found))
