"""Critics of sound: small convolutional discriminators over complex spectrograms and over the periods of the wave."""

from itertools import pairwise

import torch
from torch import Tensor, nn

Judgement = list[tuple[Tensor, list[Tensor]]]


class SpectrogramDiscriminator(nn.Module):
    """Judges a wave by one complex STFT (in the manner of EnCodec's MS-STFT discriminator, arXiv 2210.13438)."""

    def __init__(self, window: int, width: int = 16) -> None:
        super().__init__()
        self.window = window
        norm = nn.utils.parametrizations.weight_norm
        widths = [2, width, width, 2 * width, 2 * width]
        self.layers = nn.ModuleList(norm(nn.Conv2d(a, b, (3, 9), stride=(1, 2), padding=(1, 4))) for a, b in pairwise(widths))
        self.out = norm(nn.Conv2d(widths[-1], 1, 3, padding=1))

    def forward(self, wave: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Waves `[B, N]` -> scores `[B, 1, frames, bands]` and the features of each layer."""
        window = torch.hann_window(self.window, device=wave.device)
        spectrum = torch.stft(wave, self.window, self.window // 4, window=window, normalized=True, return_complex=True)
        x = torch.view_as_real(spectrum).permute(0, 3, 2, 1)
        features = []
        for layer in self.layers:
            x = nn.functional.leaky_relu(layer(x), 0.1)
            features.append(x)
        return self.out(x), features


class PeriodDiscriminator(nn.Module):
    """Judges a wave folded into columns of one period (in the manner of HiFi-GAN, arXiv 2010.05646)."""

    def __init__(self, period: int, widths: tuple[int, ...] = (1, 16, 64, 128, 256)) -> None:
        super().__init__()
        self.period = period
        norm = nn.utils.parametrizations.weight_norm
        self.layers = nn.ModuleList(norm(nn.Conv2d(a, b, (5, 1), (3, 1), padding=(2, 0))) for a, b in pairwise(widths))
        self.out = norm(nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, wave: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Waves `[B, N]` -> scores `[B, 1, rows, period]` and the features of each layer."""
        padded = nn.functional.pad(wave, (0, -wave.shape[1] % self.period))
        x = padded.unflatten(1, (-1, self.period))[:, None]
        features = []
        for layer in self.layers:
            x = nn.functional.leaky_relu(layer(x), 0.1)
            features.append(x)
        return self.out(x), features


class Discriminators(nn.Module):
    """Both kinds, at several resolutions and periods."""

    def __init__(self, windows: tuple[int, ...] = (1024, 512, 256), periods: tuple[int, ...] = (2, 3, 5, 7, 11)) -> None:
        super().__init__()
        self.critics = nn.ModuleList(
            [*(SpectrogramDiscriminator(w) for w in windows), *(PeriodDiscriminator(p) for p in periods)]
        )

    def forward(self, wave: Tensor) -> Judgement:
        return [critic(wave) for critic in self.critics]


def discriminator_loss(real: Judgement, made: Judgement) -> Tensor:
    """Hinge loss, averaged over the critics."""
    losses = [(1 - r).relu().mean() + (1 + m).relu().mean() for (r, _), (m, _) in zip(real, made, strict=True)]
    return torch.stack(losses).mean()


def adversarial_loss(made: Judgement) -> Tensor:
    return torch.stack([(1 - score).relu().mean() for score, _ in made]).mean()


def feature_matching(made: Judgement, real: Judgement) -> Tensor:
    """L1 between the critics' features, relative to the real features' size."""
    losses = [
        (m - r.detach()).abs().mean() / r.detach().abs().mean().clamp(min=1e-4)
        for (_, made_features), (_, real_features) in zip(made, real, strict=True)
        for m, r in zip(made_features, real_features, strict=True)
    ]
    return torch.stack(losses).mean()
