"""Stage `codec`: the tokens (mel loss through FSQ), then, behind a frozen encoder, the vocoder's pitch and filters, by
distances and against critics."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.optim import AdamW

from pcg.codec.embedded import CodecConfig, EmbeddedCodec, hertz, log_mel, phases, pulses
from pcg.training.loop import Steps, generator, make_optimizers, run, update
from pcg.training.shards import read_corpus

LOWEST, HIGHEST = 60.0, 350.0
VOICED = 0.5


def pitch(wave: Tensor, frame: int, sample_rate: int, window: int = 960) -> tuple[Tensor, Tensor]:
    """Return the pitch in Hz of waves `[B, N]`, and whether there is one, each `[B, N / frame]`: the strongest peak of the
    autocorrelation over that of the window (Boersma 1993), with a small cost on long lags."""
    pad = (window - frame) // 2
    framed = nn.functional.pad(wave, (pad, pad)).unfold(1, window, frame)
    hann = torch.hann_window(window, device=wave.device)
    framed = (framed - framed.mean(-1, keepdim=True)) * hann
    spectra = (torch.fft.rfft(x, n=2 * window).abs().square() for x in (framed, hann))
    of_frames, of_window = (torch.fft.irfft(power, n=2 * window)[..., : window // 2] for power in spectra)
    correlation = of_frames / of_window
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


PITCH_WEIGHT = 3.0
RESOLUTIONS = ((512, 128), (1024, 256), (256, 64))
CROPS = {"tokens": (16, 40_960), "sound": (12, 24_320), "critics": (9, 20_480), "held out": (48, 40_960)}
"""Crops in a batch of each stage, and the samples of one."""
HEAD_START = 100
"""Steps that critics learn before the codec learns from them."""
DECEIVED_WEIGHT, APART_WEIGHT = 0.3, 0.6


class Crops:
    """Random crops of utterances of a corpus, as many of each voice, padded with silence where an utterance is shorter."""

    def __init__(self, corpus: Path, split: str, seed: int) -> None:
        voice, self._seed = attrgetter("voice"), seed
        self._voices = [list(spoken) for _, spoken in groupby(sorted(read_corpus(corpus, split), key=voice), voice)]

    def batch(self, index: int, size: int, samples: int) -> Tensor:
        """Crops `[size, samples]`, float32 within -1..1, the same for the same `index`."""
        rng = generator(self._seed, index)
        batch = torch.zeros(size, samples)
        for row, (pick, share) in enumerate(torch.rand(size, 2, generator=rng).tolist()):
            spoken = self._voices[(index * size + row) % len(self._voices)]
            utterance = spoken[int(pick * len(spoken))]
            start = int(share * max(0, len(utterance.values) - samples))
            crop = replace(utterance, values=utterance.values[start : start + samples]).samples()
            batch[row, : len(crop)] = crop
        return batch


def train_tokens(directory: Path, corpus: Path, config: CodecConfig, steps: Steps, seed: int, device: str) -> EmbeddedCodec:
    """Train encoder, FSQ and decoder by the L1 distance of log-mels; return the codec, whose tokens no longer change."""
    torch.manual_seed(seed)
    codec = EmbeddedCodec(config).to(device)
    crops, held_out = Crops(corpus, "train", seed), Crops(corpus, "held_out_sentences", seed)
    optimizers = make_optimizers(codec, lr=1e-3, muon_lr=2e-3)

    def mel_loss(wave: Tensor) -> tuple[Tensor, Tensor]:
        mel = codec.log_mel(wave)
        with torch.autocast(device, torch.bfloat16):
            quantized = codec.quantize(mel)
            predicted = codec.mel_head(codec.features(quantized))
        return (predicted.float() - mel).abs().mean(), quantized

    def step(index: int) -> dict[str, float]:
        loss, _ = mel_loss(crops.batch(index, *CROPS["tokens"]).to(device))
        update(loss, codec, optimizers.values())
        return {"mel": loss.item()}

    @torch.inference_mode()
    def evaluate() -> dict[str, float]:
        loss, quantized = mel_loss(held_out.batch(0, *CROPS["held out"]).to(device))
        return {"mel": loss.item(), "codes_used": float(codec.fsq.codes(quantized).unique().numel())}

    run("codec_tokens", directory, steps, {"codec": codec}, optimizers, step, evaluate)
    return codec


def train_sound(directory: Path, corpus: Path, codec: EmbeddedCodec, steps: Steps, seed: int, device: str) -> None:
    """Train all that is behind the code, with a frozen encoder, by mel and multi-resolution STFT losses."""
    decoder = _behind_the_code(codec)
    torch.manual_seed(seed)
    optimizers = make_optimizers(decoder, lr=1e-3, muon_lr=1.5e-3, weight_decay=0.0)
    crops, evaluate = Crops(corpus, "train", seed + 1), _held_out(codec, corpus, seed, device)

    def step(index: int) -> dict[str, float]:
        wave = crops.batch(index, *CROPS["sound"]).to(device)
        made, off = _round_trip(codec, wave, generator(seed + 2, index))
        spectral = spectral_loss(made, wave)
        update(spectral + PITCH_WEIGHT * off, decoder, optimizers.values())
        return {"spectral": spectral.item(), "pitch": off.item()}

    run("codec_sound", directory, steps, {"codec": codec}, optimizers, step, evaluate)


def train_against_critics(directory: Path, corpus: Path, codec: EmbeddedCodec, steps: Steps, seed: int, device: str) -> None:
    """Go on with what `train_sound` trained: its losses, and that critics take the sound, in score and layers, for a recording.

    Filters that were learned by distances alone are the mean of all that a code may stand for, and sound muffled.
    """
    decoder = _behind_the_code(codec)
    torch.manual_seed(seed)
    critics = nn.ModuleList(Critic(*resolution) for resolution in RESOLUTIONS).to(device)
    rates = {"adamw": (decoder, 3e-4), "adamw_critics": (critics, 5e-4)}
    optimizers = {name: AdamW(m.parameters(), lr=lr, betas=(0.8, 0.99), weight_decay=0.0) for name, (m, lr) in rates.items()}
    crops, evaluate = Crops(corpus, "train", seed + 4), _held_out(codec, corpus, seed, device)

    def step(index: int) -> dict[str, float]:
        wave = crops.batch(index, *CROPS["critics"]).to(device)
        made, off = _round_trip(codec, wave, generator(seed + 5, index))
        real, fake = ([critic(x) for critic in critics] for x in (wave, made.detach()))
        told = _off(real, 1.0) + _off(fake, 0.0)
        update(told, critics, [optimizers["adamw_critics"]])
        spectral = spectral_loss(made, wave)
        loss, figures = spectral + PITCH_WEIGHT * off, {"spectral": spectral, "pitch": off, "told": told}
        if index >= HEAD_START:
            critics.requires_grad_(False)
            judged = [critic(made) for critic in critics]
            critics.requires_grad_(True)
            figures["deceived"] = _off(judged, 1.0)
            pairs = [pair for (_, a), (_, b) in zip(judged, real, strict=True) for pair in zip(a, b, strict=True)]
            apart = [(a - b.detach()).abs().mean() / b.detach().abs().mean() for a, b in pairs]
            figures["apart"] = torch.stack(apart).sum() / Critic.DEPTH
            loss = loss + DECEIVED_WEIGHT * figures["deceived"] + APART_WEIGHT * figures["apart"]
        update(loss, decoder, [optimizers["adamw"]])
        return {name: value.item() for name, value in figures.items()}

    run("codec_critics", directory, steps, {"codec": codec, "critics": critics}, optimizers, step, evaluate)


class Critic(nn.Module):
    """Tells spectrograms of recordings from made ones, patch by patch, at one resolution (Jang et al., arXiv 2106.07889,
    section 2.2), with least squares (Mao et al., arXiv 1611.04076) and matched layers (Kumar et al., arXiv 1910.06711)."""

    DEPTH, WIDTH = 4, 16

    def __init__(self, n_fft: int, hop: int) -> None:
        super().__init__()
        self._resolution, width = (n_fft, hop), self.WIDTH
        shapes = ((1, width, 7, 1), (width, width, 7, 1), (width, 2 * width, 7, 2), (2 * width, 2 * width, 5, 2))
        layers = (nn.Conv2d(i, o, (3, size), stride=(step, 2), padding=(1, size // 2)) for i, o, size, step in shapes)
        self.layers, self.last = nn.ModuleList(map(weight_norm, layers)), weight_norm(nn.Conv2d(2 * width, 1, 3, padding=1))

    def forward(self, wave: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the scores of the patches of waves `[B, N]`, 1 for a recording, and the output of each layer."""
        maps = [0.5 * magnitudes(wave, *self._resolution).log().mT[:, None]]
        with torch.autocast(wave.device.type, torch.bfloat16):
            for layer in self.layers:
                maps.append(nn.functional.leaky_relu(layer(maps[-1]), 0.1))
            return self.last(maps[-1]).float(), maps[1:]


