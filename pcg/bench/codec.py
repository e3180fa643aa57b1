"""A codec on a recording: words after the round trip, and the distance of a stream from the decode at once."""

from pathlib import Path

import numpy as np
import torch

from pcg.audio import fade_ends, load_audio
from pcg.bench.shapes import medians
from pcg.codec.codec import Codec
from pcg.codec.streaming import AudioStream
from pcg.errors import InputError
from pcg.groups.audition import mel_distance
from pcg.metrics.intelligibility import Judge, word_errors

LONGEST_SECONDS = 30.0
SHORTEST_SECONDS = 1.0
PUSHED = 4


def bench_codec(codec: Codec, path: Path, judge: Judge, transcript: str, repeats: int) -> dict[str, object]:
    """Encode and decode the first 30 seconds of a recording; print and return the figures of the round trip.

    mel_distance: to the recording, in dB; mel_distance_random: the same of as many random codes. wer: of the transcript of the
    round trip against `transcript`, or without one against the judge's transcript of the recording. stream_error: energy of the
    difference between the decode in pieces and at once, in dB.
    """
    rate = codec.sample_rate
    samples = load_audio(path, rate, LONGEST_SECONDS)
    if len(samples) < SHORTEST_SECONDS * rate:
        raise InputError("recording", f"{len(samples) / rate:.1f} seconds", f"at least {SHORTEST_SECONDS:g} second")
    wave = torch.from_numpy(samples)
    codes = codec.encode(wave)
    random = torch.randint(codec.codebook_size, codes.shape, generator=torch.Generator().manual_seed(0))
    trip, noise = (codec.decode(c).numpy()[: len(samples)] for c in (codes, random))
    stream, at_once = AudioStream(codec, codes[:0]), fade_ends(codec.decode(codes).numpy(), rate)
    streamed = np.concatenate([*(stream.push(some.tolist()) for some in codes.split(PUSHED)), stream.finish()])
    error = np.square(streamed - at_once).sum() / max(1e-12, np.square(at_once).sum())
    heard = judge.transcribe([samples, trip], rate)
    wer = [word_errors(transcript, h).rate if transcript else None for h in heard]
    if not transcript and heard[0].strip():
        wer[1] = word_errors(heard[0], heard[1]).rate
    spent = medians({"encode": lambda: codec.encode(wave), "decode": lambda: codec.decode(codes)}, repeats)
    seconds = len(samples) / rate
    figures = {
        "seconds": round(seconds, 2),
        "codes": len(codes),
        "codes_used": codes.unique().numel(),
        "mel_distance": round(mel_distance(samples, trip, rate), 2),
        "mel_distance_random": round(mel_distance(samples, noise, rate), 2),
        "judge": judge.name,
        "heard": heard,
        "wer_recording": wer[0],
        "wer_round_trip": wer[1],
        "stream_error_db": round(float(10 * np.log10(error + 1e-20)), 1),
        "stream_mel_distance": round(mel_distance(at_once, streamed, rate), 2),
        **{f"{name}_ms_per_second": round(ms / seconds, 1) for name, ms in spent.items()},
    }
    for name, value in figures.items():
        print(f"{name}: {value}")
    return figures
