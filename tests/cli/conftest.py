"""What the commands that do units of experiments share: workers that cost no time, and where results go."""

import numpy as np
import pytest

from pcg.experiments.unit import Record, Result, Unit
from pcg.experiments.worker import Sounding, WorkerSpec, context

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
        drafts = unit.settings.method != "ar"
        result = Result(
            tokens=(1,) * 50,
            heard=unit.utterance.text,
            words=(0, 5),
            characters=(0, 20),
            similarity=0.9,
            dnsmos=3.0,
            rounds=20 if drafts else 50,
            drafted=60 if drafts else 0,
            accepted=30 if drafts else 0,
            tested=(20, 15, 10) if drafts else (),
            accepted_at=(15, 10, 5) if drafts else (),
            trials=0,
            hit_limit=False,
            swapped=0.5 if unit.condition.swap else 0.0,
            mel_distance=2.0 if unit.condition.swap else None,
            audio_seconds=1.0,
            decoding_seconds=0.1,
            wall_seconds=0.2,
        )
        facts = context(self._spec.device, "float32", 1, workers, {"WER, CER": self._spec.judge})
        return Record(unit, result, facts | {"model": "tiny", "voice": self._spec.voice_id})

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
