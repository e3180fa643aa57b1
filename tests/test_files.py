"""Files are whole or not there, and one that cannot be written is one sentence."""

import errno
import os

import pytest
import torch

from pcg.audio import write_wav
from pcg.errors import PCGError
from pcg.files import replacing, write_json, write_safetensors

WRITERS = {
    "json": lambda path: write_json(path, {"figures": "0" * 20_000}),
    "tensors": lambda path: write_safetensors(path, {"noise": torch.zeros(20_000)}),
    "sound": lambda path: write_wav(path, torch.zeros(20_000).numpy(), 16_000),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_full_disk_leaves_what_was_there(tmp_path, little_room, write):
    path = tmp_path / "file.bin"
    path.write_text("before")
    with little_room(), pytest.raises(PCGError) as caught:
        write(path)
    assert str(caught.value).startswith(f"{path} cannot be written (")
    assert str(caught.value).endswith(").")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("file.bin", "before")]
    write(path)
    assert path.stat().st_size > 5_000


def test_what_is_no_file_is_not_replaced(tmp_path):
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for path, kind in ((pipe, "a device"), (folder, "a folder"), (tmp_path, "a folder")):
        with pytest.raises(PCGError, match=f"it is {kind}, and not a file"):
            write_json(path, {})
    assert pipe.is_fifo()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "pipe"]


@pytest.mark.parametrize("place", ["file/inside.json", "file/far/inside.json", "n" * 300])
def test_a_place_where_nothing_can_lie_is_one_sentence(tmp_path, place):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(PCGError, match="cannot be written"):
        write_json(tmp_path / place, {})
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    link, target = tmp_path / "link.json", tmp_path / "deep" / "target.json"
    target.parent.mkdir()
    target.write_text("old")
    link.symlink_to(target)
    write_json(link, {})
    assert link.is_symlink()
    assert target.read_text() == "{}\n"


def test_errors_of_other_kinds_pass(tmp_path):
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a"):
        1 / 0  # noqa: B018
    with pytest.raises(PCGError, match="of mine"), replacing(tmp_path / "a"):
        raise PCGError("a sentence of mine.")
    with pytest.raises(PCGError, match="a cannot be written \\(Permission denied\\)"), replacing(tmp_path / "a"):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    assert not list(tmp_path.iterdir())
