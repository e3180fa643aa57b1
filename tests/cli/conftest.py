"""What the commands that do units of experiments share: workers that cost no time, and where results go."""

import numpy as np
import pytest

from pcg.experiments.unit import Record, Unit
from pcg.experiments.worker import Sounding, WorkerSpec, context
from tests.experiments.synthetic import record

GRID = """
name: mine
texts: [hello, "yes", "a warm bright morning sun"]
voices: [one]
conditions: [{name: AR, method: ar}, {name: SD, method: sd}]
"""


class Parrot:
    """A worker that says nothing and hears everything: units cost no time here. `interrupt_at`: the call that Ctrl-C meets."""

    def __init__(self, spec: WorkerSpec, calls: list[Unit], interrupt_at: int | None = None) -> None:
        self._spec, self._calls, self._interrupt_at = spec, calls, interrupt_at

    def record(self, unit: Unit, workers: int = 1) -> Record:
        if len(self._calls) == self._interrupt_at:
            raise KeyboardInterrupt
        self._calls.append(unit)
        figures = {"drafted": 60, "accepted": 30, "tested": (20, 15, 10), "accepted_at": (15, 10, 5)}
        drafts = figures if unit.settings.method != "ar" else {}
        swapped = {"swapped": 0.5, "mel_distance": 2.0} if unit.condition.swap else {}
        made = record(unit.condition, unit.utterance.text, 0, 5, **drafts, **swapped)
        facts = context(self._spec.device, "float32", 1, workers, {"WER, CER": self._spec.judge})
        return Record(unit, made.result, facts | {"model": "tiny", "voice": self._spec.voice_id})

    def sound(self, unit: Unit) -> Sounding:
        return Sounding(np.zeros(1600, np.float32), 16_000, (1,) * 5)


@pytest.fixture
def model(tiny_voice_folder, monkeypatch, tmp_path):
    monkeypatch.setattr("pcg.synthesis.synthesizer.CACHE", tmp_path / "cache")
    return str(tiny_voice_folder)


@pytest.fixture
def calls(monkeypatch):
    """The units that parrots did in place of real workers."""
    done: list[Unit] = []
    monkeypatch.setattr(WorkerSpec, "load", lambda spec: Parrot(spec, done))
    return done


@pytest.fixture
def where(model, tmp_path):
    """The options that say who speaks, and where results are."""
    return ["--model", model, "--results", str(tmp_path / "results")]


@pytest.fixture
def grid(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(GRID)
    return file
