"""Training speech of the recogniser: the corpus, espeak-ng's voices, round trips through the codec; disturbed batches of it."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from scipy.fft import next_fast_len
from torch import Generator, Tensor
from torch.nn import functional as F

from pcg.codec.embedded import EmbeddedCodec
from pcg.metrics.intelligibility import spoken_words
from pcg.training.corpus import SAMPLE_RATE, SHARD_SIZE, Speaker, SpeakingJob, speak_shards
from pcg.training.loop import generator
from pcg.training.shards import Utterance, is_whole, read_corpus, read_shard, shards, spoken_utterance, write_shard
from pcg.training.tokens import Epochs

ESPEAK_SENTENCES = 10_000
CODEC_SHARE, HELD_OUT_CODEC_SHARE = 0.06, 0.25
SHORTEST = SAMPLE_RATE // 4
"""Samples of a sentence that is learned from."""


def make_voices(directory: Path, corpus: Path, seed: int, processes: int) -> None:
    """Let espeak-ng speak sentences of the corpus; shards that exist are kept."""
    texts = [utterance.text for utterance in read_corpus(corpus)]
    sentences = random.Random(seed).sample(texts, min(ESPEAK_SENTENCES, len(texts)))
    parts = [sentences[first : first + SHARD_SIZE] for first in range(0, len(sentences), SHARD_SIZE)]
    folder, speaker = directory / "train" / "espeak", Speaker("espeak")
    speak_shards([SpeakingJob(folder / f"{i:05d}.npy", speaker, part, seed + i) for i, part in enumerate(parts)], processes)


@torch.inference_mode()
def make_round_trips(directory: Path, corpus: Path, codec: EmbeddedCodec, seed: int, split: str = "train") -> None:
    """Send a share of every shard of `split` through `codec` and back: most speech that is judged comes out of it."""
    for shard in shards(corpus, split):
        voice = f"codec_{shard.parent.name}"
        path = directory / split / voice / shard.name
        if not is_whole(path):
            rng = random.Random(f"{seed} {shard.parent.name} {shard.stem}")
            share = CODEC_SHARE if split == "train" else HELD_OUT_CODEC_SHARE
            chosen = [utterance for utterance in read_shard(shard) if rng.random() < share]
            trips = ((u.text, codec.decode(codec.encode(u.samples())).numpy()) for u in chosen)
            write_shard(path, [spoken_utterance(voice, text, samples) for text, samples in trips])


def read_spoken(corpora: Sequence[Path], split: str) -> list[Utterance]:
    """Read every sentence of `split` that is written in letters alone, its text in the recogniser's characters."""
    utterances = [u for corpus in corpora for u in read_corpus(corpus, split) if len(u.values) >= SHORTEST]
    return [replace(u, text=spoken_words(u.text)) for u in utterances if not re.search(r"[^A-Za-z ',.?!;:-]", u.text)]


@dataclass(frozen=True)
class Disturbances:
    """How often a row is filtered by a channel, and how often it has noise, of `snr` decibels."""

    channel: float = 0.15
    noise: float = 0.25
    snr: tuple[float, float] = (12.0, 40.0)


@dataclass(frozen=True)
class SpeechBatch:
    """samples `[B, N]`, zero behind `lengths [B]`, and the text of each row."""

    samples: Tensor
    lengths: Tensor
    texts: list[str]


class SpeechBatches:
    """Batches of about `seconds` of padded speech. Some rows are two sentences in one: pauses and longer speech are known.

    The first `easy` batches are the shortest sentences (as in SortaGrad, Amodei et al., arXiv:1512.02595): CTC leaves its
    all-blank plateau sooner on them.
    """

    SPEED = (0.94, 1.06)
    JOINED = 0.12
    """Share of the rows that are two sentences."""

    def __init__(
        self, sentences: Sequence[Utterance], seconds: float, seed: int, ways: Disturbances | None = None, easy: int = 150
    ) -> None:
        self._sentences, self._seed, self._ways = sentences, seed, ways or Disturbances()
        self._epochs = Epochs(self._groups, self._samples, seconds * SAMPLE_RATE, seed, 2048, easy)
        self.per_epoch = self._epochs.per_epoch

    def batch(self, index: int) -> SpeechBatch:
        groups, rng = self._epochs[index], generator(self._seed, index)
        rows = []
        for group in groups:
            parts: list[Tensor] = []
            for sentence in group:
                pause, speed = torch.rand(2, generator=rng).tolist()
                if parts:
                    parts.append(torch.zeros(int(0.5 * pause * SAMPLE_RATE)))
                # The pitch moves along, which makes other speakers of a few.
                slow, fast = self.SPEED
                count = max(1, round(len(sentence.values) / (slow + (fast - slow) * speed)))
                samples = sentence.samples()[None, None]
                parts.append(F.interpolate(samples, size=count, mode="linear", align_corners=False)[0, 0])
            rows.append(torch.cat(parts))
        samples, lengths = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])
        texts = [" ".join(sentence.text for sentence in group) for group in groups]
        return SpeechBatch(disturb(samples, lengths, self._ways, rng), lengths, texts)

    @staticmethod
    def _samples(group: Sequence[Utterance]) -> int:
        return sum(len(sentence.values) for sentence in group)

    def _groups(self, rng: random.Random) -> list[list[Utterance]]:
        order = rng.sample(self._sentences, len(self._sentences))
        joined = 2 * int(len(order) * self.JOINED / (1 + self.JOINED))
        groups = [order[i : i + 2] for i in range(0, joined, 2)] + [[sentence] for sentence in order[joined:]]
        rng.shuffle(groups)
        return groups


