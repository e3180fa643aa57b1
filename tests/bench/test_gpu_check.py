"""The GPU check without a GPU: one sentence and exit code 2; with one, what failed is written down and told."""

import json

import pytest
import torch

from pcg.bench.gpu import PARTS, gpu_check, run_part
from pcg.cli import main
from pcg.errors import PCGError


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_cuda_it_is_one_sentence(capsys):
    assert main(["bench", "gpu"]) == 2
    error = capsys.readouterr().err
    assert "CUDA" in error
    assert error.count("\n") == 1


def test_what_failed_is_written_down_and_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "NVIDIA Some-GPU 9")
    good, bad = ("-c", 'print("words"); print(\'{"speed": 3}\')'), ("-c", "print('so far'); raise SystemExit(1)")
    assert gpu_check(tmp_path, {"good": good})["good"] == {"speed": 3}
    with pytest.raises(PCGError, match="this failed: bad"):
        gpu_check(tmp_path, {"bad": bad, "good": good})
    written = json.loads((tmp_path / "nvidia-some-gpu-9.json").read_text())
    assert written["failed"] == ["bad"]
    assert written["bad"] == ["so far"]
    assert written["good"] == {"speed": 3}
    assert "bad: FAILED" in capsys.readouterr().out


def test_a_part_that_prints_no_json_tells_its_last_line():
    assert run_part(("-c", "print('3 passed')")) == (True, ["3 passed"])


def test_every_bench_is_a_command_that_runs_on_the_gpu_and_many_clients_are_among_them(monkeypatch):
    asked = []
    monkeypatch.setattr("pcg.cli.bench.run", asked.append)
    for words in PARTS.values():
        if words[1] == "pcg":
            assert main(words[2:]) == 0
    assert {options.device for options in asked} == {"cuda"}
    assert {options.what for options in asked} == {"engine", "shape", "batching"}
    assert [options.clients for options in asked if options.what == "batching"] == [16]
