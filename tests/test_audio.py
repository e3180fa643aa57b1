"""Sound files of visitors: a small one may unpack to a great deal."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pcg.audio import load_audio
from pcg.errors import InputError

MB = 1 << 20


def write_channels(path: Path, channels: int, rate: int, seconds: int) -> None:
    """Channel k is k / channels everywhere."""
    levels = np.tile(np.arange(channels, dtype=np.float32) / channels, (rate, 1))
    with soundfile.SoundFile(path, "w", rate, channels) as file:
        for _ in range(seconds):
            file.write(levels)


@pytest.mark.parametrize(("kind", "channels", "rate", "seconds"), [("flac", 2, 192_000, 60), ("wav", 1000, 8_000, 1)])
def test_a_file_of_many_channels_costs_little_memory(tmp_path: Path, kind: str, channels: int, rate: int, seconds: int) -> None:
    path = tmp_path / f"many.{kind}"
    write_channels(path, channels, rate, seconds)
    load_audio(path, 16_000, 0.01)  # librosa compiles
    tracemalloc.start()
    samples = load_audio(path, 16_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60 * MB
    assert len(samples) == 16_000 * min(seconds, 60)
    assert np.median(samples) == pytest.approx((channels - 1) / 2 / channels, abs=1e-3)


def test_a_rate_that_no_recording_has_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.wav"
    soundfile.write(path, np.zeros(100, np.float32), 384_000)
    with pytest.raises(InputError, match=r"sample rate is 384000, but must be 1000 to 192000 Hz\."):
        load_audio(path, 16_000)
