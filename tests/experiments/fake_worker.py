"""A worker without a voice, for the runners: it knows at once what comes of a unit, and notes what it did."""

import hashlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from pcg import errors
from pcg.errors import InputError
from pcg.experiments.unit import Condition, Record, Result, Unit, Utterance
from pcg.settings import Settings

AR, SD, PCG = (Condition(m.upper(), Settings(m)) for m in ("ar", "sd", "pcg"))


@dataclass(frozen=True)
class FakeSpec:
    """log: a line for each unit that was begun. A unit that says `refuses` is an InputError, and one that says `dies_at` kills
    its worker. One that says `breaks` is an unexpected error, which is logged beside `log`."""

    log: Path
    seconds: float = 0.0
    refuses: str = ""
    dies_at: str = ""
    breaks: str = ""
    voice_id: str = "fake"
    device: str = "cpu"

    def load(self) -> "FakeWorker":
        if self.breaks:
            errors.LOG = self.log.with_name("errors.log")
        return FakeWorker(self)

    def begun(self) -> list[str]:
        return [line.split()[0] for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def workers(self) -> set[int]:
        return {int(line.split()[1]) for line in self.log.read_text().splitlines()}


class FakeWorker:
    def __init__(self, spec: FakeSpec) -> None:
        self._spec = spec

    def record(self, unit: Unit, workers: int = 1) -> Record:
        with self._spec.log.open("a") as log:
            log.write(f"{unit.key('fake')} {os.getpid()}\n")
        if unit.utterance.text == self._spec.refuses:
            raise InputError("voice", unit.utterance.voice, "one of the known")
        if unit.utterance.text == self._spec.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if unit.utterance.text == self._spec.breaks:
            raise ZeroDivisionError
        time.sleep(self._spec.seconds)
        return Record(unit, result_of(unit), {"workers": workers, "pid": os.getpid()})


def result_of(unit: Unit) -> Result:
    """Any result, always the same for a unit."""
    tokens = tuple(hashlib.sha256(unit.key("fake").encode()).digest())
    return Result(
        tokens, "so", (1, 2), (3, 4), 0.5, None, 3, 4, 2, (2, 2), (1, 1), 0, False, 0.0, None, 1.0, tokens[0] / 7, tokens[1] / 3
    )


def units_of(utterances: int, seeds: int = 1) -> list[Unit]:
    said = [Utterance(f"sentence {i}", "one") for i in range(utterances)]
    return [Unit(u, condition, seed) for u in said for seed in range(seeds) for condition in (AR, SD, PCG)]
