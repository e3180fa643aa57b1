"""Batches of spoken sentences for the recogniser: alike in length, disturbed, and the same in every run with the same seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

from pcg.metrics.intelligibility import spoken_words
from pcg.training.data.augment import Disturbances, change_speed, disturb
from pcg.training.data.corpus import SAMPLE_RATE, read_index, shards
from pcg.training.loop import generator


@dataclass(frozen=True)
class Hearing:
    """One sentence: its `text` in the recogniser's characters, and where its samples lie in a shard's array."""

    text: str
    voice: str
    shard: np.ndarray
    start: int
    length: int

    def samples(self) -> Tensor:
        """float32 `[length]` within -1..1."""
        return torch.from_numpy(self.shard[self.start : self.start + self.length].astype(np.float32) / 32768.0)


@dataclass(frozen=True)
class HeardBatch:
    """samples `[B, N]`, zero behind `lengths [B]`, and what is said in each row."""

    samples: Tensor
    lengths: Tensor
    texts: list[str]


def read_hearings(directories: Sequence[Path], split: str) -> list[Hearing]:
    """Every sentence of `split` in corpora of the corpus's format."""
    hearings = []
    for path in (p for directory in directories for p in shards(directory, split)):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        hearings += [Hearing(spoken_words(u.text), path.parent.name, array, u.start, u.length) for u in read_index(path)]
    return hearings


def collate(samples: Sequence[Tensor], texts: Sequence[str]) -> HeardBatch:
    padded = torch.nn.utils.rnn.pad_sequence(list(samples), batch_first=True)
    return HeardBatch(padded, torch.tensor([len(s) for s in samples]), list(texts))


def in_order(hearings: Sequence[Hearing], seconds: float) -> list[HeardBatch]:
    """Undisturbed batches of about `seconds` of padded speech, by length: for checks."""
    order = sorted(range(len(hearings)), key=lambda i: hearings[i].length)
    groups = _pack([(i,) for i in order], lambda item: hearings[item[0]].length, seconds)
    return [collate([hearings[i].samples() for (i,) in group], [hearings[i].text for (i,) in group]) for group in groups]


class HearingBatches:
    """Batches of about `seconds` of padded speech, shuffled, where a share of the rows are two sentences in one, so that
    pauses and longer speech are known. The first `easy` batches are the shortest sentences (as in SortaGrad, Amodei et al.,
    arXiv:1512.02595): CTC leaves its all-blank plateau sooner on them."""

    def __init__(
        self,
        hearings: Sequence[Hearing],
        seconds: float,
        seed: int,
        ways: Disturbances,
        joined: float = 0.12,
        easy: int = 150,
    ) -> None:
        self._hearings, self._seconds, self._seed, self._ways = hearings, seconds, seed, ways
        self._joined, self._easy = joined, easy
        self._plan_cached = lru_cache(maxsize=2)(self._plan)
        self.per_epoch = len(self._plan(0))

    def batch(self, index: int) -> HeardBatch:
        epoch, place = divmod(index, self.per_epoch)
        plan = self._plan_cached(epoch)
        items, rng = plan[place % len(plan)], generator(self._seed, index)
        batch = collate([self._speak(item, rng) for item in items], [self._text(item) for item in items])
        return HeardBatch(disturb(batch.samples, batch.lengths, self._ways, rng), batch.lengths, batch.texts)

    def _speak(self, item: tuple[int, ...], rng: Generator) -> Tensor:
        parts: list[Tensor] = []
        for i in item:
            pause, speed = torch.rand(2, generator=rng).tolist()
            slow, fast = self._ways.speed
            if parts:
                parts.append(torch.zeros(int(0.5 * pause * SAMPLE_RATE)))
            parts.append(change_speed(self._hearings[i].samples(), slow + (fast - slow) * speed))
        return torch.cat(parts)

    def _text(self, item: tuple[int, ...]) -> str:
        return " ".join(self._hearings[i].text for i in item)

    def _length(self, item: tuple[int, ...]) -> int:
        return sum(self._hearings[i].length for i in item)

    def _plan(self, epoch: int) -> list[list[tuple[int, ...]]]:
        rng = random.Random(self._seed * 7919 + epoch)
        order = list(range(len(self._hearings)))
        rng.shuffle(order)
        pairs = int(len(order) * self._joined / (1 + self._joined))
        items: list[tuple[int, ...]] = [(order[2 * i], order[2 * i + 1]) for i in range(pairs)]
        items += [(i,) for i in order[2 * pairs :]]
        rng.shuffle(items)
        batches = []
        for first in range(0, len(items), 2048):
            batches += _pack(sorted(items[first : first + 2048], key=self._length), self._length, self._seconds)
        rng.shuffle(batches)
        easy = sorted(batches, key=lambda batch: self._length(batch[-1]))[: self._easy] if epoch == 0 else []
        return [*easy, *batches]


def _pack(items, length, seconds: float) -> list[list[tuple[int, ...]]]:
    """Neighbours of `items`, in batches whose padded length stays within `seconds`."""
    batches: list[list[tuple[int, ...]]] = []
    batch: list[tuple[int, ...]] = []
    for item in items:
        if batch and (len(batch) + 1) * length(item) > seconds * SAMPLE_RATE:
            batches.append(batch)
            batch = []
        batch.append(item)
    return [*batches, batch] if batch else batches
