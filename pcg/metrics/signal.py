"""What every judge is given: 16 kHz, float32, within -1..1."""

import numpy as np

JUDGE_RATE = 16_000


def for_judges(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """`samples [N]` at `sample_rate` -> `[M]` at JUDGE_RATE. What lies outside -1..1 is cut off, as a player would do."""
    if sample_rate != JUDGE_RATE:
        import librosa

        samples = librosa.resample(samples, orig_sr=sample_rate, target_sr=JUDGE_RATE)
    return np.clip(samples, -1.0, 1.0).astype(np.float32)
