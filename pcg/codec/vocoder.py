"""A harmonic-plus-noise vocoder: pulses at the pitch and noise, each through a filter of its own, by overlapping spectra.

Spectral losses hardly teach a network phase, and incoherent phase is what a listener hears first in a small codec. Here phase
is not learned at all: the pulses carry it, and the harmonic filter has the minimum phase of its magnitude (as in the neural
homomorphic vocoder, Liu et al., Interspeech 2020).
"""

import torch
from torch import Tensor, nn

QUEFRENCIES = 100
"""Cepstral coefficients of a filter: its envelope, without the fine structure that the pulses have already."""


def phases(pitch: Tensor, frame: int, sample_rate: int) -> Tensor:
    """Cycles since the start, before each sample and after the last: `[B, F * frame + 1]`, float64. `pitch [B, F]` is in Hz."""
    rate = pitch.double().repeat_interleave(frame, dim=1) / sample_rate
    return nn.functional.pad(rate.cumsum(1), (1, 0))


def pulses(cycles: Tensor, pitch: Tensor, frame: int, sample_rate: int) -> Tensor:
    """A band-limited pulse train of unit power, `[B, F * frame]`: a pulse where `cycles [B, F * frame]` are whole, and as many
    harmonics as the `pitch [B, F]` in Hz has room for."""
    harmonics = (0.5 * sample_rate / pitch.double()).floor().repeat_interleave(frame, dim=1)
    half = torch.pi * (cycles % 1.0)
    # The sum of cos(2 pi k x) for k = 1..K in closed form; at the pulse itself the quotient is 0 / 0.
    bottom = half.sin()
    near = bottom.abs() < 1e-6
    kernel = ((2 * harmonics + 1) * half).sin() / bottom.masked_fill(near, 1.0)
    train = (kernel.where(~near, 2 * harmonics + 1) - 1) / 2
    return (train / (harmonics / 2).sqrt()).float()


def minimum_phase(log_magnitude: Tensor) -> Tensor:
    """The complex filter of minimum phase with the smoothed `log_magnitude [..., bins]`."""
    bins = log_magnitude.shape[-1]
    cepstrum = torch.fft.irfft(log_magnitude, n=2 * (bins - 1))
    lifter = torch.zeros_like(cepstrum[0, 0])
    lifter[0], lifter[1:QUEFRENCIES] = 1.0, 2.0
    return torch.fft.rfft(cepstrum * lifter).exp()


def short_spectra(wave: Tensor, window: int, frame: int) -> Tensor:
    """Hann-windowed spectra `[B, N / frame, window / 2 + 1]` of `wave [B, N]`, centred on its frames."""
    pad = (window - frame) // 2
    framed = nn.functional.pad(wave, (pad, pad)).unfold(1, window, frame)
    return torch.fft.rfft(framed * torch.hann_window(window, device=wave.device))


def overlap_add(frames: Tensor, hop: int) -> Tensor:
    """Windowed overlap-add of `[B, F, window]` with "same" padding: `[B, F * hop]`."""
    _, count, window = frames.shape
    hann = torch.hann_window(window, device=frames.device)
    size = (1, (count - 1) * hop + window)
    fold = {"output_size": size, "kernel_size": (1, window), "stride": (1, hop)}
    wave = nn.functional.fold((frames * hann).transpose(1, 2), **fold)[:, 0, 0]
    envelope = nn.functional.fold(hann.square().expand(1, count, -1).transpose(1, 2), **fold)[:, 0, 0]
    pad = (window - hop) // 2
    return (wave / envelope.clamp(min=1e-6))[:, pad : size[1] - pad]


def vocode(harmonic: Tensor, noisy: Tensor, train: Tensor, noise: Tensor, frame: int) -> Tensor:
    """Waves `[B, F * frame]` from log-magnitudes `harmonic` and `noisy [B, F, bins]`, pulses and noise `[B, F * frame]`."""
    window = 2 * (harmonic.shape[-1] - 1)
    spectra = minimum_phase(harmonic) * short_spectra(train, window, frame)
    spectra = spectra + noisy.exp() * short_spectra(noise, window, frame)
    return overlap_add(torch.fft.irfft(spectra, n=window), frame)
