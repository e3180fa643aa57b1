"""Samples in and out: loading any file, trimming, loudness, joining and writing WAV."""

from pathlib import Path

import numpy as np
import soundfile

from pcg.errors import InputError
from pcg.files import replacing

LOUDNESS_RMS = 0.08
FADE_SECONDS = 0.005


def load_audio(path: Path, sample_rate: int, longest_seconds: float = 60.0) -> np.ndarray:
    """Read a file that libsndfile knows as mono float32 `[N]` at `sample_rate`."""
    try:
        with soundfile.SoundFile(path) as file:
            rate = file.samplerate
            samples = file.read(int(longest_seconds * rate), dtype="float32", always_2d=True).mean(axis=1)
    except (OSError, soundfile.LibsndfileError) as error:
        raise InputError("audio file", path.name, "a readable WAV, FLAC, OGG or MP3 file") from error
    if rate == sample_rate:
        return samples
    import librosa

    return librosa.resample(samples, orig_sr=rate, target_sr=sample_rate)


def write_wav(path: Path, samples: np.ndarray, sample_rate: int) -> None:
    """Write 16-bit WAV, whole or not at all."""
    with replacing(path) as temporary:
        soundfile.write(temporary, samples, sample_rate, subtype="PCM_16", format="WAV")


def trim(samples: np.ndarray, sample_rate: int, margin: float = 0.06, threshold: float = 0.012) -> np.ndarray:
    """Cut silence from both ends, leaving `margin` seconds of it."""
    frame = sample_rate // 100
    usable = samples[: len(samples) // frame * frame].reshape(-1, frame)
    loud = np.flatnonzero(np.abs(usable).max(axis=1) > threshold) if len(usable) else np.array([], int)
    if not len(loud):
        return samples[:0]
    pad = int(margin * sample_rate)
    return samples[max(0, loud[0] * frame - pad) : (loud[-1] + 1) * frame + pad]


def normalise_loudness(samples: np.ndarray) -> np.ndarray:
    """Scale to a fixed RMS over the sounding part, at most to a peak of 0.95."""
    sounding = samples[np.abs(samples) > 0.005]
    if not len(sounding):
        return samples
    gain = LOUDNESS_RMS / float(np.sqrt(np.mean(sounding**2)))
    return samples * min(gain, 0.95 / float(np.abs(samples).max()))


def fade_in(samples: np.ndarray, sample_rate: int, seconds: float = FADE_SECONDS) -> np.ndarray:
    """Raise the start from silence."""
    count = min(int(seconds * sample_rate), len(samples) // 2)
    return crossfade(np.zeros(count, samples.dtype), samples)


def fade_out(samples: np.ndarray, sample_rate: int, seconds: float = FADE_SECONDS) -> np.ndarray:
    """Lower the end to silence."""
    return fade_in(samples[::-1], sample_rate, seconds)[::-1]


def fade_ends(samples: np.ndarray, sample_rate: int, seconds: float = FADE_SECONDS) -> np.ndarray:
    """Raise and lower the ends, so that pieces join without a click."""
    return fade_out(fade_in(samples, sample_rate, seconds), sample_rate, seconds)


def crossfade(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """`after [N]`, entered from `before [M <= N]` by a linear ramp over the M samples in which they are alike."""
    ramp = np.linspace(0, 1, len(before), dtype=after.dtype)
    mixed = after.copy()
    mixed[: len(before)] = before * (1 - ramp) + after[: len(before)] * ramp
    return mixed
