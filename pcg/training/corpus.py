"""Stage `corpus`: the teachers speak the sentences; 16 kHz, one loudness, in shards.

A shard is `VOICE/00000.npy` (int16 samples, back to back) beside `VOICE/00000.json` (text, start and length of each utterance).
Which sentence goes to which shard depends on the seed alone, so a killed run resumes at the first missing shard.
"""

import itertools
import json
import multiprocessing
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pcg.errors import InputError
from pcg.files import replacing, write_json
from pcg.training.sentences import build_pool
from pcg.training.teachers import SAMPLE_RATE, SPEAKERS, Speaker, speak

SHARD_SIZE = 250
AVERAGE_SECONDS = 2.95
MIN_SECONDS, MAX_SECONDS = 0.25, 12.0
HELD_OUT = ("held_out_sentences", "held_out_words")


@dataclass(frozen=True)
class CorpusEntry:
    """One spoken sentence: `start` and `length` count samples inside its shard."""

    text: str
    start: int
    length: int


def corpus_hours(directory: Path, voice: str = "*") -> float:
    """Return the hours of training speech of a voice, or of all."""
    paths = (directory / "train").glob(f"{voice}/*.npy")
    return sum(u.length for path in paths for u in read_index(path)) / SAMPLE_RATE / 3600


def read_index(shard: Path) -> list[CorpusEntry]:
    return [CorpusEntry(**row) for row in json.loads(shard.with_suffix(".json").read_text(encoding="utf-8"))]


def read_shard(shard: Path) -> Iterator[tuple[CorpusEntry, np.ndarray]]:
    """Yield each utterance with its samples, float32 `[length]` within -1..1."""
    samples = np.load(shard.with_suffix(".npy"), mmap_mode="r", allow_pickle=False)
    for utterance in read_index(shard):
        chunk = samples[utterance.start : utterance.start + utterance.length]
        yield utterance, chunk.astype(np.float32) / 32768.0


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


def recorded(voice: str, text: str, rate: int) -> np.ndarray:
    """Let the teacher of `voice` say `text`, float32 `[N]`; raise InputError for another voice or rate."""
    if voice not in SPEAKERS:
        raise InputError("voice", voice, "one of " + ", ".join(SPEAKERS))
    if rate != SAMPLE_RATE:
        raise InputError("sample rate", rate, f"{SAMPLE_RATE}, as the corpus has")
    return speak(SPEAKERS[voice], text, 0)


@dataclass(frozen=True)
class SpeakingJob:
    """A shard: `sentences`, spoken into `path`. varied: pitch and pace are drawn for each of them."""

    path: Path
    speaker: Speaker
    sentences: Sequence[str]
    seed: int
    varied: bool = False


def speak_shards(jobs: Sequence[SpeakingJob], processes: int) -> None:
    """Speak those shards that do not exist yet."""
    missing = sorted((j for j in jobs if not j.path.with_suffix(".json").exists()), key=lambda j: (j.path.stem, str(j.path)))
    with multiprocessing.Pool(processes) as workers:
        for done, job in enumerate(workers.imap_unordered(_speak_shard, missing), start=1):
            print(f"corpus {done}/{len(missing)} {job.path.parent.name}/{job.path.stem}", flush=True)


def make_corpus(
    directory: Path, prose: Path, speakers: Mapping[str, Speaker], held_out_each: int, seed: int, processes: int
) -> float:
    """Speak the corpus into `directory`, and return its hours. Shards that exist are kept.

    Args:
        held_out_each: held-out sentences of each kind that each voice says.
    """
    pool, order, jobs = build_pool(prose, seed), random.Random(seed), []
    sentences = itertools.cycle(pool.train)
    for number, (voice, speaker) in enumerate(speakers.items()):
        for index in range(max(1, round(speaker.hours * 3600 / AVERAGE_SECONDS / SHARD_SIZE))):
            picked = list(itertools.islice(sentences, SHARD_SIZE))
            own_seed = seed * 1_000_003 + number * 10_007 + index
            jobs.append(SpeakingJob(directory / "train" / voice / f"{index:05d}.npy", speaker, picked, own_seed, True))
        for split, texts in zip(HELD_OUT, (pool.held_out_sentences, pool.held_out_word_sentences), strict=True):
            picked = order.sample(texts, min(held_out_each, len(texts)))
            jobs.append(SpeakingJob(directory / split / voice / "00000.npy", speaker, picked, seed))
    speak_shards(jobs, processes)
    return corpus_hours(directory)


def _speak_shard(job: SpeakingJob) -> SpeakingJob:
    """Speak a shard; utterances that are too short or too long to be trained on are left out."""
    spoken = [(text, speak(job.speaker, text, job.seed * 1000 + i, job.varied)) for i, text in enumerate(job.sentences)]
    write_shard(job.path, [(t, x) for t, x in spoken if MIN_SECONDS <= len(x) / SAMPLE_RATE <= MAX_SECONDS])
    return job
