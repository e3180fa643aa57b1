"""Samples as bytes, in the formats of OpenAI's speech endpoint: raw and WAV as they come, the others when all have come."""

from collections.abc import Sequence
from io import BytesIO
from typing import Protocol

import numpy as np
import soundfile
import soxr

RAW_RATE = 24_000
"""Of `pcm`, which says nothing of its rate: clients of that endpoint play it at this one."""
STREAMED = ("wav", "pcm")
UNKNOWN = 0xFFFFFFFF
_WHOLE = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}
_MEDIA = {"wav": "audio/wav", "pcm": "audio/pcm", "flac": "audio/flac", "mp3": "audio/mpeg", "opus": "audio/ogg"}


def formats() -> Sequence[str]:
    """Those that libsndfile can write here."""
    here = soundfile.available_formats()
    return [*STREAMED, *(n for n, (kind, how) in _WHOLE.items() if kind in here and how in soundfile.available_subtypes(kind))]


def media_type(name: str) -> str:
    return _MEDIA[name]


class Encoder(Protocol):
    """Takes samples `[N]` from -1 to 1, and gives bytes; an empty answer means that there is nothing to send yet."""

    def push(self, samples: np.ndarray) -> bytes: ...

    def finish(self) -> bytes: ...


def make_encoder(name: str, rate: int, whole: bool) -> Encoder:
    """whole: all samples come before the first byte is sent, so that a header tells how many there are."""
    if name == "pcm":
        return _Raw(rate)
    if name == "wav" and not whole:
        return _Wav(rate)
    return _Whole(rate, *_WHOLE.get(name, ("WAV", "PCM_16")))


def _as_int16(samples: np.ndarray) -> bytes:
    return (samples.clip(-1, 1) * 32767).astype("<i2").tobytes()


class _Raw:
    """16-bit PCM at `RAW_RATE`, without a header."""

    def __init__(self, rate: int) -> None:
        self._resampler = soxr.ResampleStream(rate, RAW_RATE, 1, dtype="float32")

    def push(self, samples: np.ndarray) -> bytes:
        return _as_int16(self._resampler.resample_chunk(samples.astype(np.float32)))

    def finish(self) -> bytes:
        return _as_int16(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))


class _Wav:
    """WAV of unknown length, as other speech servers stream it: the sizes in its header are the largest that there are."""

    def __init__(self, rate: int) -> None:
        self._header = b"".join(
            [
                b"RIFF", UNKNOWN.to_bytes(4, "little"), b"WAVEfmt ", (16).to_bytes(4, "little"),
                *(n.to_bytes(size, "little") for n, size in ((1, 2), (1, 2), (rate, 4), (2 * rate, 4), (2, 2), (16, 2))),
                b"data", UNKNOWN.to_bytes(4, "little"),
            ]
        )  # fmt: skip

    def push(self, samples: np.ndarray) -> bytes:
        if not len(samples):
            return b""
        header, self._header = self._header, b""
        return header + _as_int16(samples)

    def finish(self) -> bytes:
        return self._header


class _Whole:
    def __init__(self, rate: int, kind: str, how: str) -> None:
        self._rate, self._kind, self._how = rate, kind, how
        self._pieces: list[np.ndarray] = []

    def push(self, samples: np.ndarray) -> bytes:
        self._pieces.append(samples)
        return b""

    def finish(self) -> bytes:
        sound = BytesIO()
        samples = np.frombuffer(b"".join(map(_as_int16, self._pieces)), "<i2")
        soundfile.write(sound, samples, self._rate, format=self._kind, subtype=self._how)
        return sound.getvalue()
