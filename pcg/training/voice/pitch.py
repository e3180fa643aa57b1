"""The pitch of recorded speech, which teaches the codec's own."""

import torch
from torch import Tensor, nn

LOWEST, HIGHEST = 60.0, 350.0
VOICED = 0.5


def pitch(wave: Tensor, frame: int, sample_rate: int, window: int = 960) -> tuple[Tensor, Tensor]:
    """Waves `[B, N]` -> pitch in Hz and whether there is one, each `[B, N / frame]`.

    The strongest peak of the autocorrelation over that of the window (Boersma 1993), with a small cost on long lags.
    """
    pad = (window - frame) // 2
    framed = nn.functional.pad(wave, (pad, pad)).unfold(1, window, frame)
    hann = torch.hann_window(window, device=wave.device)
    framed = (framed - framed.mean(-1, keepdim=True)) * hann
    correlation = _autocorrelation(framed) / _autocorrelation(hann)
    first, last = int(sample_rate / HIGHEST), int(sample_rate / LOWEST)
    energy = correlation[..., :1]
    strength = correlation[..., : last + 2] / energy.clamp(min=1e-9)
    lags = torch.arange(last + 2, device=wave.device)
    cost = 0.02 * (lags.clamp(min=1) / first).log2()
    inside = strength[..., first : last + 1]
    peak = (inside >= strength[..., first - 1 : last]) & (inside >= strength[..., first + 1 : last + 2])
    best = (inside - cost[first : last + 1]).masked_fill(~peak, -1.0).argmax(-1) + first
    before, at, after = (strength.gather(-1, (best + d)[..., None])[..., 0] for d in (-1, 0, 1))
    shift = (before - after) / (2 * (before - 2 * at + after)).clamp(max=-1e-6)
    loud = energy[..., 0] > 1e-4 * energy.amax(1)
    return sample_rate / (best + shift.clamp(-0.5, 0.5)), (at > VOICED) & loud & peak.any(-1)


def _autocorrelation(x: Tensor) -> Tensor:
    size = 2 * x.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(x, n=size).abs().square(), n=size)[..., : x.shape[-1] // 2]
