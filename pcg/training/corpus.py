"""Stage `corpus`: the teachers speak the sentences; 16 kHz, one loudness, in shards `SPLIT/VOICE/00000`."""

import itertools
import multiprocessing
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pcg.errors import InputError
from pcg.training.sentences import build_pool
from pcg.training.shards import is_whole, read_corpus, spoken_utterance, write_shard
from pcg.training.teachers import SAMPLE_RATE, SPEAKERS, Speaker, speak

SHARD_SIZE = 250
AVERAGE_SECONDS = 2.95
MIN_SECONDS, MAX_SECONDS = 0.25, 12.0
HELD_OUT = ("held_out_sentences", "held_out_words")


def corpus_hours(corpus: Path) -> dict[str, float]:
    """Return the hours of training speech by voice."""
    hours: dict[str, float] = {}
    for utterance in read_corpus(corpus):
        hours[utterance.voice] = hours.get(utterance.voice, 0.0) + len(utterance.values) / SAMPLE_RATE / 3600
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

    Args:
        held_out_each: held-out sentences of each kind that each voice says.
    """
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
