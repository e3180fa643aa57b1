"""Sound as a stream of bytes while it is made: WAV, raw PCM, MP3, Opus, AAC, FLAC, at another tempo if need be."""

from fractions import Fraction
from io import BytesIO

import av
import av.filter
import numpy as np

from pcg.audio import as_int16

RAW_RATE = 24_000
"""Samples a second of `pcm`, which has no header: clients of OpenAI's endpoint expect this rate."""
BIT_RATE = 96_000
FORMATS: dict[str, tuple[str, str, dict[str, str]]] = {
    "mp3": ("mp3", "libmp3lame", {"id3v2_version": "0"}),
    "opus": ("ogg", "libopus", {"page_duration": "200000"}),
    "aac": ("adts", "aac", {}),
    "flac": ("flac", "flac", {}),
    "wav": ("wav", "pcm_s16le", {"fflags": "+bitexact"}),  # the largest size in a header that is sent before the end
    "pcm": ("s16le", "pcm_s16le", {}),
}
"""By name: the container, the codec and the options of FFmpeg."""


class Encoder:
    """Encodes sound as one of `FORMATS`, as it comes. whole: keep all until the end, so that the header tells the length."""

    def __init__(self, name: str, sample_rate: int, whole: bool = False) -> None:
        container, codec, options = FORMATS[name]
        self._file = BytesIO() if whole else _Pipe()
        self._container = av.open(self._file, "w", format=container, options=options)
        rate = RAW_RATE if name == "pcm" else sample_rate
        self._stream = self._container.add_stream(codec, rate=rate, layout="mono")
        self._stream.bit_rate = BIT_RATE
        self._rate, self._count = sample_rate, 0

    def push(self, samples: np.ndarray) -> bytes:
        """Encode samples `[N]` from -1 to 1; an empty result means that there is nothing to send yet."""
        if len(samples):
            self._container.mux(self._stream.encode(_frame(as_int16(samples), self._rate, self._count)))
            self._count += len(samples)
        return self._file.take() if isinstance(self._file, _Pipe) else b""

    def finish(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._file.take() if isinstance(self._file, _Pipe) else self._file.getvalue()


class _Pipe:
    """A file that cannot be rewound, which FFmpeg writes and `take` empties."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, content: bytes) -> int:
        self._written += content
        return len(content)

    def take(self) -> bytes:
        content, self._written = bytes(self._written), bytearray()
        return content


class Tempo:
    """Makes speech faster or slower at the same pitch, as it comes (WSOLA of FFmpeg).

    Args:
        speed: from 0.5 to 2.
        sample_rate: in Hz.
    """

    def __init__(self, speed: float, sample_rate: int) -> None:
        self._graph, self._rate, self._count = av.filter.Graph(), sample_rate, 0
        form = {"sample_rate": sample_rate, "format": "s16", "layout": "mono", "time_base": Fraction(1, sample_rate)}
        source, tempo = self._graph.add_abuffer(**form), self._graph.add("atempo", f"{speed:g}")
        self._graph.link_nodes(source, tempo, self._graph.add("abuffersink")).configure()

    def push(self, samples: np.ndarray) -> np.ndarray:
        """Take samples `[N]` from -1 to 1; return those `[M]` that are ready."""
        if len(samples):
            self._graph.push(_frame(as_int16(samples), self._rate, self._count))
            self._count += len(samples)
        return self._ready()

    def finish(self) -> np.ndarray:
        self._graph.push(None)
        return self._ready()

    def _ready(self) -> np.ndarray:
        pieces = [np.zeros(0, np.float32)]
        try:
            while True:
                pieces.append(self._graph.pull().to_ndarray()[0])
        except (av.BlockingIOError, av.EOFError):  # nothing more yet
            return np.concatenate(pieces).astype(np.float32) / 32767


def _frame(samples: np.ndarray, sample_rate: int, start: int) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
    frame.sample_rate, frame.pts = sample_rate, start
    return frame
