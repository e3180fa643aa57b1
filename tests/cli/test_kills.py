"""Commands that are killed at any moment: what is there is whole, and the next run ends as if nothing had happened."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from pcg.experiments.store import Store
from pcg.places import PROJECT

KILLS = 20
# Every fifth meets a file that is written, and not yet in its place.
AT_THE_RENAME = """
import os, runpy, signal
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
runpy.run_module("pcg", run_name="__main__", alter_sys=True)
"""
GRID = """
name: mine
texts: [hello, "yes"]
voices: [one, two]
conditions:
  - {name: AR, method: ar}
  - {name: SD, method: sd}
  - {name: PCG, method: pcg, theta: 0.4}
"""
TIMES = ("decoding_seconds", "wall_seconds")


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """The project in another place, with a cache of its own."""
    for name in ("pcg", "assets"):
        (tmp_path / name).symlink_to(PROJECT / name)
    (tmp_path / "grid.yaml").write_text(GRID)
    return tmp_path


def start(lab: Path, words: Sequence[str], die_at_the_rename: bool = False) -> subprocess.Popen:
    how = ["-c", AT_THE_RENAME] if die_at_the_rename else ["-m", "pcg"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *how, *words], cwd=lab, env=os.environ | {"OMP_NUM_THREADS": "1"}, **pipes)


def finish(lab: Path, words: Sequence[str]) -> float:
    """Run to the end; return the seconds that it took."""
    begun = time.perf_counter()
    with start(lab, words) as process:
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert "Traceback" not in said
    return time.perf_counter() - begun


def kill(lab: Path, words: Sequence[str], seconds: float | None) -> None:
    """Run, and kill after so many seconds, or where a file would take its place; the run may have ended before."""
    with start(lab, words, die_at_the_rename=seconds is None) as process:
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    assert process.returncode in (0, -signal.SIGKILL)


def temporaries(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*")]


def results(lab: Path, folder: str) -> dict[str, dict[str, object]]:
    """What was stored, by its unit, without the times."""
    records = Store(lab / folder).all()
    return {str(r.unit): {name: v for name, v in asdict(r.result).items() if name not in TIMES} for r in records}


@pytest.mark.slow
def test_an_experiment_that_is_killed_twenty_times_ends_as_one_that_is_not(lab: Path, tiny_voice_folder: Path) -> None:
    words = ["experiment", "run", "grid.yaml", "--model", str(tiny_voice_folder), "--judge", "embedded", "--results"]
    takes = finish(lab, [*words, "undisturbed"])
    truth = results(lab, "undisturbed")
    assert len(truth) == 12
    moments = random.Random(0)
    left, halfway = 0, 0
    for number in range(KILLS):
        if number % 5 == 0:
            for file in (lab / "cache").glob("*.safetensors"):
                file.unlink()
        kill(lab, [*words, "killed"], None if number % 5 == 0 else moments.uniform(0, 0.7 * takes))
        left += bool(temporaries(lab / "cache"))
        known = results(lab, "killed")
        assert known == {unit: truth[unit] for unit in known}
        halfway += 0 < len(known) < len(truth)
        if known == truth:
            shutil.rmtree(lab / "killed")
    assert left >= KILLS // 5, "too few kills met a file that was being written"
    assert halfway >= KILLS // 5, "the kills came too late or too soon to tell anything"
    finish(lab, [*words, "killed"])
    assert results(lab, "killed") == truth
    assert temporaries(lab / "cache") == temporaries(lab / "killed") == []
    assert [path.name for path in (lab / "killed").iterdir()] == ["results.sqlite"]
