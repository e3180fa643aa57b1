"""Samples in and out: loading any file, trimming, loudness, joining, and writing WAV with the settings inside."""

import shutil
import subprocess
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile

from pcg.errors import InputError
from pcg.files import replacing

LOUDNESS_RMS = 0.08
FADE_SECONDS = 0.005
RATES = (1_000, 192_000)
BLOCK_SAMPLES = 1 << 18
PCM_HEADER = 36
"""Bytes before the chunk of the samples in a WAV file without a comment."""
# What phones and browsers record and libsndfile does not read. No playlists: they may name other files.
CONTAINERS = "wav,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,aac,amr,asf"
CONVERSION_SECONDS = 120
LONGEST_HEADER = 4096
"""Bytes: a longer file that reads as empty lacks its length."""
CANCELLED = 1e-3
"""Share of a channel's energy below which the mean of all has lost it."""
FRAMES_A_SECOND = 100
# Below a level (RMS) of 3e-4 there is nothing but the noise of a microphone, whose frames are all as loud.
QUIETEST, UNEVEN = 3e-4, 1.6
LOUD = 0.1
LASTS, AMONG = 5, 10
"""Of so many frames in a row so many are loud where someone speaks: a click is shorter."""


def load_audio(path: Path, sample_rate: int, longest_seconds: float = 60.0) -> np.ndarray:
    """Read a file that libsndfile knows, or ffmpeg where it is installed, as mono float32 `[N]` at `sample_rate`,
    `longest_seconds` of it at most.

    Raise InputError if it is no such file, or if its rate or its samples cannot be those of a recording.
    """
    try:
        samples, rate = _read(path, longest_seconds)
        unfinished = not len(samples) and path.stat().st_size > LONGEST_HEADER and shutil.which("ffmpeg")
        if unfinished:  # a recorder was stopped before it wrote how long the file is
            samples, rate = _read_by_ffmpeg(path, longest_seconds)
    # soundfile answers with TypeError to a name that ends in .raw.
    except (OSError, TypeError, soundfile.LibsndfileError):
        samples, rate = _read_by_ffmpeg(path, longest_seconds)
    if not np.isfinite(samples).all():
        raise InputError("audio file", path.name, "free of samples that are no numbers")
    peak = max(float(samples.max(initial=0)), -float(samples.min(initial=0)))
    samples = samples / np.float32(peak) if peak > 1 else samples  # floats beyond full scale would be clipped
    if rate == sample_rate:
        return samples
    import librosa

    return librosa.resample(samples, orig_sr=rate, target_sr=sample_rate)


def _read(path: Path, longest_seconds: float) -> tuple[np.ndarray, int]:
    """Mono samples and their rate."""
    with soundfile.SoundFile(path) as file:
        rate = file.samplerate
        if not RATES[0] <= rate <= RATES[1]:
            raise InputError("sample rate", rate, f"{RATES[0]} to {RATES[1]} Hz")
        frames = int(longest_seconds * rate)
        # The mean of the channels, or the first where the others cancel it.
        mono, energy, first = _mixed(file, frames, lambda block: block.mean(axis=1))
        if energy < CANCELLED * first:
            file.seek(0)
            mono, *_ = _mixed(file, frames, lambda block: block[:, 0])
        return mono, rate


def _read_by_ffmpeg(path: Path, longest_seconds: float) -> tuple[np.ndarray, int]:
    """`_read` of what the program ffmpeg makes of a file that may come from anyone: it opens this one alone."""
    program = shutil.which("ffmpeg")
    refused = InputError(
        "audio file", path.name, "a readable WAV, FLAC, OGG or MP3 file (M4A or WebM where ffmpeg is installed)"
    )
    if program is None or not path.is_file():
        raise refused
    source = ["-format_whitelist", CONTAINERS, "-protocol_whitelist", "file", "-i", f"file:{path.resolve()}"]
    shape = ["-vn", "-ac", "1", "-c:a", "pcm_s16le", "-t", f"{longest_seconds:g}", "-fs", "1G"]
    with TemporaryDirectory() as folder:
        wav = Path(folder) / "converted.wav"
        try:
            call = [program, "-nostdin", "-v", "error", *source, *shape, str(wav)]
            subprocess.run(call, check=True, capture_output=True, timeout=CONVERSION_SECONDS)
            return _read(wav, longest_seconds)
        except (OSError, subprocess.SubprocessError, soundfile.LibsndfileError) as error:
            raise refused from error


