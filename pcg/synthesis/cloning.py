"""A voice by example: a recording as anyone has it -> what was said in it, and its speech codes.

The codes go before those that the model speaks, and are decoded with them; the synthesizer cuts their samples from the sound,
`hop` for each code.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from pcg.audio import load_audio, normalise_loudness, trim
from pcg.codec.codec import Codec
from pcg.errors import InputError, PCGError
from pcg.text.pauses import without_pauses
from pcg.text.prompt import Reference
from pcg.text.reading import check_text

LONGEST_FILE_SECONDS = 60.0
# Below a peak of one thousandth there is nothing but the noise of a microphone.
QUIETEST = 1e-3
LOWEST_PEAK = 0.5
FRAME_SECONDS = 0.02
PAUSE_SECONDS = 0.2
PAUSE_LEVEL = 0.1


def read_recording(
    path: Path,
    codec: Codec,
    seconds: tuple[float, float],
    transcript: str,
    transcribe: Callable[[np.ndarray], str] | None = None,
) -> Reference:
    """Read the first minute of a recording in any format that `load_audio` knows: mono, at the codec's rate, without silence
    around it, as loud as every reference, as codes.

    seconds: the least and the most that may be left. A longer recording is refused if it comes with its `transcript`, which
    would not fit a part of it; without, it is cut at its last pause. transcribe: `[N]` samples at the codec's rate -> the
    words, asked where `transcript` is blank; None where nobody is there to ask. Raises PCGError.
    """
    known = without_pauses(check_text(transcript)).strip() if transcript.strip() else ""
    if not known and transcribe is None:
        raise InputError("transcript", transcript, "the words in the recording")
    rate, (low, high) = codec.sample_rate, seconds
    speech = trim(_audible(load_audio(path, rate, LONGEST_FILE_SECONDS)), rate)
    if not known and len(speech) > high * rate:
        speech = trim(speech[: last_pause(speech, rate, low, high)], rate)
    length = len(speech) / rate
    if not low <= length <= high:
        hint = " (a longer one is cut if its words are left blank)" if length > high and transcribe else ""
        raise InputError("recording", f"{length:.1f} seconds of speech", f"{low:g} to {high:g} seconds of speech{hint}")
    speech = normalise_loudness(speech).astype(np.float32)
    return Reference(known or _words(transcribe(speech)), codec.encode(torch.from_numpy(speech)))


def last_pause(speech: np.ndarray, sample_rate: int, low: float, high: float) -> int:
    """Where to cut `speech [N]`, N >= high * sample_rate: amid its last pause between `low` and `high` seconds, in samples.

    A pause is a fifth of a second 20 dB below the whole; where there is none, the quietest fifth of a second of the later half.
    """
    frame = int(FRAME_SECONDS * sample_rate)
    power = np.square(speech[: len(speech) // frame * frame], dtype=np.float64).reshape(-1, frame).mean(axis=1)
    width = round(PAUSE_SECONDS / FRAME_SECONDS)
    # Number i is the power from frame i on, as long as a pause: all of it has to lie within the span.
    smooth = np.convolve(power, np.full(width, 1 / width), mode="valid")
    first, end = round(low / FRAME_SECONDS), int(high / FRAME_SECONDS) - width + 1
    pauses = np.flatnonzero(smooth[first:end] < PAUSE_LEVEL**2 * power.mean()) + first
    middle = max(first, end // 2)
    start = int(pauses[-1]) if len(pauses) else middle + int(np.argmin(smooth[middle:end]))
    return (start + width // 2) * frame


def _audible(samples: np.ndarray) -> np.ndarray:
    """Quiet recordings raised to a usual peak, so that `trim`, which counts samples, does not take speech for silence."""
    peak = float(np.abs(samples).max(initial=0))
    return samples * (LOWEST_PEAK / peak) if QUIETEST < peak < LOWEST_PEAK else samples


def _words(heard: str) -> str:
    if not heard.strip():
        raise PCGError("No word was understood in the recording: type what is said in it.")
    return check_text(heard)
