"""Training speech of the recogniser: the corpus, espeak-ng's voices, round trips through the codec; disturbed batches of it."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import torch
from scipy.fft import next_fast_len
from torch import Generator, Tensor
from torch.nn import functional as F

from pcg.codec.embedded import EmbeddedCodec
from pcg.metrics.intelligibility import spoken_words
from pcg.training.corpus import SHARD_SIZE, SpeakingJob, read_index, read_shard, shards, speak_shards, write_shard
from pcg.training.loop import generator
from pcg.training.teachers import SAMPLE_RATE, Speaker
from pcg.training.tokens import Epochs

SHORTEST = SAMPLE_RATE // 4
"""Samples of a sentence that is learned from."""
SPEED, REVERBERATION = (0.94, 1.06), (0.1, 0.3)
JOINED = 0.12
"""Share of the rows that are two sentences."""


@dataclass(frozen=True)
class Disturbances:
    """How often each happens to a row; snr: decibels of noise."""

    channel: float = 0.15
    room: float = 0.08
    noise: float = 0.25
    babble: float = 0.03
    few_bits: float = 0.08
    snr: tuple[float, float] = (12.0, 40.0)


@dataclass(frozen=True)
class SpokenSentence:
    """One sentence: its `text` in the recogniser's characters, and where its samples lie in a shard's array."""

    text: str
    voice: str
    shard: np.ndarray
    start: int
    length: int

    def samples(self) -> Tensor:
        """Return float32 `[length]` within -1..1."""
        return torch.from_numpy(self.shard[self.start : self.start + self.length].astype(np.float32) / 32768.0)


@dataclass(frozen=True)
class SpeechBatch:
    """samples `[B, N]`, zero behind `lengths [B]`, and the text of each row."""

    samples: Tensor
    lengths: Tensor
    texts: list[str]


def read_spoken(directories: Sequence[Path], split: str) -> list[SpokenSentence]:
    """Read every sentence of `split` in corpora of the corpus's format that is written in letters alone."""
    sentences = []
    for path in (p for directory in directories for p in shards(directory, split)):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        spoken = [u for u in read_index(path) if u.length >= SHORTEST and not re.search(r"[^A-Za-z ',.?!;:-]", u.text)]
        sentences += [SpokenSentence(spoken_words(u.text), path.parent.name, array, u.start, u.length) for u in spoken]
    return sentences


class SpeechBatches(Epochs[tuple[SpokenSentence, ...]]):
    """Batches of about `seconds` of padded speech. Some rows are two sentences in one: pauses and longer speech are known.

    The first `easy` batches are the shortest sentences (as in SortaGrad, Amodei et al., arXiv:1512.02595): CTC leaves its
    all-blank plateau sooner on them.
    """

    window = 2048

    def __init__(
        self, sentences: Sequence[SpokenSentence], seconds: float, seed: int, ways: Disturbances, easy: int = 150
    ) -> None:
        self._sentences, self._ways, self.easy = sentences, ways, easy
        super().__init__(seconds * SAMPLE_RATE, seed)

    def batch(self, index: int) -> SpeechBatch:
        groups, rng = self.groups_of_batch(index), generator(self._seed, index)
        slow, fast = SPEED
        rows = []
        for group in groups:
            parts: list[Tensor] = []
            for sentence in group:
                pause, speed = torch.rand(2, generator=rng).tolist()
                if parts:
                    parts.append(torch.zeros(int(0.5 * pause * SAMPLE_RATE)))
                # The pitch moves along, which makes other speakers of a few.
                samples = sentence.samples()
                count = max(1, round(len(samples) / (slow + (fast - slow) * speed)))
                parts.append(F.interpolate(samples[None, None], size=count, mode="linear", align_corners=False)[0, 0])
            rows.append(torch.cat(parts))
        samples, lengths = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])
        texts = [" ".join(sentence.text for sentence in group) for group in groups]
        return SpeechBatch(disturb(samples, lengths, self._ways, rng), lengths, texts)

    def groups(self, rng: random.Random) -> list[tuple[SpokenSentence, ...]]:
        order = list(self._sentences)
        rng.shuffle(order)
        pairs = int(len(order) * JOINED / (1 + JOINED))
        groups: list[tuple[SpokenSentence, ...]] = [(order[2 * i], order[2 * i + 1]) for i in range(pairs)]
        groups += [(sentence,) for sentence in order[2 * pairs :]]
        rng.shuffle(groups)
        return groups

    def length(self, group: tuple[SpokenSentence, ...]) -> int:
        return sum(sentence.length for sentence in group)


def disturb(samples: Tensor, lengths: Tensor, ways: Disturbances, rng: Generator) -> Tensor:
    """Disturb `samples [B, N]`, zero behind their `lengths [B]`; the result is zero there too."""
    filtered = _chosen(len(samples), max(ways.channel, ways.room), rng)
    if filtered.any():
        samples = samples.clone()
        samples[filtered] = _filter(samples[filtered], ways, rng)
    noisy = _chosen(len(samples), ways.noise, rng)
    if noisy.any():
        samples = samples.clone()
        samples[noisy] = _add_noise(samples, noisy, ways, rng)
    coarse = _chosen(len(samples), ways.few_bits, rng)
    if coarse.any():  # the mu-law with 4 to 8 bits
        chosen = samples[coarse]
        levels = 2.0 ** _between(len(chosen), (3.0, 7.0), rng)
        peak = chosen.abs().amax(1, keepdim=True).clamp_min(1e-6)
        squeezed = torch.log1p(255 * (chosen / peak).abs()) / log(256)
        samples[coarse] = chosen.sign() * torch.expm1((squeezed * levels).round() / levels * log(256)) / 255 * peak
    gain = 10.0 ** -(1.2 * torch.rand(len(samples), 1, generator=rng))
    return samples * gain * (torch.arange(samples.shape[1]) < lengths[:, None])


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


