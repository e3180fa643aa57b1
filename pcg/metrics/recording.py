"""One channel of sound, the name that its content gives it, and what every judge is given: 16 kHz, float32, within -1..1."""

import hashlib
from dataclasses import dataclass

import numpy as np

from pcg.errors import InputError

JUDGE_RATE = 16_000


@dataclass(frozen=True, eq=False)
class Recording:
    """`samples [N]`, finite floats of full scale 1, at `sample_rate` Hz; anything else is an InputError."""

    samples: np.ndarray
    sample_rate: int

    def __post_init__(self) -> None:
        if self.samples.ndim != 1 or not np.issubdtype(self.samples.dtype, np.floating):
            found = f"an array of {self.samples.dtype} of shape {self.samples.shape}"
            raise InputError("audio", found, "one channel of floats")
        if not np.isfinite(self.samples).all():
            raise InputError(
                "audio", f"{int((~np.isfinite(self.samples)).sum())} samples that are no numbers", "finite samples"
            )
        if self.sample_rate < 1:
            raise InputError("sample rate", self.sample_rate, "a positive number of Hz")

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.samples, self.sample_rate)


def fingerprint(samples: np.ndarray, sample_rate: int) -> str:
    """SHA-256 of the rate and the samples, floats as float32; an array of another kind or shape is another recording."""
    content = samples.astype(np.float32, copy=False) if np.issubdtype(samples.dtype, np.floating) else samples
    digest = hashlib.sha256(f"{sample_rate} {content.dtype.str} {content.shape} ".encode())
    digest.update(np.ascontiguousarray(content).tobytes())
    return digest.hexdigest()


def for_judges(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """`samples [N]` at `sample_rate` -> `[M]` at JUDGE_RATE. What lies outside -1..1 is cut off, as a player would do."""
    if sample_rate != JUDGE_RATE:
        import librosa

        samples = librosa.resample(samples, orig_sr=sample_rate, target_sr=JUDGE_RATE)
    return np.clip(samples, -1.0, 1.0).astype(np.float32)
