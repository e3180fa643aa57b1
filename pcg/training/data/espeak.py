"""More voices for the recogniser: espeak-ng, a formant synthesizer, in many variants, rates and pitches.

The library is the one that `prompts.text` phonemises with. It keeps its voice in C globals, so speaking happens in processes of
its own.
"""

import ctypes
import multiprocessing
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import librosa
import numpy as np

from pcg.audio import normalise_loudness, trim
from pcg.errors import PCGError
from pcg.training.data.corpus import SAMPLE_RATE, SHARD_SIZE, usable, write_shard

ACCENTS = ("en-us", "en-us", "en-us", "en-gb-x-rp", "en-gb-scotland")
VARIANTS = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f4", "f5", "klatt", "klatt2", "Alex", "Andy", "Annie",
            "Gene", "Lee", "Michael", "Reed", "belinda", "linda", "steph", "zac")  # fmt: skip
HELD_OUT_VARIANTS = ("f3", "Alicia", "edward", "klatt4")
RATES = (125, 185)
PITCHES = (25, 75)


@dataclass(frozen=True)
class EspeakJob:
    """One shard: `sentences`, each spoken by one of `variants`, into `path`."""

    path: Path
    sentences: tuple[str, ...]
    variants: tuple[str, ...]
    seed: int


def make_espeak(directory: Path, sentences: Sequence[str], variants: Sequence[str], seed: int, processes: int) -> None:
    """Speak `sentences` into shards of the corpus's format in `directory`; shards that exist are kept."""
    jobs = []
    for index in range(0, len(sentences), SHARD_SIZE):
        path = directory / f"{index // SHARD_SIZE:05d}.npy"
        if not path.with_suffix(".json").exists():
            jobs.append(EspeakJob(path, tuple(sentences[index : index + SHARD_SIZE]), tuple(variants), seed + index))
    if not jobs:
        return
    with multiprocessing.get_context("spawn").Pool(min(processes, len(jobs))) as workers:
        for done, path in enumerate(workers.imap_unordered(speak_shard, jobs), start=1):
            print(f"espeak {done}/{len(jobs)} {path.stem}", flush=True)


def speak_shard(job: EspeakJob) -> Path:
    spoken = zip(job.sentences, _speak_all(job.sentences, job.variants, job.seed), strict=True)
    write_shard(job.path, [(text, samples) for text, samples in spoken if usable(samples)])
    return job.path


def speak_held_out(sentences: Sequence[str], seed: int) -> list[np.ndarray]:
    """`sentences` by variants that no training hears, float32 `[N]` at 16 kHz each."""
    with multiprocessing.get_context("spawn").Pool(1) as worker:
        return worker.apply(_speak_all, (tuple(sentences), HELD_OUT_VARIANTS, seed))


def _speak_all(sentences: Sequence[str], variants: Sequence[str], seed: int) -> list[np.ndarray]:
    rng, library = random.Random(seed), _Synthesizer()
    spoken = []
    for text in sentences:
        voice = f"{rng.choice(ACCENTS)}+{rng.choice(variants)}"
        spoken.append(library.speak(text, voice, rng.randint(*RATES), rng.randint(*PITCHES)))
    return spoken


class _Synthesizer:
    """espeak-ng's C interface, in its synchronous mode: samples arrive in a callback until `espeak_Synth` returns."""

    _SYNCHRONOUS, _UTF8, _RATE, _PITCH = 2, 1, 1, 3

    def __init__(self) -> None:
        import espeakng_loader

        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self.rate = self._library.espeak_Initialize(self._SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0)
        if self.rate < 0:
            raise PCGError("espeak-ng could not start from its bundled data.")
        self._heard: list[np.ndarray] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        # The library keeps the pointer only, so the callback has to stay alive here.
        self._callback = kind(self._hear)
        self._library.espeak_SetSynthCallback(self._callback)

    def speak(self, text: str, voice: str, words_a_minute: int, pitch: int) -> np.ndarray:
        """`text` as float32 `[N]` at 16 kHz, trimmed and loudness-normalised; pitch is 0..100."""
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise PCGError(f"espeak-ng knows no voice {voice}.")
        self._library.espeak_SetParameter(self._RATE, words_a_minute, 0)
        self._library.espeak_SetParameter(self._PITCH, pitch, 0)
        self._heard.clear()
        said = text.encode()
        self._library.espeak_Synth(said, len(said) + 1, 0, 1, 0, self._UTF8, None, None)
        samples = np.concatenate([*self._heard, np.zeros(0, np.float32)])
        at_16k = librosa.resample(samples, orig_sr=self.rate, target_sr=SAMPLE_RATE, res_type="polyphase")
        return normalise_loudness(trim(at_16k, SAMPLE_RATE))

    def _hear(self, samples: "ctypes._Pointer[ctypes.c_short]", count: int, events: int) -> int:
        if samples and count > 0:
            self._heard.append(np.ctypeslib.as_array(samples, (count,)).astype(np.float32) / 32768.0)
        return 0
