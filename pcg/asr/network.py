"""The network of the embedded recogniser: characters, log-mel frames, subwords, projector, and a Conformer with a CTC head."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional as F

# The characters of the CTC head: blank is 0, then space, apostrophe and a..z.
BLANK = 0
CHARACTERS = " '" + "abcdefghijklmnopqrstuvwxyz"
CLASSES = 1 + len(CHARACTERS)
_IDS = {character: index for index, character in enumerate(CHARACTERS, start=1)}


def spell(text: str) -> list[int]:
    """Class of every character of `text`, which holds nothing but CHARACTERS."""
    return [_IDS[character] for character in text]


def read_path(path: Sequence[int]) -> str:
    """Return the text of an alignment path: repeats are merged, then blanks dropped (arXiv:2603.11243, section 2.1)."""
    merged = (label for label, _ in groupby(path))
    return " ".join("".join(CHARACTERS[label - 1] for label in merged if label != BLANK).split())


SAMPLE_RATE = 16_000
HOP = 160
BANDS = 80
_WINDOW, _FFT = 400, 512
_FLOOR = 1e-6
# A band that a narrow channel left empty must not be blown up to the spread of speech.
_LEAST_SPREAD = 0.5


class LogMel(nn.Module):
    """Samples -> normalised log-mel frames. It has no weights, so nothing of it is saved."""

    def __init__(self) -> None:
        super().__init__()
        import librosa  # seconds to load, and most who load a voice hear nothing with it

        bank = librosa.filters.mel(sr=SAMPLE_RATE, n_fft=_FFT, n_mels=BANDS, fmin=20.0, fmax=7600.0)
        self.register_buffer("bank", torch.from_numpy(bank).T.contiguous(), persistent=False)
        self.register_buffer("window", torch.hann_window(_WINDOW), persistent=False)

    def forward(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """samples `[B, N]`, zero behind the `lengths [B]` that count -> frames `[B, T, 80]`, zero behind their counts `[B]`.

        Padding does not change a row's frames."""
        with torch.autocast(samples.device.type, enabled=False):
            spectrum = torch.stft(
                samples.float(), _FFT, HOP, _WINDOW, self.window, center=True, pad_mode="constant", return_complex=True
            )
            power = torch.view_as_real(spectrum).square().sum(-1).transpose(1, 2)
            mels = (power @ self.bank).clamp_min(_FLOOR).log()
            counts = lengths // HOP + 1
            real = (torch.arange(mels.shape[1], device=mels.device) < counts[:, None])[..., None]
            mean = (mels * real).sum(1, keepdim=True) / counts[:, None, None]
            centred = (mels - mean) * real
            spread = (centred.square().sum(1, keepdim=True) / counts[:, None, None]).sqrt()
            return centred / (spread + _LEAST_SPREAD), counts


_BREAK = "▁"