def _filter(samples: Tensor, ways: Disturbances, rng: Generator) -> Tensor:
    """Filter each row by a channel, and some by a room, too."""
    rows, count = samples.shape
    size = next_fast_len(count + SAMPLE_RATE // 4, real=True)
    spectrum = torch.fft.rfft(samples, size)
    # A channel is a smooth curve of some decibels; a third of the rows lack low tones, a third high ones.
    bins = spectrum.shape[1]
    curve = F.interpolate(5.0 * torch.randn(rows, 1, 8, generator=rng), size=bins, mode="linear", align_corners=True)[:, 0]
    hertz = torch.linspace(0, SAMPLE_RATE / 2, bins)
    draw = torch.rand(rows, 4, generator=rng)
    high = torch.where(draw[:, 0] < 0.33, 2800 + 4000 * draw[:, 1], 1e6)
    low = torch.where(draw[:, 2] < 0.33, 60 + 300 * draw[:, 3], 1e-3)
    passed = torch.sigmoid((high[:, None] - hertz) / 150) * torch.sigmoid((hertz - low[:, None]) / 30)
    spectrum *= 10.0 ** (curve / 20) * passed
    # A room is the direct sound, then noise that decays by 60 dB in the reverberation time.
    roomy = _chosen(rows, ways.room / max(ways.channel, ways.room), rng)
    if roomy.any():
        rooms = int(roomy.sum())
        seconds = torch.arange(SAMPLE_RATE // 4) / SAMPLE_RATE
        decay = _between(rooms, REVERBERATION, rng)
        response = torch.randn(rooms, len(seconds), generator=rng) * torch.exp(-6.9 * seconds / decay)
        response *= _between(rooms, (0.1, 0.8), rng) / response.square().sum(1, keepdim=True).sqrt()
        response[:, 0] = 1.0
        spectrum[roomy] *= torch.fft.rfft(response, size)
    return torch.fft.irfft(spectrum, size)[:, :count]


def _add_noise(samples: Tensor, noisy: Tensor, ways: Disturbances, rng: Generator) -> Tensor:
    clean = samples[noisy]
    rows, count = clean.shape
    # Noise of a slope: few points decide its colour, and one long draw, shifted for each row, serves all rows.
    size = next_fast_len(count, real=True)
    slope = _between(rows, (0.0, 1.0), rng)
    bins = torch.arange(1, size // 2 + 2)
    white = torch.fft.rfft(torch.randn(size, generator=rng))
    turn = torch.exp(2j * torch.pi * torch.rand(rows, 1, generator=rng) * bins)
    noise = torch.fft.irfft(white[: len(bins)] * bins**-slope * turn, size)[:, :count]
    other = samples.roll(1, 0)[noisy].flip(1)
    noise = torch.where(torch.rand(rows, 1, generator=rng) < ways.babble / ways.noise, other, noise)
    loudness = clean.square().mean(1, keepdim=True) / noise.square().mean(1, keepdim=True).clamp_min(1e-9)
    return clean + noise * (loudness * 10.0 ** -(_between(rows, ways.snr, rng) / 10)).sqrt()


def _between(rows: int, ends: tuple[float, float], rng: Generator) -> Tensor:
    return ends[0] + (ends[1] - ends[0]) * torch.rand(rows, 1, generator=rng)


def _chosen(rows: int, share: float, rng: Generator) -> Tensor:
    return torch.rand(rows, generator=rng) < share


HELD_OUT_VOICES = "held_out_voices"
ESPEAK_SENTENCES = 10_000
HELD_OUT_EACH = 100
CODEC_SHARE = 0.06


def make_voices(directory: Path, corpus: Path, seed: int, processes: int) -> None:
    """Let espeak-ng speak sentences of the corpus, and its held-out variants held-out sentences; shards that exist are kept."""
    jobs = []
    for split, source, teacher, count in (
        ("train", "train", "espeak", ESPEAK_SENTENCES),
        (HELD_OUT_VOICES, "held_out_sentences", "espeak-held-out", HELD_OUT_EACH),
    ):
        texts = [u.text for shard in shards(corpus, source) for u in read_index(shard)]
        sentences = random.Random(seed).sample(texts, min(count, len(texts)))
        for index in range(0, len(sentences), SHARD_SIZE):
            path = directory / split / "espeak" / f"{index // SHARD_SIZE:05d}.npy"
            jobs.append(SpeakingJob(path, Speaker(teacher), sentences[index : index + SHARD_SIZE], seed + index))
    speak_shards(jobs, processes)


@torch.inference_mode()
def make_round_trips(directory: Path, corpus: Path, codec: EmbeddedCodec, seed: int, split: str = "train") -> None:
    """Send a share of every shard of `split` through `codec` and back: most speech that is judged comes out of it."""
    for shard in shards(corpus, split):
        path = directory / split / f"codec_{shard.parent.name}" / shard.name
        if path.with_suffix(".json").exists():
            continue
        rng = random.Random(f"{seed} {shard.parent.name} {shard.stem}")
        share = CODEC_SHARE if split == "train" else 0.25
        chosen = [(u.text, samples) for u, samples in read_shard(shard) if rng.random() < share]
        trips = [(text, codec.decode(codec.encode(torch.from_numpy(samples))).numpy()) for text, samples in chosen]
        write_shard(path, trips)