def _off(judged: Sequence[tuple[Tensor, list[Tensor]]], wanted: float) -> Tensor:
    """Return how far the critics' scores are from `wanted`, squared."""
    return torch.stack([(scores - wanted).square().mean() for scores, _ in judged]).sum()


def _behind_the_code(codec: EmbeddedCodec) -> nn.ModuleList:
    """Freeze what makes the codes; return the rest. In a list, modules have numbers for names, so Muon takes the matrices of
    from_code and wave_head, too."""
    for module in (codec.patch, codec.encoder, codec.to_code):
        module.requires_grad_(False)
    behind = (codec.from_code, codec.decoder, codec.upsample, codec.refine, codec.pitch_head, codec.wave_head)
    return nn.ModuleList(behind)


def _held_out(codec: EmbeddedCodec, corpus: Path, seed: int, device: str) -> Callable[[], dict[str, float]]:
    held_out = Crops(corpus, "held_out_sentences", seed)

    @torch.inference_mode()
    def evaluate() -> dict[str, float]:
        wave = held_out.batch(0, *CROPS["held out"]).to(device)
        made, off = _round_trip(codec, wave, generator(seed + 3, 0))
        return {"mel": mel_distance(made, wave).item(), "pitch": off.item()}

    return evaluate


def _round_trip(codec: EmbeddedCodec, wave: Tensor, coins: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the wave made of the codes of `wave`, with the true pitch where there is one, and the error of the codec's own
    pitch in octaves. Filters that had to make up for a wrong pitch would learn to blur."""
    with torch.no_grad():
        quantized = codec.quantize(codec.log_mel(wave))
        true, voiced = pitch(wave, codec.config.frame, codec.sample_rate)
    with torch.autocast(wave.device.type, torch.bfloat16):
        features = codec.features(quantized)
    own, frame, rate = codec.pitch_head(quantized), codec.config.frame, codec.sample_rate
    off = ((own - true.log2()).abs() * voiced).sum() / voiced.sum().clamp(min=1)
    spoken = torch.where(voiced, true, hertz(own.detach()))
    train = pulses(phases(spoken, frame, rate)[:, :-1], spoken, frame, rate)
    noise = torch.randn(wave.shape, generator=coins).to(wave.device)
    return codec.synthesise(features.float(), train, noise), off


def mel_distance(made: Tensor, wave: Tensor) -> Tensor:
    return (log_mel(made, 640, 160, 80, 16_000) - log_mel(wave, 640, 160, 80, 16_000)).abs().mean()


def spectral_loss(made: Tensor, wave: Tensor) -> Tensor:
    """Return log-mel L1 plus, over three resolutions, spectral convergence and log-magnitude L1 (Yamamoto et al., 2020)."""
    total = 5.0 * mel_distance(made, wave)
    for resolution in RESOLUTIONS:
        a, b = (magnitudes(x, *resolution) for x in (made, wave))
        total = total + ((a - b).norm() / b.norm() + (a.log() - b.log()).abs().mean()) / len(RESOLUTIONS)
    return total


def magnitudes(wave: Tensor, n_fft: int, hop: int) -> Tensor:
    """Return the magnitudes of the spectra of waves `[B, N]`, `[B, n_fft / 2 + 1, frames]`, above zero."""
    spectra = torch.stft(wave, n_fft, hop, window=torch.hann_window(n_fft, device=wave.device), return_complex=True)
    return (spectra.real.square() + spectra.imag.square() + 1e-6).sqrt()
