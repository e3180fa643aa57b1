"""One command for a machine with CUDA: tests of decoding there, the bench, many clients at once, the shapes of LLaSA."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from pcg.errors import InputError, PCGError
from pcg.files import write_json
from pcg.places import PROJECT

RESULTS = PROJECT / "assets" / "bench"
BENCH = ("-m", "pcg", "bench")
SHAPES = ("llasa-1b", "llasa-3b", "llasa-8b")
PARTS: Mapping[str, Sequence[str]] = {
    "decoding tests": ("-m", "pytest", "-q", "tests/decode", "tests/models/test_kernel.py", "tests/models/test_llama.py"),
    "bench": (*BENCH, "--device", "cuda"),
    "bench batching": (*BENCH, "batching", "--clients", "16", "--device", "cuda", "--repeats", "1"),
    **{f"bench shape {name}": (*BENCH, "shape", "--shape", name, "--device", "cuda", "--repeats", "3") for name in SHAPES},
}
"""tests/decode/test_bfloat16.py holds the exactness tests in the type that a GPU computes in, with their bounds."""
LONGEST = 1800


def gpu_check(folder: Path = RESULTS, parts: Mapping[str, Sequence[str]] = PARTS) -> dict[str, object]:
    """Run every part in a process of its own, so that none takes the others down; write what came of them into `folder`.

    Raises InputError without CUDA, and PCGError where a part failed, after everything was written.
    """
    if not torch.cuda.is_available():
        raise InputError("device", "without CUDA", "a machine with an NVIDIA GPU and a torch that was built for it")
    found: dict[str, object] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    failed = []
    for name, words in parts.items():
        passed, found[name] = run_part(words)
        print(f"{name}: {'done' if passed else 'FAILED'}", flush=True)
        failed += [] if passed else [name]
    found["failed"] = failed
    slug = re.sub("[^a-z0-9]+", "-", str(found["device"]).lower()).strip("-")
    write_json(folder / f"{slug}.json", found)
    if failed:
        raise PCGError(f"On {found['device']} this failed: {', '.join(failed)}; {slug}.json says how.")
    return found


def run_part(words: Sequence[str]) -> tuple[bool, object]:
    """Run Python with `words`; return whether it ended well, and its last line, read if that is JSON; of a failure its last
    lines."""
    try:
        done = subprocess.run([sys.executable, *words], cwd=PROJECT, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return False, [f"not done after {LONGEST} seconds"]
    lines = done.stdout.splitlines()
    if done.returncode:
        return False, [*lines, *done.stderr.splitlines()][-30:]
    try:
        return True, json.loads(lines[-1])
    except (IndexError, ValueError):
        return True, [line for line in lines if line.strip()][-1:]