def _mixed(file: soundfile.SoundFile, frames: int, mix: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, float, float]:
    """Return one channel of at most `frames` samples, its energy, and the first channel's, reading block by block."""
    mono, count, energies = np.zeros(min(frames, file.frames), np.float32), 0, np.zeros(2)
    for block in file.blocks(max(1, BLOCK_SAMPLES // file.channels), frames=len(mono), dtype="float32", always_2d=True):
        part = mono[count : count + len(block)]
        part[:] = mix(block)
        energies += np.vdot(part, part), np.vdot(block[:, 0], block[:, 0])
        count += len(block)
    return mono[:count], *energies


def write_wav(path: Path | str, samples: np.ndarray, sample_rate: int, comment: str = "") -> None:
    """Write `samples [N]` as 16-bit mono WAV, whole or not at all, with `comment` inside.

    The comment (ICMT of the LIST/INFO chunk) is what players skip and other programs keep and show. It stands where libsndfile
    puts it, which writes none of more than some forty thousand bytes.
    """
    _check_finite(samples)
    wav = BytesIO()  # libsndfile would not tell why a file cannot be written
    with soundfile.SoundFile(wav, "w", sample_rate, 1, "PCM_16", format="WAV") as file:
        file.write(samples)
    sound, chunk = wav.getbuffer(), b""
    if comment:
        content = comment.encode() + b"\0"
        content += b"\0" * (len(content) % 2)
        part = b"INFOICMT" + len(content).to_bytes(4, "little") + content
        chunk = b"LIST" + len(part).to_bytes(4, "little") + part
    with replacing(Path(path)) as temporary, temporary.open("wb") as file:
        file.write(b"RIFF" + (len(sound) - 8 + len(chunk)).to_bytes(4, "little"))
        file.write(sound[8:PCM_HEADER])
        file.write(chunk)
        file.write(sound[PCM_HEADER:])


def as_int16(samples: np.ndarray) -> np.ndarray:
    """Samples `[N]` from -1 to 1 as 16-bit integers; raise InputError for samples that are no numbers."""
    _check_finite(samples)
    return (samples.clip(-1, 1) * 32767).astype("<i2")


def _check_finite(samples: np.ndarray) -> None:
    if not np.isfinite(samples).all():
        raise InputError("samples", "not finite", "free of samples that are no numbers")


def trim(samples: np.ndarray, sample_rate: int, margin: float = 0.06, threshold: float = 0.004) -> np.ndarray:
    """Cut what is not speech from both ends, leaving `margin` seconds of it (`speech_span`)."""
    return samples[speech_span(samples, sample_rate, margin, threshold)]


def speech_span(samples: np.ndarray, sample_rate: int, margin: float = 0.06, threshold: float = 0.004) -> slice:
    """Find where speech begins and ends, with `margin` seconds around it; an empty span where there is none.

    A frame of 10 ms is loud above `threshold` (RMS), and above four times the level of the quietest frames. Shorter sounds than
    50 ms are no speech.
    """
    level = frame_levels(samples, sample_rate)
    if not len(level):
        return slice(0, 0)
    quiet, strong = np.quantile(level, [0.1, 0.95])
    loud = level > max(threshold, min(4 * quiet, 0.05 * strong))
    lasting = np.convolve(loud, np.ones(AMONG), mode="same")[: len(loud)] >= LASTS
    spoken = np.flatnonzero(loud & lasting)
    if not len(spoken):
        return slice(0, 0)
    frame, pad = sample_rate // FRAMES_A_SECOND, int(margin * sample_rate)
    return slice(max(0, spoken[0] * frame - pad), min(len(samples), (spoken[-1] + 1) * frame + pad))


def raised(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """Raise a quiet recording to a usual level and remove its constant part, so that `speech_span` does not take its speech for
    silence; the even noise of a microphone stays as quiet as it is."""
    samples = samples - samples.mean() if len(samples) else samples
    level = frame_levels(samples, sample_rate)
    quiet, strong = np.quantile(level, [0.1, 0.95]) if len(level) else (0.0, 0.0)
    is_speech = QUIETEST < strong < LOUD and strong > UNEVEN * quiet
    return samples * np.float32(LOUD / strong) if is_speech else samples


def frame_levels(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """Return the RMS of each whole frame of 10 ms, without its constant part."""
    frame = sample_rate // FRAMES_A_SECOND
    return samples[: len(samples) // frame * frame].reshape(-1, frame).std(axis=1)


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
