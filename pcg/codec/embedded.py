"""Finite scalar quantization (Mentzer et al., arXiv 2309.15505): one codebook without a codebook."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from pcg.codec.codec import Anchor


class FSQ(nn.Module):
    """Rounds each of `len(levels)` bounded dimensions to `levels[i]` values; a code is their mixed-radix number.

    The digits of a code are a geometry of their own: two codes one step apart in one digit decode to similar sound.
    """

    def __init__(self, levels: list[int]) -> None:
        super().__init__()
        self.levels = levels
        self.codebook_size = math.prod(levels)
        radix = torch.tensor([math.prod(levels[:i]) for i in range(len(levels))])
        self.register_buffer("_levels", torch.tensor(levels), persistent=False)
        self.register_buffer("_radix", radix, persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        """Quantize `z [..., D]` to values in [-1, 1], with a straight-through gradient (their section 3)."""
        half = (self._levels - 1) * (1 + 1e-3) / 2
        offset = torch.where(self._levels % 2 == 0, 0.5, 0.0)
        shift = (offset / half).atanh()
        bounded = (z + shift).tanh() * half - offset
        rounded = bounded + (bounded.round() - bounded).detach()
        return rounded / (self._levels // 2)

    def codes(self, quantized: Tensor) -> Tensor:
        """Quantized values `[..., D]` -> code numbers `[...]`, int64."""
        digits = (quantized * (self._levels // 2)).round().long() + self._levels // 2
        return (digits * self._radix).sum(dim=-1)

    def digits(self, codes: Tensor) -> Tensor:
        """Code numbers `[...]` -> digits `[..., D]`, digit i in 0..levels[i]-1."""
        return codes.unsqueeze(-1) // self._radix % self._levels

    def values(self, codes: Tensor) -> Tensor:
        """Code numbers `[...]` -> quantized values `[..., D]`, the inverse of `codes`."""
        half = self._levels // 2
        return (self.digits(codes) - half) / half


class ConvNeXtBlock(nn.Module):
    """Depth-wise convolution, LayerNorm, expansion, GELU, projection, learned residual scale. `[B, T, C]` in and out."""

    def __init__(self, width: int, expansion: int = 3, kernel: int = 7, scale: float = 0.2) -> None:
        super().__init__()
        self.mix = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, expansion * width)
        self.project = nn.Linear(expansion * width, width)
        self.scale = nn.Parameter(torch.full((width,), scale))

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.mix(x.transpose(1, 2)).transpose(1, 2)
        hidden = nn.functional.gelu(self.expand(self.norm(mixed)), approximate="tanh")
        return x + self.scale * self.project(hidden)


def stack(width: int, depth: int) -> nn.Sequential:
    return nn.Sequential(*(ConvNeXtBlock(width) for _ in range(depth)))


AHEAD = 3
"""How many codes to the right a pitch depends on."""
DILATIONS = (1, 2, 4)
TAPS = 5
BEHIND = AHEAD + (TAPS - 1) * sum(DILATIONS)
"""How many codes to the left: enough to know the speaker."""
MIDDLE = 7.0


class PitchHead(nn.Module):
    """Quantized values `[B, T, D]` -> the log2 of the pitch in Hz, `[B, T * frames]`."""

    def __init__(self, inputs: int, width: int, frames: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(inputs, width, 2 * AHEAD + 1, padding=AHEAD)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, TAPS, dilation=d) for d in DILATIONS)
        self.last = nn.Conv1d(width, frames, 1)

    def forward(self, quantized: Tensor) -> Tensor:
        x = nn.functional.gelu(self.first(quantized.transpose(1, 2)))
        for layer in self.layers:
            past = (TAPS - 1) * layer.dilation[0]
            x = x + nn.functional.gelu(layer(nn.functional.pad(x, (past, 0))))
        return self.last(x).transpose(1, 2).flatten(1) + MIDDLE


def hertz(log_pitch: Tensor, low: float = 40.0, high: float = 500.0) -> Tensor:
    return torch.exp2(log_pitch).clamp(low, high)


QUEFRENCIES = 100
"""Cepstral coefficients of a filter: its envelope, without the fine structure that the pulses have already."""


def phases(pitch: Tensor, frame: int, sample_rate: int) -> Tensor:
    """Cycles since the start, before each sample and after the last: `[B, F * frame + 1]`, float64. `pitch [B, F]` is in Hz."""
    rate = pitch.double().repeat_interleave(frame, dim=1) / sample_rate
    return nn.functional.pad(rate.cumsum(1), (1, 0))


def pulses(cycles: Tensor, pitch: Tensor, frame: int, sample_rate: int) -> Tensor:
    """Return a pulse train of unit power `[B, F * frame]`, a pulse where `cycles` are whole, below the Nyquist rate."""
    harmonics = (0.5 * sample_rate / pitch.double()).floor().repeat_interleave(frame, dim=1)
    half = torch.pi * (cycles % 1.0)
    # The sum of cos(2 pi k x) for k = 1..K in closed form; at the pulse itself the quotient is 0 / 0.
    bottom = half.sin()
    near = bottom.abs() < 1e-6
    kernel = ((2 * harmonics + 1) * half).sin() / bottom.masked_fill(near, 1.0)
    train = (kernel.where(~near, 2 * harmonics + 1) - 1) / 2
    return (train / (harmonics / 2).sqrt()).float()


def minimum_phase(log_magnitude: Tensor) -> Tensor:
    """Return the complex filter of minimum phase with the smoothed `log_magnitude [..., bins]`."""
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


NOISE_SAMPLES = 2**17
LOUDEST = 6.0
FEATURES_BEHIND = 16
"""Codes before a stream's next one that its features are computed from; only the pitch looks further back. The error against
the one-shot decode is the same as with all 36 codes of the past (-60 to -66 dB); with 8 it is -48 to -53 dB."""


@dataclass(frozen=True)
class CodecConfig:
    """`frames_per_token` mel frames of `frame` samples make one token: 16000 / 160 / 2 = 50 tokens a second."""

    sample_rate: int = 16_000
    frame: int = 160
    window: int = 640
    mels: int = 80
    frames_per_token: int = 2
    levels: tuple[int, ...] = (8, 8, 8, 8)
    encoder_width: int = 256
    encoder_depth: int = 6
    decoder_width: int = 320
    decoder_depth: int = 6
    wave_width: int = 256
    wave_depth: int = 4
    pitch_width: int = 192


class EmbeddedCodec(nn.Module):
    """`encode` audio to tokens, `decode` tokens to audio; every token is `hop` samples exactly."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        c = config
        self.fsq = FSQ(list(c.levels))
        self.patch = nn.Linear(c.mels * c.frames_per_token, c.encoder_width)
        self.encoder = stack(c.encoder_width, c.encoder_depth)
        self.to_code = nn.Sequential(nn.LayerNorm(c.encoder_width), nn.Linear(c.encoder_width, len(c.levels)))
        self.from_code = nn.Linear(len(c.levels), c.decoder_width)
        self.decoder = stack(c.decoder_width, c.decoder_depth)
        self.upsample = nn.Linear(c.decoder_width, c.wave_width * c.frames_per_token)
        self.refine = nn.Sequential(*stack(c.wave_width, c.wave_depth), nn.LayerNorm(c.wave_width))
        self.mel_head = nn.Linear(c.wave_width, c.mels)
        self.pitch_head = PitchHead(len(c.levels), c.pitch_width, c.frames_per_token)
        self.wave_head = nn.Linear(c.wave_width, c.window + 2)
        for head in (self.mel_head, self.wave_head):
            nn.init.constant_(head.bias, -4.0)
        # One table for all, so that the same codes always make the same sound.
        noise = torch.randn(NOISE_SAMPLES, generator=torch.Generator().manual_seed(0))
        self.register_buffer("noise", noise, persistent=False)

    @property
    def sample_rate(self) -> int:
        return self.config.sample_rate

    @property
    def hop(self) -> int:
        """Samples per token."""
        return self.config.frame * self.config.frames_per_token

    @property
    def device(self) -> torch.device:
        return self.to_code[1].weight.device

    @property
    def codebook_size(self) -> int:
        return self.fsq.codebook_size

    def log_mel(self, wave: Tensor) -> Tensor:
        """Waves `[B, N]`, N a multiple of `hop` -> log-mel `[B, N / frame, mels]` in nats."""
        return log_mel(wave, self.config.window, self.config.frame, self.config.mels, self.sample_rate)

    def quantize(self, mel: Tensor) -> Tensor:
        """Log-mel `[B, F, mels]` -> quantized FSQ values `[B, F / frames_per_token, D]`."""
        batch, frames, _ = mel.shape
        patches = mel.reshape(batch, frames // self.config.frames_per_token, -1)
        return self.fsq(self.to_code(self.encoder(self.patch(patches * 0.25 + 1.0))).float())

    def features(self, quantized: Tensor) -> Tensor:
        """Quantized values `[B, T, D]` -> decoder features `[B, T * frames_per_token, wave_width]`."""
        hidden = self.upsample(self.decoder(self.from_code(quantized)))
        return self.refine(hidden.reshape(hidden.shape[0], -1, self.config.wave_width))

    def synthesise(self, features: Tensor, train: Tensor, noise: Tensor) -> Tensor:
        """Decoder features `[B, F, wave_width]`, pulses and noise `[B, F * frame]` -> waves `[B, F * frame]`."""
        harmonic, noisy = self.wave_head(features).float().clamp(max=LOUDEST).chunk(2, dim=-1)
        return vocode(harmonic, noisy, train, noise, self.config.frame)

    @torch.inference_mode()
    def encode(self, wave: Tensor) -> Tensor:
        """Samples `[N]` in -1..1 at `sample_rate` -> codes `[ceil(N / hop)]`, int64."""
        if not len(wave):
            return torch.zeros(0, dtype=torch.int64)
        padded = nn.functional.pad(wave.to(self.device), (0, -len(wave) % self.hop))
        return self.fsq.codes(self.quantize(self.log_mel(padded[None])))[0].cpu()

    def decode(self, codes: Tensor) -> Tensor:
        """Codes `[T]` -> samples `[T * hop]`, float32 within -1..1."""
        return self.render(codes, Anchor())[0]

    @torch.inference_mode()
    def decode_batch(self, codes: Tensor) -> Tensor:
        """Codes `[B, T]`, T >= 1 -> samples `[B, T * hop]`, every row an utterance of its own."""
        quantized, frame = self.fsq.values(codes.to(self.device)), self.config.frame
        pitch = hertz(self.pitch_head(quantized))
        train = pulses(phases(pitch, frame, self.sample_rate)[:, :-1], pitch, frame, self.sample_rate)
        noise = self.noise[torch.arange(train.shape[1], device=self.device) % NOISE_SAMPLES].expand(len(codes), -1)
        return self.synthesise(self.features(quantized), train, noise).clamp(-1, 1).cpu()

    @torch.inference_mode()
    def render(self, codes: Tensor, anchor: Anchor) -> tuple[Tensor, Tensor]:
        """`decode` in the middle of an utterance: samples `[T * hop]`, and the phase before each code and after the last,
        `[T + 1]` in cycles. More codes on either side would change the phase near the ends
        (by less than `pcg.codec.embedded` says). What lies more than `FEATURES_BEHIND` codes before the anchor is silence."""
        if not len(codes):
            return torch.zeros(0), torch.tensor([anchor.phase], dtype=torch.float64)
        quantized = self.fsq.values(codes.to(self.device))[None]
        pitch = hertz(self.pitch_head(quantized))
        cycles = phases(pitch, self.config.frame, self.sample_rate)
        first, start = anchor.index * self.hop, max(0, anchor.index - FEATURES_BEHIND)
        cycles = cycles + anchor.phase - cycles[:, first : first + 1]
        begin, silent = (anchor.position - anchor.index + start) * self.hop, start * self.hop
        count = len(codes) * self.hop - silent
        noise = self.noise[(torch.arange(count, device=self.device) + begin) % NOISE_SAMPLES][None]
        frames = pitch[:, start * self.config.frames_per_token :]
        train = pulses(cycles[:, silent:-1], frames, self.config.frame, self.sample_rate)
        wave = self.synthesise(self.features(quantized[:, start:]), train, noise)[0].clamp(-1, 1).cpu()
        return nn.functional.pad(wave, (silent, 0)), cycles[0, :: self.hop].cpu() % 1.0


def log_mel(wave: Tensor, window: int, frame: int, mels: int, sample_rate: int) -> Tensor:
    """Log-mel spectrogram `[B, N / frame, mels]` of `[B, N]`: Hann window centred on each frame, floor 1e-4."""
    pad = (window - frame) // 2
    padded = nn.functional.pad(wave[:, None], (pad, pad), mode="reflect")[:, 0]
    hann = torch.hann_window(window, device=wave.device)
    spectrum = torch.stft(padded, window, frame, window=hann, center=False, return_complex=True)
    magnitude = (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()
    basis = torch.from_numpy(_mel_basis(sample_rate, window, mels)).to(wave.device)
    return (basis @ magnitude).clamp(min=1e-4).log().transpose(1, 2)


@lru_cache(maxsize=8)
def _mel_basis(sample_rate: int, n_fft: int, mels: int) -> np.ndarray:
    # Cached as an array: a tensor made in inference mode could not be trained through later.
    import librosa

    return librosa.filters.mel(sr=sample_rate, n_fft=n_fft, n_mels=mels, fmax=sample_rate / 2)
