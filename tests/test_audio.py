"""Sound files of visitors: a small one may unpack to a great deal."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pcg.audio import load_audio, write_wav
from pcg.errors import InputError

MB = 1 << 20
PEAK = """
import sys, tracemalloc
from pathlib import Path
from pcg.audio import load_audio
path = Path(sys.argv[1])
load_audio(path, 16_000, 0.01)  # librosa compiles
tracemalloc.start()
load_audio(path, 16_000)
print(tracemalloc.get_traced_memory()[1])
"""
"""A program of its own: other threads of the tests would count."""


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_no_numbers_are_not_written(tmp_path: Path, value: float) -> None:
    with pytest.raises(InputError, match="samples is 'not finite', but must be free of samples that are no numbers"):
        write_wav(tmp_path / "a.wav", np.array([0.1, value], np.float32), 16_000)
    assert not list(tmp_path.iterdir())


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
    peak = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, check=True, text=True).stdout
    assert int(peak) < 60 * MB
    samples = load_audio(path, 16_000)
    assert len(samples) == 16_000 * min(seconds, 60)
    assert np.median(samples) == pytest.approx((channels - 1) / 2 / channels, abs=1e-3)


@pytest.mark.parametrize("length", [1, 2, 99, 2_000, 40_000])
def test_a_comment_stands_where_libsndfile_puts_it(length: int, tmp_path: Path) -> None:
    samples, wanted = np.linspace(-0.5, 0.5, 1_601).astype(np.float32), BytesIO()
    write_wav(tmp_path / "a.wav", samples, 16_000, "x" * length)
    with soundfile.SoundFile(wanted, "w", 16_000, 1, "PCM_16", format="WAV") as file:
        file.comment = "x" * length
        file.write(samples)
    assert (tmp_path / "a.wav").read_bytes() == wanted.getvalue()
