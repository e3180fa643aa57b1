"""Stage `corpus`: free synthesizers speak the sentences; trimmed, loudness-normalised, 16 kHz, in shards.

A shard is `VOICE/00000.npy` (int16 samples, back to back) beside `VOICE/00000.json` (text, start and length of each
utterance). Which sentence goes to which shard depends on the seed alone, so a killed run resumes at the first missing
shard. Needs the Debian packages `flite`, `wordnet-base` and `wamerican`.
"""

import json
import multiprocessing
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soundfile

from pcg.audio import fade_ends, normalise_loudness, trim
from pcg.errors import InputError, PCGError
from pcg.files import replacing, write_json
from pcg.training.data.sentences import SentencePool, build_pool

SAMPLE_RATE = 16_000
SHARD_SIZE = 250
AVERAGE_SECONDS = 2.95
MIN_SECONDS, MAX_SECONDS = 1.2, 8.0
SILENCE_SECONDS = 0.1
FADE_SECONDS = 0.02
NO_FLITE = "The program flite is not installed; on Debian: apt-get install flite wordnet-base wamerican."
HELD_OUT = ("held_out_sentences", "held_out_words")


@dataclass(frozen=True)
class CorpusEntry:
    """One spoken sentence: `start` and `length` count samples inside its shard."""

    text: str
    start: int
    length: int


@dataclass(frozen=True)
class CorpusPlan:
    """How many hours each voice speaks. A voice is a name that flite knows."""

    hours: dict[str, float]
    held_out_each: int
    seed: int


def make_corpus(directory: Path, prose: Path, plan: CorpusPlan, processes: int) -> float:
    """Speak the corpus into `directory`; return the hours that are there. Shards that exist are kept."""
    _check_voices(plan.hours)
    pool = build_pool(prose, plan.seed)
    jobs = list(_jobs(directory, pool, plan))
    missing = sorted((j for j in jobs if not j.path.with_suffix(".json").exists()), key=lambda j: (j.path.stem, j.voice))
    with multiprocessing.Pool(processes) as workers:
        for done, job in enumerate(workers.imap_unordered(_speak_shard, missing), start=1):
            print(f"corpus {done}/{len(missing)} {job.path.parent.name}/{job.path.stem}", flush=True)
    return sum(u.length for job in jobs for u in read_index(job.path)) / SAMPLE_RATE / 3600


def read_index(shard: Path) -> list[CorpusEntry]:
    return [CorpusEntry(**row) for row in json.loads(shard.with_suffix(".json").read_text(encoding="utf-8"))]


def read_shard(shard: Path) -> Iterator[tuple[CorpusEntry, np.ndarray]]:
    """Yield each utterance with its samples, float32 `[length]` within -1..1."""
    samples = np.load(shard.with_suffix(".npy"), mmap_mode="r", allow_pickle=False)
    for utterance in read_index(shard):
        chunk = samples[utterance.start : utterance.start + utterance.length]
        yield utterance, chunk.astype(np.float32) / 32768.0


def usable(samples: np.ndarray) -> bool:
    """Whether an utterance is neither too short nor too long to be trained on."""
    return MIN_SECONDS * SAMPLE_RATE <= len(samples) <= MAX_SECONDS * SAMPLE_RATE


def write_shard(shard: Path, spoken: Sequence[tuple[str, np.ndarray]]) -> None:
    """Write texts and their samples (float `[length]`, cut to -1..1) as `read_shard` reads them; the index comes last, so a
    shard that has one is whole."""
    index, start = [], 0
    for text, samples in spoken:
        index.append(asdict(CorpusEntry(text, start, len(samples))))
        start += len(samples)
    joined = np.concatenate([samples.clip(-1, 1) for _, samples in spoken] or [np.zeros(0, np.float32)])
    with replacing(shard) as temporary:
        np.save(temporary, (joined * 32767).astype(np.int16), allow_pickle=False)
    write_json(shard.with_suffix(".json"), index)


def shards(directory: Path, split: str = "train") -> list[Path]:
    """Shards of `split` ("train", "held_out_sentences", "held_out_words"), in an order shared by all voices."""
    return sorted((directory / split).glob("*/*.npy"), key=lambda p: (p.stem, p.parent.name))