def disturb(samples: Tensor, lengths: Tensor, ways: Disturbances, rng: Generator) -> Tensor:
    """Disturb `samples [B, N]`, zero behind their `lengths [B]`; the result is zero there too."""
    samples = samples.clone()
    for share, change in ((ways.channel, _filter), (ways.noise, partial(_add_noise, ways.snr))):
        chosen = torch.rand(len(samples), generator=rng) < share
        if chosen.any():
            samples[chosen] = change(samples[chosen], rng)
    gain = 10.0 ** -(1.2 * torch.rand(len(samples), 1, generator=rng))
    return samples * gain * (torch.arange(samples.shape[1]) < lengths[:, None])


def _filter(clean: Tensor, rng: Generator) -> Tensor:
    """Filter each row by a channel: a smooth curve of some decibels; a third of the rows lack low tones, a third high ones."""
    rows, count = clean.shape
    size = next_fast_len(count, real=True)
    spectrum = torch.fft.rfft(clean, size)
    bins = spectrum.shape[1]
    curve = F.interpolate(5.0 * torch.randn(rows, 1, 8, generator=rng), size=bins, mode="linear", align_corners=True)[:, 0]
    hertz = torch.linspace(0, SAMPLE_RATE / 2, bins)
    draw = torch.rand(rows, 4, generator=rng)
    high = torch.where(draw[:, :1] < 0.33, 2800 + 4000 * draw[:, 1:2], 1e6)
    low = torch.where(draw[:, 2:3] < 0.33, 60 + 300 * draw[:, 3:], 1e-3)
    spectrum *= 10.0 ** (curve / 20) * torch.sigmoid((high - hertz) / 150) * torch.sigmoid((hertz - low) / 30)
    return torch.fft.irfft(spectrum, size)[:, :count]


def _add_noise(snr: tuple[float, float], clean: Tensor, rng: Generator) -> Tensor:
    """Add noise of a slope to each row. One long draw, shifted for each row, serves all of them."""
    rows, count = clean.shape
    size = next_fast_len(count, real=True)
    bins = torch.arange(1, size // 2 + 2)
    slope, shift, loudness = torch.rand(3, rows, 1, generator=rng)
    white = torch.fft.rfft(torch.randn(size, generator=rng))
    noise = torch.fft.irfft(white * bins**-slope * torch.exp(2j * torch.pi * shift * bins), size)[:, :count]
    ratio = clean.square().mean(1, keepdim=True) / noise.square().mean(1, keepdim=True)
    return clean + noise * (ratio * 10.0 ** (-(snr[0] + (snr[1] - snr[0]) * loudness) / 10)).sqrt()


def mask_features(features: Tensor, counts: Tensor, rng: Generator) -> Tensor:
    """Set two stretches of up to 16 bands and two of up to 16 frames of `features [B, T, F]` to their mean (SpecAugment)."""
    rows, frames, bands = features.shape
    for axis, size, total in ((2, bands, torch.full((rows,), bands)), (1, frames, counts)):
        for _ in range(2):
            width = torch.rand(rows, generator=rng) * torch.minimum(total // 8 + 1, torch.tensor(17))
            start = torch.rand(rows, generator=rng) * (total - width)
            place = torch.arange(size)
            hit = (place >= start[:, None]) & (place < (start + width)[:, None])
            features = features.masked_fill(hit[:, None] if axis == 2 else hit[..., None], 0.0)
    return features
