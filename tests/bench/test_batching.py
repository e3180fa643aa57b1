"""The bench of clients at once runs on a small voice and tells a figure of each kind; how fast anything is, no test asks."""

import json
import os
from pathlib import Path

import pytest

from pcg.bench.batching import bench_batching
from pcg.cli import main
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice


def test_clients_at_once_are_measured_against_one_by_one(tiny_voice_folder: Path, tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    figures = bench_batching(Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path), clients=2, repeats=1)
    assert list(figures) == ["ar", "pcg"]
    for companies in figures.values():
        assert [each["clients"] for each in companies] == [1, 2]
        assert companies[0]["decoding_speedup"] == 1
        for each in companies:
            assert min(each.values()) > 0
            assert each["first_sound_seconds"] <= each["last_first_sound_seconds"]
    if cores:
        assert os.sched_getaffinity(0) == cores


@pytest.mark.slow
def test_the_last_line_is_json(tiny_voice_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "batching", "--clients", "1", "--repeats", "1", "--model", str(tiny_voice_folder)]) == 0
    assert set(json.loads(capsys.readouterr().out.splitlines()[-1])) == {"ar", "pcg"}
