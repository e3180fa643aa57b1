"""A page that many visitors come to, one after the other: what it keeps of them, measured from outside."""

import os
import sys
from pathlib import Path

import pytest

from explorers.measure_page.requests import measure_requests, resident_mib
from explorers.swap import actions as swapping
from explorers.swap.actions import LastingWorker

GROWTH = 0.10
KINDS = ("say", "one", "groups", "repeat", "refused")

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process's memory")


@pytest.mark.slow
def test_memory_stays_within_a_tenth_after_many_requests(tiny_voice_folder: Path) -> None:
    figures = measure_requests(str(tiny_voice_folder), 40, early=15, kinds=KINDS)
    assert figures["memory_growth"] < GROWTH
    assert set(figures["ms"]) == set(KINDS)
    assert figures["memory_mib"]["early"] > 100


def test_the_measure_sees_what_is_kept() -> None:
    before = resident_mib(os.getpid())
    kept = b"x" * (256 << 20)  # beside what the process gives back meanwhile
    assert resident_mib(os.getpid()) - before > 0.6 * len(kept) / (1 << 20)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    specs: list[object] = []
    monkeypatch.setattr(swapping, "Worker", lambda spec: specs.append(spec) or object())
    return specs


def test_a_second_run_over_many_sentences_loads_nothing(loaded: list[object]) -> None:
    spec = LastingWorker("embedded")
    assert spec.load() is spec.load()
    assert loaded == [spec]
    assert LastingWorker("embedded").load() is not spec.load()
