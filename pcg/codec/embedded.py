"""The embedded voice's codec: X-codec2 in miniature. Log-mel -> ConvNeXt -> one FSQ codebook -> ConvNeXt -> vocoder.

It is trained by `pcg.training.codec`, and shipped as safetensors and JSON.
"""

from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from pcg.codec.codec import Anchor
from pcg.codec.convnext import stack
from pcg.codec.fsq import FSQ
from pcg.codec.pitch import PitchHead, hertz
from pcg.codec.vocoder import phases, pulses, vocode

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

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


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
        (by less than `pcg.codec.pitch` says). What lies more than `FEATURES_BEHIND` codes before the anchor is silence."""
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
