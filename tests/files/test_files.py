"""A file is whole or not there, however its writer ends; and nothing is left beside it for long."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch
from safetensors.torch import save_file

from pcg.audio import write_wav
from pcg.errors import PCGError
from pcg.files import replacing, sweep, write_json, write_safetensors
from pcg.places import PROJECT

KILLED = """
import os, signal, sys
from pathlib import Path
from pcg.files import replacing

with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    temporary.with_name(".tmp-of-a-library").write_text("half")
    print("written", flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def writer(path: Path) -> subprocess.Popen:
    """A process that writes `path`, until its input ends; then it is killed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], cwd=PROJECT, **pipes)
    assert process.stdout.readline() == "written\n"
    return process


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_failure_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(AttributeError), replacing(tmp_path / "a.json") as temporary:
        temporary.write_text("half").no_such_thing()
    assert (tmp_path / "a.json").read_text() == "1\n"
    assert names(tmp_path) == ["a.json"]


def test_what_a_killed_process_left_goes_with_the_next_file_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", 1)
    with writer(tmp_path / "a.json") as process:
        write_json(tmp_path / "b.json", 2)
        assert len(names(tmp_path)) == 3
        process.stdin.close()
        process.wait()
    assert len(names(tmp_path)) == 3
    write_json(tmp_path / "b.json", 3)
    assert names(tmp_path) == ["a.json", "b.json"]
    assert (tmp_path / "a.json").read_text() == "1\n"


def test_only_what_is_ours_and_over_is_swept(tmp_path: Path) -> None:
    nobody = 999_999_999  # no system numbers its processes so high
    (tmp_path / ".pcg-notes").write_text("a user's")
    (tmp_path / f".pcg-0badcafe-{nobody}-old").mkdir()
    (tmp_path / f".pcg-0badcafe-{nobody}-new").mkdir()
    days_ago = time.time() - 2 * 86_400
    for name in (".pcg-notes", f".pcg-0badcafe-{nobody}-old"):
        os.utime(tmp_path / name, (days_ago, days_ago))
    sweep(tmp_path)
    assert names(tmp_path) == [f".pcg-0badcafe-{nobody}-new", ".pcg-notes"]
    sweep(tmp_path / "nowhere")


def test_threads_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    together = Barrier(4)

    def write(value: int) -> None:
        with replacing(tmp_path / "a.safetensors") as temporary:
            save_file({"value": torch.full((1000,), value)}, temporary)
            together.wait()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert names(tmp_path) == ["a.safetensors"]


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
    assert str(caught.value).startswith(f"{path.name} cannot be written (")
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
