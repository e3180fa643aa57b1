"""Results that nobody ever spoke, and whoever speaks them at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from explorers.experiments.archive import Archive
from pcg.experiments.grids import Grid, ar, pcg, sd
from pcg.experiments.store import Store
from pcg.experiments.unit import Condition, Record, Unit, Utterance
from pcg.experiments.worker import Sounding
from pcg.synthesis.synthesizer import Synthesizer
from tests.experiments.synthetic import CONTEXT, record

VOICE = "a voice and its judges"
MARKUP = "PCG <img src=x onerror=alert(1)>"
DRAFTING = {"rounds": 40, "drafted": 120, "accepted": 60, "tested": (40, 30, 20), "accepted_at": (30, 20, 10)}


@dataclass(frozen=True)
class QuickSpec:
    """A spec whose worker knows at once what comes of a unit."""

    voice_id: str = VOICE
    device: str = "cpu"
    threads: int = 1

    def load(self) -> "QuickWorker":
        return QuickWorker(self.voice_id)


class QuickWorker:
    def __init__(self, voice: str) -> None:
        self._voice = voice

    def record(self, unit: Unit, workers: int = 1) -> Record:
        figures = {} if unit.settings.method == "ar" else DRAFTING
        said = record(unit.condition, unit.utterance.text, context=CONTEXT | {"voice": self._voice}, **figures)
        return replace(said, unit=unit)


class Echo:
    """Says every unit with the tokens that the synthetic records hold, but for the one text that it garbles."""

    def __init__(self, garbled: str = "") -> None:
        self.said: list[Unit] = []
        self._garbled = garbled

    def sound(self, unit: Unit) -> Sounding:
        self.said.append(unit)
        tokens = (8,) if unit.utterance.text == self._garbled else (7,) * 100
        return Sounding(np.full(10, 0.5, dtype=np.float32), 24_000, tokens)


def keep(folder: Path, conditions: Sequence[Condition], utterances: int = 6, voice: str = VOICE) -> None:
    worker, store = QuickWorker(voice), Store(folder)
    for at in range(utterances):
        for condition in conditions:
            unit = Unit(Utterance(f"Sentence {at}.", "one"), condition, 0)
            store.add(unit.key(voice), worker.record(unit))


def archive_of(synthesizer: Synthesizer, results: Path, committed: Path | None = None) -> Archive:
    return Archive(synthesizer, QuickSpec(), results, committed)


def small_grid(utterances: int = 4) -> Grid:
    said = tuple(Utterance(f"Sentence {at}.", "one") for at in range(utterances))
    return Grid("small", "small", (ar(), sd(), pcg(0.4)), said, (0,))
