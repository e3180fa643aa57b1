"""The folder of a server's files goes with it, also when it was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pcg.serving.protection import own_folder

KEEP = """
import signal, sys, threading, time
from pcg.serving.protection import own_folder
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with own_folder("lab") as folder:
    (folder / "take.wav").write_bytes(b"sound")
    print(folder, flush=True)
    if JOB:
        def work():
            while folder.exists():
                time.sleep(0.01)
            folder.mkdir()
            (folder / "late.wav").write_bytes(b"sound")
        threading.Thread(target=work).start()
    time.sleep(60)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def serve(job: bool = False) -> tuple[subprocess.Popen[str], Path]:
    """job: whether one is running that writes a take after the folder was removed."""
    process = subprocess.Popen([sys.executable, "-c", f"JOB = {job}\n{KEEP}"], stdout=subprocess.PIPE, text=True)
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str], how: signal.Signals) -> None:
    os.kill(process.pid, how)
    process.communicate()


@pytest.mark.parametrize("job", [False, True])
def test_a_server_that_is_stopped_leaves_nothing(temporary: Path, job: bool) -> None:
    process, folder = serve(job)
    assert folder.is_relative_to(temporary)
    assert (folder / "take.wav").exists()
    end(process, signal.SIGTERM)
    assert list(folder.parent.iterdir()) == []


def test_what_a_killed_server_left_goes_at_the_next_start_and_what_a_living_one_has_stays(temporary: Path) -> None:
    killed, left = serve()
    end(killed, signal.SIGKILL)
    assert left.exists()
    nobodys = left.with_name("0123456789abcdef")
    nobodys.mkdir()
    living, kept = serve()
    try:
        assert not left.exists()
        assert not nobodys.exists()
        with own_folder("lab") as own:
            assert own.is_dir()
            assert (kept / "take.wav").exists()
        assert not own.exists()
    finally:
        end(living, signal.SIGTERM)
