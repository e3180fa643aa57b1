"""Recordings -> utterances that a recogniser can read, and their transcripts as one text."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pcg.asr.embedded import Recogniser
from pcg.asr.self_speculative import Transcript, Way, transcribe
from pcg.audio import load_audio, raised, speech_span
from pcg.errors import InputError
from pcg.metrics.quality import for_judges

LONGEST_SECONDS = 2 * 3600.0
# The longest utterance that training has seen is two sentences; cuts look for a pause in this span.
CUT_SECONDS = (6.0, 12.0)
_FRAME_SECONDS = 0.02
_PAUSE_FRAMES = 10
_SILENCE = 10.0 ** (-60 / 20)
_SHORTEST_SECONDS = 0.1


@dataclass(frozen=True)
class Recognition:
    """The whole `text`, and the transcript of each part with the seconds at which it begins; silence has no parts. seconds: of
    sound that was read."""

    text: str
    parts: tuple[Transcript, ...]
    starts: tuple[float, ...]
    seconds: float


def cut(speech: np.ndarray, sample_rate: int) -> list[slice]:
    """Parts of `speech [N]` of at most 12 s, each cut at the quietest place between 6 and 12 s (`CUT_SECONDS`). Left out are
    the ends without speech, and parts that are silent or shorter than 0.1 s."""
    span = speech_span(speech, sample_rate)
    speech = speech[: span.stop]
    frame = int(_FRAME_SECONDS * sample_rate)
    low, high = (int(seconds * sample_rate) for seconds in CUT_SECONDS)
    ends, start = [span.start], span.start
    while len(speech) - start > high:
        energy = speech[start + low : start + high]
        energy = np.square(energy[: len(energy) // frame * frame], dtype=np.float64).reshape(-1, frame).mean(axis=1)
        smooth = np.convolve(energy, np.ones(_PAUSE_FRAMES), mode="same")
        start += low + int(np.argmin(smooth)) * frame + frame // 2
        ends.append(start)
    parts = [slice(begin, end) for begin, end in zip(ends, [*ends[1:], len(speech)], strict=True)]
    return [p for p in parts if p.stop - p.start >= _SHORTEST_SECONDS * sample_rate and np.abs(speech[p]).max() > _SILENCE]


def listen(recogniser: Recogniser, samples: np.ndarray, sample_rate: int, way: Way) -> Recognition:
    """Transcribe one recording of any length; raise InputError if it is no audio."""
    return listen_to_all(recogniser, [samples], sample_rate, way)[0]


def listen_to_all(recogniser: Recogniser, recordings: Sequence[np.ndarray], sample_rate: int, way: Way) -> list[Recognition]:
    """`listen` to many recordings, whose parts share batches."""
    rate = recogniser.sample_rate
    speech = [raised(for_judges(samples, sample_rate, rate), rate) for samples in recordings]
    parts = [cut(heard, rate) for heard in speech]
    utterances = [torch.from_numpy(heard[p]) for heard, cuts in zip(speech, parts, strict=True) for p in cuts]
    transcripts = iter(transcribe(recogniser, utterances, way))
    recognitions = []
    for heard, cuts in zip(speech, parts, strict=True):
        own = tuple(next(transcripts) for _ in cuts)
        text = " ".join(t.text for t in own if t.text)
        recognitions.append(Recognition(text, own, tuple(p.start / rate for p in cuts), len(heard) / rate))
    return recognitions


def listen_to_file(recogniser: Recogniser, path: Path, way: Way) -> Recognition:
    """`listen` to the first two hours of a file that `load_audio` can read; raise InputError if it cannot."""
    if not path.is_file():
        raise InputError("audio file", str(path), "a file that is there")
    samples = load_audio(path, recogniser.sample_rate, LONGEST_SECONDS)
    return listen(recogniser, samples, recogniser.sample_rate, way)
