"""What happens to speech on its way to a recogniser, as cheap operations on a batch of samples at 16 kHz.

Speed and pitch, rooms, microphones and narrow channels, noise and other voices, few bits, gain; and SpecAugment on features
(Park et al., arXiv:1904.08779). Every choice comes from the generator.
"""

from dataclasses import dataclass

import torch
from scipy.fft import next_fast_len
from torch import Generator, Tensor
from torch.nn import functional as F

from pcg.asr.network.features import SAMPLE_RATE


@dataclass(frozen=True)
class Disturbances:
    """How often each happens to a row, and how far it goes."""

    speed: tuple[float, float] = (0.94, 1.06)
    channel: float = 0.15
    room: float = 0.08
    noise: float = 0.25
    babble: float = 0.03
    few_bits: float = 0.08
    snr: tuple[float, float] = (12.0, 40.0)
    reverberation: tuple[float, float] = (0.1, 0.3)


def change_speed(samples: Tensor, factor: float) -> Tensor:
    """Play `samples [N]` `factor` times as fast; the pitch moves along, which makes other speakers of a few."""
    count = max(1, round(len(samples) / factor))
    return F.interpolate(samples[None, None], size=count, mode="linear", align_corners=False)[0, 0]


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
    if coarse.any():
        samples[coarse] = _quantise(samples[coarse], rng)
    gain = 10.0 ** -(1.2 * torch.rand(len(samples), 1, generator=rng))
    return samples * gain * (torch.arange(samples.shape[1]) < lengths[:, None])


def mask_features(features: Tensor, counts: Tensor, rng: Generator) -> Tensor:
    """SpecAugment: two stretches of up to 16 bands and two of up to 16 frames of `features [B, T, F]` are set to their mean."""
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
    rows, count = samples.shape
    size = next_fast_len(count + SAMPLE_RATE // 4, real=True)
    spectrum = torch.fft.rfft(samples, size)
    spectrum *= _channel(rows, spectrum.shape[1], rng)
    roomy = _chosen(rows, ways.room / max(ways.channel, ways.room), rng)
    if roomy.any():
        spectrum[roomy] *= torch.fft.rfft(_room(int(roomy.sum()), ways, rng), size)
    return torch.fft.irfft(spectrum, size)[:, :count]


def _channel(rows: int, bins: int, rng: Generator) -> Tensor:
    """Gains `[rows, bins]`: a smooth curve of some decibels, and for every third row each a low and a high end cut off."""
    curve = F.interpolate(5.0 * torch.randn(rows, 1, 8, generator=rng), size=bins, mode="linear", align_corners=True)[:, 0]
    hertz = torch.linspace(0, SAMPLE_RATE / 2, bins)
    draw = torch.rand(rows, 4, generator=rng)
    high = torch.where(draw[:, 0] < 0.33, 2800 + 4000 * draw[:, 1], 1e6)
    low = torch.where(draw[:, 2] < 0.33, 60 + 300 * draw[:, 3], 1e-3)
    passed = torch.sigmoid((high[:, None] - hertz) / 150) * torch.sigmoid((hertz - low[:, None]) / 30)
    return 10.0 ** (curve / 20) * passed


def _room(rows: int, ways: Disturbances, rng: Generator) -> Tensor:
    """Impulse responses `[rows, 0.25 s]`: the direct sound, then noise that decays by 60 dB in the reverberation time."""
    seconds = torch.arange(SAMPLE_RATE // 4) / SAMPLE_RATE
    decay = _between(rows, ways.reverberation, rng)
    tail = torch.randn(rows, len(seconds), generator=rng) * torch.exp(-6.9 * seconds / decay)
    tail *= _between(rows, (0.1, 0.8), rng) / tail.square().sum(1, keepdim=True).sqrt()
    tail[:, 0] = 1.0
    return tail


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


def _quantise(samples: Tensor, rng: Generator) -> Tensor:
    """mu-law with 4 to 8 bits."""
    levels = 2.0 ** _between(len(samples), (3.0, 7.0), rng)
    peak = samples.abs().amax(1, keepdim=True).clamp_min(1e-6)
    squeezed = torch.log1p(255 * (samples / peak).abs()) / torch.log1p(torch.tensor(255.0))
    rounded = (squeezed * levels).round() / levels
    return samples.sign() * torch.expm1(rounded * torch.log1p(torch.tensor(255.0))) / 255 * peak


def _between(rows: int, ends: tuple[float, float], rng: Generator) -> Tensor:
    return ends[0] + (ends[1] - ends[0]) * torch.rand(rows, 1, generator=rng)


def _chosen(rows: int, share: float, rng: Generator) -> Tensor:
    return torch.rand(rows, generator=rng) < share
