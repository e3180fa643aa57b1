"""Spoof detection on tokens (MSpoofTTS: Zhao et al., arXiv 2603.05373, section 2.2): was a segment of codes spoken?"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from pcg.asr.network import ConformerBlock, EncoderConfig, rotations
from pcg.errors import AssetError, InputError, first_line
from pcg.files import check_checksums, write_json, write_safetensors
from pcg.places import ASSETS


@dataclass(frozen=True)
class Resolution:
    """A segment of `span` codes, of which every `stride`-th is looked at."""

    name: str
    span: int
    stride: int = 1

    @property
    def key(self) -> str:
        """Its name as a file's."""
        return self.name.lower().replace("<-", "_")


M50, M25, M10 = Resolution("M50", 50), Resolution("M25", 25), Resolution("M10", 10)
M50_25, M50_10 = Resolution("M50<-25", 50, 2), Resolution("M50<-10", 50, 5)
RESOLUTIONS = (M50, M25, M10, M50_25, M50_10)


@dataclass(frozen=True)
class DetectorConfig:
    """Shape of a detector over `codes` codes; the defaults are the paper's (section 3.2). kernel: codes that a block's
    convolution sees, of which the paper does not tell. code_width: of the embeddings, where it is not `width`."""

    codes: int
    width: int = 256
    heads: int = 8
    layers: int = 4
    feed_forward: int = 1024
    kernel: int = 7
    dropout: float = 0.1
    code_width: int | None = None


class Detector(nn.Module):
    """Embedding, Conformer blocks, adaptive pooling over time, a small classifier."""

    def __init__(self, config: DetectorConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        block = EncoderConfig(config.layers, width, config.heads, config.feed_forward, config.kernel)
        self.embedding = nn.Embedding(config.codes, config.code_width or width)
        self.enter = nn.Linear(config.code_width, width) if config.code_width else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([ConformerBlock(block) for _ in range(config.layers)])
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.classify = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Dropout(config.dropout), nn.Linear(width, 1)
        )

    def forward(self, segments: Tensor) -> Tensor:
        """Codes `[B, L]` (int64, already strided) -> logits `[B]`, above zero where a segment looks real."""
        x = self.dropout(self.enter(self.embedding(segments)))
        real = torch.ones(*segments.shape, 1, dtype=torch.bool, device=segments.device)
        rotary = rotations(segments.shape[1], self.config.width // self.config.heads, segments.device)
        for block in self.blocks:
            x = self.dropout(block(x, real, rotary))
        return self.classify(self.pool(x.transpose(1, 2)).squeeze(-1)).squeeze(-1)

    @torch.no_grad()
    def fused(self) -> "Detector":
        """Return the same function with embeddings that are `width` wide already, half as large to store."""
        if self.config.code_width is None:
            return self
        smaller = Detector(replace(self.config, code_width=None))
        state = {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("enter.")}
        smaller.load_state_dict(state | {"embedding.weight": self.enter(self.embedding.weight)})
        return smaller.eval()


FORMAT = 1
SHIPPED = ASSETS / "detectors"
STEP = 5


@dataclass(frozen=True, eq=False)
class Detectors:
    """A trained Detector for each of `RESOLUTIONS`, by its name; `name` says which voice's samples they know, `corpus` by which
    corpus's codes they learned (`corpus_digest`; "" where that is not known)."""

    name: str
    by_name: Mapping[str, Detector]
    corpus: str = ""

    @cached_property
    def codes(self) -> int:
        """How many codes the detectors know."""
        return next(iter(self.by_name.values())).config.codes

    def fit(self, usage: Tensor) -> bool:
        """Return whether they know the codes of a voice whose corpus used each so often, `usage [codes]`."""
        return len(usage) == self.codes and self.corpus in ("", corpus_digest(usage))

    @torch.inference_mode()
    def real(self, resolution: Resolution, segments: Tensor) -> Tensor:
        """Return how probable it is that each of `segments [B, span]` (codes, int64) was spoken and not generated, `[B]`."""
        if segments.shape[1] != resolution.span:
            raise InputError("segments", f"{segments.shape[1]} codes long", f"{resolution.span} codes for {resolution.name}")
        return self.by_name[resolution.name](segments[:, :: resolution.stride]).sigmoid()

    def curve(self, tokens: Sequence[int], resolution: Resolution) -> Tensor:
        """Return how synthetic each of `tokens` sounds, `[T]` in 0..1: the mean over the windows around it, one every `STEP`
        codes. NaN throughout where the utterance is shorter than a window."""
        codes = torch.tensor(tokens, dtype=torch.int64)
        if len(codes) < resolution.span:
            return torch.full((len(codes),), torch.nan)
        last = len(codes) - resolution.span
        starts = [*range(0, last, STEP), last]
        synthetic = 1 - self.real(resolution, torch.stack([codes[s : s + resolution.span] for s in starts]))
        sums, counts = torch.zeros(len(codes)), torch.zeros(len(codes))
        for start, value in zip(starts, synthetic, strict=True):
            sums[start : start + resolution.span] += value
            counts[start : start + resolution.span] += 1
        return sums / counts

    def curves(self, tokens: Sequence[int]) -> dict[str, Tensor]:
        """`curve` at each resolution, by its name."""
        return {resolution.name: self.curve(tokens, resolution) for resolution in RESOLUTIONS}


def corpus_digest(usage: Tensor) -> str:
    """Tells corpora apart by how often they use each code, `[codes]`."""
    return hashlib.sha256(usage.to(torch.int32).cpu().numpy().tobytes()).hexdigest()[:16]


def save_detectors(
    folder: Path, name: str, by_name: Mapping[str, Detector], dtype: torch.dtype = torch.bfloat16, corpus: str = ""
) -> None:
    """Write the folder that `load_detectors` reads, weights in `dtype`."""
    for resolution in RESOLUTIONS:
        detector, part = by_name[resolution.name].fused(), folder / resolution.key
        write_json(part / "config.json", asdict(detector.config))
        tensors = {key: t.to(dtype).contiguous() for key, t in detector.state_dict().items()}
        write_safetensors(part / "model.safetensors", tensors)
    write_json(folder / "detectors.json", {"format": FORMAT, "name": name, "corpus": corpus})


def load_detectors(folder: Path = SHIPPED) -> Detectors:
    """Load a folder that `save_detectors` wrote; raise AssetError if a file is missing, damaged or of another shape."""
    check_checksums(folder)
    try:
        card = json.loads((folder / "detectors.json").read_text(encoding="utf-8"))
        if card["format"] != FORMAT:
            raise ValueError(f"format {card['format']!r} is not {FORMAT}")
        by_name = {}
        for resolution in RESOLUTIONS:
            part = folder / resolution.key
            detector = Detector(DetectorConfig(**json.loads((part / "config.json").read_text(encoding="utf-8"))))
            detector.load_state_dict({key: t.float() for key, t in load_file(part / "model.safetensors").items()})
            by_name[resolution.name] = detector.eval()
    except Exception as error:
        raise AssetError(f"The detectors in {folder} are missing or damaged ({first_line(error)}).") from error
    return Detectors(card["name"], by_name, str(card.get("corpus", "")))
