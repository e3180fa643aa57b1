"""The sound of a speech token, sustained, and within an utterance; and the distance of two sounds."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from pcg.audio import fade_ends
from pcg.codec.codec import Codec
from pcg.codec.embedded import log_mel
from pcg.groups.groups import Groups
from pcg.groups.library import MELS, code_spectra
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text.prompt import Reference

REPEATS = 12
RUN_UP, RUN_OUT = 6, 2
"""Repetitions decoded before and after the audible ones, as the sound depends on its neighbours for so long."""
BANDS = 80
FRAME_SECONDS, WINDOW_SECONDS = 0.010, 0.040
FULL_PEAK = 0.95
DECIBELS_PER_NEPER = 20 / np.log(10)
SILENCE_DB, LOW_HERTZ = 40.0, 1000.0


@dataclass(frozen=True, eq=False)
class Audition:
    """`samples [N]`, float32 in -1..1, of `token`; `positions`: where it was put into an utterance, none if it is alone."""

    token: int
    samples: np.ndarray = field(repr=False)
    sample_rate: int
    positions: tuple[int, ...] = ()


def alone(codec: Codec, token: int, context: Tensor) -> Audition:
    """Sustain `token` over REPEATS tokens, `[REPEATS * hop]`, in the voice of `context [C]`, which is not heard."""
    run = torch.full((RUN_UP + REPEATS + RUN_OUT,), token, dtype=torch.int64)
    first = (len(context) + RUN_UP) * codec.hop
    wave = codec.decode(torch.cat([context, run]))[first : first + REPEATS * codec.hop]
    return Audition(token, fade_ends(wave.numpy(), codec.sample_rate), codec.sample_rate)


def in_context(synthesizer: Synthesizer, tokens: Sequence[int], groups: Groups, token: int, speaker: Reference) -> Audition:
    """Decode the utterance `tokens [T]` with `token` wherever a member of G(token) stands; nothing where none does."""
    codec = synthesizer.voice.codec
    utterance = np.asarray(tokens, np.int64)
    places = np.isin(utterance, groups.members_of(int(groups.group_of_centre[token])).numpy())
    if not places.any():
        return Audition(token, np.zeros(0, np.float32), codec.sample_rate)
    samples = synthesizer.decode(np.where(places, token, utterance).tolist(), speaker)
    return Audition(token, samples, codec.sample_rate, tuple(np.flatnonzero(places).tolist()))


def guarded(auditions: Sequence[Audition]) -> tuple[Audition, ...]:
    """Leave room below full scale: one gain, never above 1, for all of them, so that their levels still compare."""
    peak = max((float(np.abs(a.samples).max(initial=0)) for a in auditions), default=0.0)
    gain = np.float32(FULL_PEAK / peak) if peak > FULL_PEAK else np.float32(1)
    return tuple(replace(a, samples=a.samples * gain) for a in auditions)


def log_mel_db(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """Return the log-mel picture `[F, BANDS]` of `samples [N]` in dB, a frame every 10 ms: magnitudes, floor at -80 dB."""
    frame, window = (round(seconds * sample_rate) for seconds in (FRAME_SECONDS, WINDOW_SECONDS))
    if len(samples) < window:
        return np.zeros((0, BANDS), np.float32)
    wave = torch.from_numpy(np.ascontiguousarray(samples, np.float32))
    return (log_mel(wave[None], window, frame, BANDS, sample_rate)[0] * DECIBELS_PER_NEPER).numpy()


def mel_distance(a: np.ndarray, b: np.ndarray, sample_rate: int) -> float:
    """Return the mean absolute difference in dB of the log-mels of two sounds over their common frames; 0 without any."""
    of_a, of_b = log_mel_db(a, sample_rate), log_mel_db(b, sample_rate)
    common = min(len(of_a), len(of_b))
    return float(np.abs(of_a[:common] - of_b[:common]).mean(dtype=np.float64)) if common else 0.0


def sounds_like(codec: Codec, tokens: Sequence[int]) -> list[str]:
    """Class each of `tokens`: silence (SILENCE_DB below the loudest), voiced (energy below LOW_HERTZ), or noise."""
    import librosa

    energy = code_spectra(codec, torch.tensor(tokens)).double().exp().square().mean(1)
    level = 10 * energy.sum(1).log10()
    low = librosa.mel_frequencies(MELS + 2, fmax=codec.sample_rate / 2)[1:-1] < LOW_HERTZ
    silent, voiced = level < level.max() - SILENCE_DB, energy[:, low].sum(1) > energy.sum(1) / 2
    return ["silence" if quiet else "voiced" if deep else "noise" for quiet, deep in zip(silent, voiced, strict=True)]