def held_out(directory: Path, split: str, count: int) -> list[tuple[str, np.ndarray]]:
    """Texts and samples of `count` utterances of a held-out split, of all voices alike; InputError where there is no corpus."""
    found = [(u.text, samples) for shard in shards(directory, split) for u, samples in read_shard(shard)]
    if not found:
        raise InputError("work", str(directory.parent), "a folder that `pcg train corpus` has filled")
    return [found[i * len(found) // count] for i in range(min(count, len(found)))]


def speak(voice: str, text: str) -> np.ndarray:
    """Let flite's `voice` say `text`: float32 `[N]` at 16 kHz, loudness-normalised, with `SILENCE_SECONDS` of faded silence at
    both ends."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        subprocess.run(["flite", "-voice", voice, "-t", text, file.name], check=True, capture_output=True)
        samples, rate = soundfile.read(file.name, dtype="float32")
    if rate != SAMPLE_RATE:
        raise PCGError(f"flite voice {voice} speaks at {rate} Hz, but the corpus is {SAMPLE_RATE} Hz.")
    return np.ascontiguousarray(fade_ends(normalise_loudness(between_silences(samples)[0]), SAMPLE_RATE, FADE_SECONDS))


def recorded(voice: str, text: str, rate: int) -> np.ndarray:
    """`speak`, where flite is installed, the voice is one of flite's and `rate` its sample rate; a PCGError where not."""
    _check_voices([voice])
    if rate != SAMPLE_RATE:
        raise InputError("sample rate", rate, f"{SAMPLE_RATE}, as flite has")
    return speak(voice, text)


def known_voices() -> list[str]:
    """flite's own; none where it is not installed."""
    if shutil.which("flite") is None:
        return []
    return subprocess.run(["flite", "-lv"], check=True, capture_output=True, text=True).stdout.partition(":")[2].split()


def _check_voices(voices: Iterable[str]) -> None:
    known = known_voices()
    if not known:
        raise PCGError(NO_FLITE)
    for voice in voices:
        if voice not in known:
            raise InputError("voice", voice, "one of flite's, " + ", ".join(known))


def between_silences(samples: np.ndarray) -> tuple[np.ndarray, int]:
    """What sounds in `samples [N]` with `SILENCE_SECONDS` at both ends, and at which sample of them that begins (below 0 where
    silence had to be added)."""
    margin = np.zeros(int(SILENCE_SECONDS * SAMPLE_RATE), np.float32)  # some voices begin and end closer to the words
    padded = np.concatenate([margin, samples, margin])
    spoken = trim(padded, SAMPLE_RATE, SILENCE_SECONDS)
    # `trim` returns a view, so the distance in memory is the silence that it cut.
    return spoken, (spoken.ctypes.data - padded.ctypes.data) // padded.itemsize - len(margin)


@dataclass(frozen=True)
class _Job:
    path: Path
    voice: str
    sentences: list[str]


def _jobs(directory: Path, pool: SentencePool, plan: CorpusPlan) -> Iterator[_Job]:
    average_hours = SHARD_SIZE * AVERAGE_SECONDS / 3600
    order = random.Random(plan.seed)
    cursor = 0
    for voice, hours in plan.hours.items():
        for index in range(round(hours / average_hours)):
            picked = [pool.train[(cursor + i) % len(pool.train)] for i in range(SHARD_SIZE)]
            cursor += SHARD_SIZE
            yield _Job(directory / "train" / voice / f"{index:05d}.npy", voice, picked)
        for split, sentences in zip(HELD_OUT, (pool.held_out_sentences, pool.held_out_word_sentences), strict=True):
            picked = order.sample(sentences, min(plan.held_out_each, len(sentences)))
            yield _Job(directory / split / voice / "00000.npy", voice, picked)


def _speak_shard(job: _Job) -> _Job:
    spoken = ((text, speak(job.voice, text)) for text in job.sentences)
    write_shard(job.path, [(text, samples) for text, samples in spoken if usable(samples)])
    return job