class Subwords:
    """Text of CHARACTERS <-> tokens 0 .. size - 1. Every word begins with its break, so a token's length counts it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.lengths = [len(tokenizer.id_to_token(i)) for i in range(tokenizer.get_vocab_size())]

    @property
    def size(self) -> int:
        return len(self.lengths)

    @classmethod
    def learn(cls, texts: Iterable[str], size: int) -> "Subwords":
        """Return the `size` subwords that shorten `texts` most; every character is one of them."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(_BREAK, prepend_scheme="always")
        tokenizer.decoder = decoders.Metaspace(_BREAK, prepend_scheme="always")
        alphabet = [_BREAK, *CHARACTERS.strip()]
        trainer = trainers.BpeTrainer(
            vocab_size=size, initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        return cls(Tokenizer.from_str(path.read_text(encoding="utf-8")))

    def to_json(self) -> str:
        return self._tokenizer.to_str(pretty=True)

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text).ids if text else []

    def decode(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(list(tokens)).strip()


@dataclass(frozen=True)
class ProjectorConfig:
    """stack: frames that become one embedding. frame: width of a frame, labels: CTC labels that one spells."""

    stack: int = 2
    frame: int = 192
    labels: int = 2
    width: int = 256


class Projector(nn.Module):
    """frames `[..., S, frame]` -> embeddings `[..., ceil(S / stack), width]`."""

    def __init__(self, config: ProjectorConfig) -> None:
        super().__init__()
        self.config = config
        self.enter = nn.Linear(config.stack * config.frame, 2 * config.width)
        self.leave = nn.Linear(2 * config.width, config.width)

    def forward(self, frames: Tensor) -> Tensor:
        short = -frames.shape[-2] % self.config.stack
        stacked = F.pad(frames, (0, 0, 0, short)).unflatten(-2, (-1, self.config.stack)).flatten(-2)
        return self.leave(F.silu(self.enter(stacked)))

    def positions(self, path: Tensor) -> Tensor:
        """Return where the embeddings of an alignment path `[..., labels S]` stand, `[..., ceil(S / stack)]`: at the number of
        characters that the path has spelled by then.

        The language model counts the characters that it has written in the same way, so what it has to listen to next stands
        where it stands, at any speed of speech."""
        before = F.pad(path[..., :-1], (1, 0), value=BLANK)
        spelled = ((path != BLANK) & (path != before)).cumsum(-1)
        step = self.config.labels * self.config.stack
        short = -path.shape[-1] % step
        return torch.cat([spelled, spelled[..., -1:].expand(*spelled.shape[:-1], short)], -1)[..., step - 1 :: step]


LABELS_PER_FRAME = 2


@dataclass(frozen=True)
class EncoderConfig:
    """Shape of the encoder. kernel: frames that a block's convolution sees."""

    layers: int = 6
    width: int = 192
    heads: int = 4
    feed_forward: int = 576
    kernel: int = 15
    bands: int = BANDS
    classes: int = CLASSES


@dataclass(frozen=True)
class Encoded:
    """Frames `[B, S, D]` and their counts `[B]`; log-probabilities over the CTC classes `[B, 2 S, C]`, at the end and at the
    draft in the middle. Behind a row's count nothing has a meaning."""

    frames: Tensor
    counts: Tensor
    log_probs: Tensor
    draft_log_probs: Tensor


class ConformerCTC(nn.Module):
    """Log-mel frames -> acoustic embeddings and character log-probabilities."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.enter = nn.ModuleList([_Halve(config.bands, width), _Halve(width, width)])
        self.blocks = nn.ModuleList([ConformerBlock(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(width)
        self.draft_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, LABELS_PER_FRAME * config.classes)
        self.condition = nn.Linear(LABELS_PER_FRAME * config.classes, width)

    def forward(self, features: Tensor, counts: Tensor) -> Encoded:
        """features `[B, T, bands]`, of which `counts [B]` frames of each row are real."""
        x = features
        for halve in self.enter:
            counts = (counts + 1) // 2
            x = halve(x, counts)
        real = _real(x, counts)
        rotary = rotations(x.shape[1], self.config.width // self.config.heads, x.device)
        draft = x
        for index, block in enumerate(self.blocks):
            x = block(x, real, rotary)
            if index + 1 == len(self.blocks) // 2:
                draft = self._spell(self.draft_norm(x))
                x = x + self.condition(draft.exp().flatten(2).to(x.dtype))
        frames = self.norm(x)
        return Encoded(frames, counts, self._spell(frames).flatten(1, 2), draft.flatten(1, 2))

    def _spell(self, frames: Tensor) -> Tensor:
        logits = self.head(frames).float()
        return logits.unflatten(-1, (LABELS_PER_FRAME, self.config.classes)).log_softmax(-1)


class _Halve(nn.Module):
    """A strided convolution over time, written as one matrix product: every other frame sees itself and two to each side."""

    _SPAN = 5

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.mix = nn.Linear(self._SPAN * inputs, outputs)
        self.norm = nn.LayerNorm(outputs)

    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        side = self._SPAN // 2
        padded = F.pad(x, (0, 0, side, side + 1))
        windows = padded.unfold(1, self._SPAN, 2)[:, : (x.shape[1] + 1) // 2]
        y = F.silu(self.norm(self.mix(windows.transpose(2, 3).flatten(2))))
        return y * _real(y, counts)


class ConformerBlock(nn.Module):
    """Half a feed-forward layer, attention, convolution, half a feed-forward layer.

    x `[B, S, D]`; real `[B, S, 1]`: True where a frame counts; rotary: see `rotations`."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.before = _FeedForward(config)
        self.attention = _Attention(config)
        self.convolution = _Convolution(config)
        self.after = _FeedForward(config)

    def forward(self, x: Tensor, real: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        x = x + 0.5 * self.before(x)
        x = x + self.attention(x, real, rotary)
        x = x + self.convolution(x, real)
        return x + 0.5 * self.after(x)


class _FeedForward(nn.Module):
    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, config.feed_forward)
        self.down = nn.Linear(config.feed_forward, config.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.up(self.norm(x))))


class _Attention(nn.Module):
    """Full attention within the row, positions as rotations."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm = nn.LayerNorm(config.width)
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, real: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        y = self.norm(x)
        query, key, value = (
            part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        cos, sin = rotary
        query, key = ((t * cos + t.roll(t.shape[-1] // 2, -1) * sin).to(value.dtype) for t in (query, key))
        mask = real[:, None, None, :, 0]
        if self.training:
            # The fused kernel's backward pass in bfloat16 is several times slower on a CPU.
            weights = (query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5).masked_fill(~mask, -1e4).softmax(-1)
            mixed = weights.to(value.dtype) @ value
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, mask)
        return self.out(mixed.transpose(1, 2).flatten(2))


class _Convolution(nn.Module):
    """Gated, then along time for each channel by itself."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.enter = nn.Linear(config.width, 2 * config.width)
        self.along = nn.Conv2d(
            config.width, config.width, (1, config.kernel), padding=(0, config.kernel // 2), groups=config.width
        )
        self.between = nn.LayerNorm(config.width)
        self.leave = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        y = F.glu(self.enter(self.norm(x)), -1) * real
        # As an image of height 1 the rows lie in channels-last order already, for which the depthwise kernel is fast.
        along = self.along(y.transpose(1, 2)[:, :, None]).squeeze(2).transpose(1, 2)
        return self.leave(F.silu(self.between(along)))


def rotations(count: int, dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of positions 0 .. count - 1, each `[count, dim]` (Su et al., arXiv:2104.09864), the first half of the
    sines negated."""
    half = dim // 2
    angles = torch.arange(count, device=device)[:, None] * 10_000.0 ** (-torch.arange(half, device=device) / half)
    return torch.cat([angles, angles], -1).cos(), torch.cat([-angles, angles], -1).sin()


def _real(x: Tensor, counts: Tensor) -> Tensor:
    """True where a frame of `x [B, T, D]` counts, `[B, T, 1]`."""
    return (torch.arange(x.shape[1], device=x.device) < counts[:, None])[..., None]
