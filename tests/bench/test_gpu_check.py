"""The check of a GPU, run on a CPU: it measures every section, refuses unsteady ratios, and needs few packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pcg.bench.gpu import exactness, gpu_check
from pcg.bench.shapes import over
from pcg.places import PROJECT

ABSENT = (
    "pydantic", "librosa", "gradio", "soundfile", "scipy", "platformdirs", "typer", "faiss", "hibari", "umap", "pyloudnorm",
    "plotly", "sklearn", "pandas",
)  # fmt: skip
"""Packages that a bare machine has not got."""


def test_rules_are_exact_and_a_tolerance_is_noticed() -> None:
    found = exactness(torch.device("cpu"), 20_000)
    assert found["differing"] == {"sd": 0, "ssd": 0, "pcg": 0}
    assert found["deviation"]["sd"] < 5
    assert found["deviation"]["pcg"] < 5
    assert found["deviation"]["ssd"] > 8


def test_a_ratio_is_refused_where_ar_was_not_steady() -> None:
    assert over(30.0, 10.0, 10.2) == pytest.approx(2.97, abs=0.01)
    assert over(30.0, 10.0, 11.0) is None


@pytest.mark.slow
def test_every_section_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pcg.bench.shapes.TOKENS", 24)
    monkeypatch.setattr("pcg.bench.gpu.ROWS", (1, 2))
    threads = torch.get_num_threads()
    try:
        found = gpu_check("cpu", ("small",), 5000)
    finally:
        torch.set_num_threads(threads)
    assert json.loads(json.dumps(found)) == found
    assert set(found["small"]["round_in_ar_steps"]) == {"1", "3", "5"}
    assert set(found["small"]["parts_ms"]["3"]) == {"draft", "target", "rule", "round", "host"}
    assert set(found["embedded"]) == {"ar", "sd", "ssd", "pcg", "ar again"}
    assert found["embedded"]["pcg"]["tokens_per_call"] > found["embedded"]["ar"]["tokens_per_call"] > 0.9
    assert set(found["batches"]) == {"1", "2"}
    assert found["int8"]["nats"]["int8"] == pytest.approx(found["int8"]["nats"]["as they are"], abs=0.02)


def test_it_starts_on_a_machine_with_few_packages(tmp_path: Path) -> None:
    """An import of a missing package would fail, as on such a machine."""
    script = tmp_path / "bare.py"
    script.write_text(
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({ABSENT!r}))\n"
        "import torch\nfrom pcg.bench.gpu import exactness\nimport pcg.bench.gpu\n"
        "print(exactness(torch.device('cpu'), 2000)['differing'])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=PROJECT, env={"PYTHONPATH": "."})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'sd': 0, 'ssd': 0, 'pcg': 0}"
