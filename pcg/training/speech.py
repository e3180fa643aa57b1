"""Training speech of the recogniser: the corpus, espeak-ng's voices, round trips through the codec; disturbed batches of it."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import torch
from scipy.fft import next_fast_len
from torch import Generator, Tensor
from torch.nn import functional as F

from pcg.codec.embedded import EmbeddedCodec
from pcg.metrics.intelligibility import spoken_words
from pcg.training.corpus import SHARD_SIZE, SpeakingJob, speak_shards
from pcg.training.loop import generator
from pcg.training.shards import Utterance, is_whole, read_corpus, read_shard, shards, spoken_utterance, write_shard
from pcg.training.teachers import SAMPLE_RATE, Speaker
from pcg.training.tokens import Epochs

HELD_OUT_VOICES = "held_out_voices"
ESPEAK_SENTENCES, HELD_OUT_EACH = 10_000, 100
CODEC_SHARE, HELD_OUT_CODEC_SHARE = 0.06, 0.25
SHORTEST = SAMPLE_RATE // 4
"""Samples of a sentence that is learned from."""


def make_voices(directory: Path, corpus: Path, seed: int, processes: int) -> None:
    """Let espeak-ng speak sentences of the corpus, and its held-out variants held-out sentences; shards that exist are kept."""
    jobs = []
    for split, source, teacher, count in (
        ("train", "train", "espeak", ESPEAK_SENTENCES),
        (HELD_OUT_VOICES, "held_out_sentences", "espeak-held-out", HELD_OUT_EACH),
    ):
        texts = [utterance.text for utterance in read_corpus(corpus, source)]
        sentences = random.Random(seed).sample(texts, min(count, len(texts)))
        for index in range(0, len(sentences), SHARD_SIZE):
            path = directory / split / "espeak" / f"{index // SHARD_SIZE:05d}.npy"
            jobs.append(SpeakingJob(path, Speaker(teacher), sentences[index : index + SHARD_SIZE], seed + index))
    speak_shards(jobs, processes)


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
    """How often each happens to a row; snr: decibels of noise."""

    channel: float = 0.15
    room: float = 0.08
    noise: float = 0.25
    babble: float = 0.03
    few_bits: float = 0.08
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
    for share, change in ((max(ways.channel, ways.room), _filter), (ways.noise, _add_noise), (ways.few_bits, _quantise)):
        chosen = torch.rand(len(samples), generator=rng) < share
        if chosen.any():
            samples[chosen] = change(samples, chosen, ways, rng)
    gain = 10.0 ** -(1.2 * torch.rand(len(samples), 1, generator=rng))
    return samples * gain * (torch.arange(samples.shape[1]) < lengths[:, None])


def _filter(samples: Tensor, chosen: Tensor, ways: Disturbances, rng: Generator) -> Tensor:
    """Filter each of the chosen rows by a channel, and some by a room, too."""
    rows, count = int(chosen.sum()), samples.shape[1]
    size = next_fast_len(count + SAMPLE_RATE // 4, real=True)
    spectrum = torch.fft.rfft(samples[chosen], size)
    # A channel is a smooth curve of some decibels; a third of the rows lack low tones, a third high ones.
    bins = spectrum.shape[1]
    curve = F.interpolate(5.0 * torch.randn(rows, 1, 8, generator=rng), size=bins, mode="linear", align_corners=True)[:, 0]
    hertz = torch.linspace(0, SAMPLE_RATE / 2, bins)
    draw = torch.rand(rows, 4, generator=rng)
    high = torch.where(draw[:, :1] < 0.33, 2800 + 4000 * draw[:, 1:2], 1e6)
    low = torch.where(draw[:, 2:3] < 0.33, 60 + 300 * draw[:, 3:], 1e-3)
    spectrum *= 10.0 ** (curve / 20) * torch.sigmoid((high - hertz) / 150) * torch.sigmoid((hertz - low) / 30)
    # A room is the direct sound, then noise that decays by 60 dB in the reverberation time.
    roomy = torch.rand(rows, generator=rng) < ways.room / max(ways.channel, ways.room)
    if rooms := int(roomy.sum()):
        seconds = torch.arange(SAMPLE_RATE // 4) / SAMPLE_RATE
        response = torch.randn(rooms, len(seconds), generator=rng) * torch.exp(
            -6.9 * seconds / _between(rooms, (0.1, 0.3), rng)
        )
        response *= _between(rooms, (0.1, 0.8), rng) / response.square().sum(1, keepdim=True).sqrt()
        response[:, 0] = 1.0
        spectrum[roomy] *= torch.fft.rfft(response, size)
    return torch.fft.irfft(spectrum, size)[:, :count]


def _add_noise(samples: Tensor, chosen: Tensor, ways: Disturbances, rng: Generator) -> Tensor:
    """Add noise of a slope to the chosen rows, or another row backwards."""
    clean = samples[chosen]
    rows, count = clean.shape
    # Few points decide the noise's colour, and one long draw, shifted for each row, serves all rows.
    size = next_fast_len(count, real=True)
    bins = torch.arange(1, size // 2 + 2)
    white = torch.fft.rfft(torch.randn(size, generator=rng))
    turn = torch.exp(2j * torch.pi * torch.rand(rows, 1, generator=rng) * bins)
    noise = torch.fft.irfft(white * bins ** -_between(rows, (0.0, 1.0), rng) * turn, size)[:, :count]
    other = samples.roll(1, 0)[chosen].flip(1)
    noise = torch.where(torch.rand(rows, 1, generator=rng) < ways.babble / ways.noise, other, noise)
    loudness = clean.square().mean(1, keepdim=True) / noise.square().mean(1, keepdim=True).clamp_min(1e-9)
    return clean + noise * (loudness * 10.0 ** -(_between(rows, ways.snr, rng) / 10)).sqrt()


def _quantise(samples: Tensor, chosen: Tensor, _ways: Disturbances, rng: Generator) -> Tensor:
    """Round the chosen rows by the mu-law with 4 to 8 bits."""
    clean = samples[chosen]
    levels = 2.0 ** _between(len(clean), (3.0, 7.0), rng)
    peak = clean.abs().amax(1, keepdim=True).clamp_min(1e-6)
    squeezed = torch.log1p(255 * (clean / peak).abs()) / log(256)
    return clean.sign() * torch.expm1((squeezed * levels).round() / levels * log(256)) / 255 * peak


def _between(rows: int, ends: tuple[float, float], rng: Generator) -> Tensor:
    return ends[0] + (ends[1] - ends[0]) * torch.rand(rows, 1, generator=rng)


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
