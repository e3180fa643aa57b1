"""Copies that are equally loud, equally long and of one format, so that neither level nor file tells who is who."""

from collections.abc import Sequence

import numpy as np

from pcg.errors import InputError

# EBU R128: programmes at -23 LUFS, with true peaks at -1 dB at most.
TARGET_LUFS, PEAK_DB = -23.0, -1.0
BLOCK_SECONDS = 0.4
SHORTEST_SECONDS = 0.1
ANCHOR_HZ = 3500
STEP = 2.0**-15


def loudness(samples: np.ndarray, sample_rate: int) -> float:
    """Integrated loudness of `samples [N]` in LUFS (EBU R128, ITU-R BS.1770-4, by pyloudnorm); -inf in silence.

    Sounds shorter than one gating block of 400 ms are one block as long as they are.
    """
    from pyloudnorm import Meter

    if not np.any(samples):
        return -np.inf
    block = min(BLOCK_SECONDS, len(samples) / sample_rate)
    return float(Meter(sample_rate, block_size=block).integrated_loudness(np.asarray(samples, np.float64)))


def matched(sounds: Sequence[np.ndarray], sample_rate: int) -> list[np.ndarray]:
    """`sounds [N_i]` as float64 `[M]` of one loudness: TARGET_LUFS, or as much lower as keeps all sample peaks below PEAK_DB.

    M is the longest N, and no less than SHORTEST_SECONDS: silence follows what is shorter. Silence itself stays as it is.
    """
    gains = [10 ** ((TARGET_LUFS - level) / 20) if np.isfinite(level := loudness(s, sample_rate)) else 1.0 for s in sounds]
    peaks = [gain * float(np.abs(sound).max(initial=0)) for gain, sound in zip(gains, sounds, strict=True)]
    together = min(1.0, 10 ** (PEAK_DB / 20) / max(max(peaks, default=0), 1e-9))
    length = max(int(SHORTEST_SECONDS * sample_rate), *map(len, sounds))
    return [np.pad(together * gain * s.astype(np.float64), (0, length - len(s))) for gain, s in zip(gains, sounds, strict=True)]


def dithered(samples: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    """`samples [N]` as int16 with triangular dither of two steps: two copies of one sound are no equal files.

    Otherwise X, or a hidden reference, could be told by its size in a cache or by the name that its content gives it.
    """
    drawn = noise.random((2, len(samples)))
    return np.clip(np.round(samples / STEP + drawn[0] - drawn[1]), -(2**15), 2**15 - 1).astype(np.int16)


def low_anchor(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """The low anchor of ITU-R BS.1534-3: `samples [N]` without what lies above 3.5 kHz, by a filter without delay."""
    from scipy.signal import butter, sosfiltfilt

    if sample_rate <= 2 * ANCHOR_HZ:
        raise InputError("anchor", f"low-passed at {ANCHOR_HZ} Hz", "left out, as the voice has nothing above")
    if not len(samples):
        return samples
    filter_ = butter(10, ANCHOR_HZ, fs=sample_rate, output="sos")
    return sosfiltfilt(filter_, samples, padlen=min(len(samples) - 1, sample_rate // 50)).astype(np.float32)
