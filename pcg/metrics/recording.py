"""One channel of sound, and the form in which judges hear it: 16 kHz, float32, within -1..1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pcg.errors import InputError

JUDGE_RATE = 16_000


@dataclass(frozen=True, eq=False)
class Recording:
    """`samples [N]`, finite floats of full scale 1, at `sample_rate` Hz; raises InputError for anything else."""

    samples: np.ndarray
    sample_rate: int

    def __post_init__(self) -> None:
        if self.samples.ndim != 1 or not np.issubdtype(self.samples.dtype, np.floating):
            kind = f"an array of {self.samples.dtype} of shape {self.samples.shape}"
            raise InputError("audio", kind, "one channel of floats")
        if not np.isfinite(self.samples).all():
            count = int((~np.isfinite(self.samples)).sum())
            raise InputError("audio", f"{count} samples that are no numbers", "finite samples")
        if self.sample_rate < 1:
            raise InputError("sample rate", self.sample_rate, "a positive number of Hz")


@dataclass(frozen=True, eq=False)
class Sample(Recording):
    """A recording, its `text`, and a `reference` recording of its speaker."""

    text: str | None = None
    reference: Recording | None = None

    def text_for(self, metric: str) -> str:
        if self.text is None:
            raise InputError("text", None, f"what was meant to be said, which {metric} compares with")
        return self.text

    def reference_for(self, metric: str) -> Recording:
        if self.reference is None:
            raise InputError("reference", None, f"a recording of the speaker, which {metric} compares with")
        return self.reference


class Metric(Protocol):
    """A figure of merit for each sample of a batch; equal names promise equal numbers."""

    @property
    def name(self) -> str: ...

    def measure(self, batch: Sequence[Sample]) -> list[float]: ...


def for_judges(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """Resample `samples [N]` to `[M]` at JUDGE_RATE, clipped to -1..1 as a player would."""
    if sample_rate != JUDGE_RATE:
        import librosa

        samples = librosa.resample(samples, orig_sr=sample_rate, target_sr=JUDGE_RATE)
    return np.clip(samples, -1.0, 1.0).astype(np.float32)
