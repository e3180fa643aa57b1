"""The five detectors of a voice: loaded from one folder, asked for segments or for a curve along an utterance."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from pcg.errors import AssetError, InputError, first_line
from pcg.files import write_json, write_safetensors
from pcg.files.checksums import check_checksums
from pcg.places import ASSETS
from pcg.spoof.detector import RESOLUTIONS, Detector, DetectorConfig, Resolution

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
        """Whether they know the codes of a voice whose corpus used each so often, `usage [codes]`: as many codes of another
        codec would be other sounds."""
        return len(usage) == self.codes and self.corpus in ("", corpus_digest(usage))

    @torch.inference_mode()
    def real(self, resolution: Resolution, segments: Tensor) -> Tensor:
        """How probable it is that each of `segments [B, span]` (codes, int64) was spoken and not generated, `[B]`."""
        if segments.shape[1] != resolution.span:
            raise InputError("segments", f"{segments.shape[1]} codes long", f"{resolution.span} codes for {resolution.name}")
        if len(segments) and not 0 <= int(segments.min()) <= int(segments.max()) < self.codes:
            raise InputError("codes", f"up to {int(segments.max())}", f"0 to {self.codes - 1}, which the detectors know")
        return self.by_name[resolution.name](segments[:, :: resolution.stride]).sigmoid()

    def curve(self, tokens: Sequence[int], resolution: Resolution, step: int = STEP) -> Tensor:
        """How synthetic each of `tokens` sounds, `[T]` in 0..1: the mean over the windows around it, one every `step` codes.
        NaN throughout where the utterance is shorter than a window."""
        codes = torch.tensor(tokens, dtype=torch.int64)
        if len(codes) < resolution.span:
            return torch.full((len(codes),), torch.nan)
        last = len(codes) - resolution.span
        starts = [*range(0, last, step), last]
        synthetic = 1 - self.real(resolution, torch.stack([codes[s : s + resolution.span] for s in starts]))
        sums, counts = torch.zeros(len(codes)), torch.zeros(len(codes))
        for start, value in zip(starts, synthetic, strict=True):
            sums[start : start + resolution.span] += value
            counts[start : start + resolution.span] += 1
        return sums / counts

    def curves(self, tokens: Sequence[int], step: int = STEP) -> dict[str, Tensor]:
        """`curve` at each resolution, by its name."""
        return {resolution.name: self.curve(tokens, resolution, step) for resolution in RESOLUTIONS}


def corpus_digest(usage: Tensor) -> str:
    """Tells corpora apart by how often they use each code, `[codes]`."""
    return hashlib.sha256(usage.to(torch.int32).cpu().numpy().tobytes()).hexdigest()[:16]


def save_detectors(
    folder: Path, name: str, by_name: Mapping[str, Detector], dtype: torch.dtype = torch.bfloat16, corpus: str = ""
) -> None:
    """Write the folder that `load_detectors` reads, weights in `dtype`."""
    for resolution in RESOLUTIONS:
        detector, part = by_name[resolution.name], folder / resolution.key
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
        by_name = {resolution.name: _detector(folder / resolution.key) for resolution in RESOLUTIONS}
    except Exception as error:
        raise AssetError(f"The detectors in {folder} are missing or damaged ({first_line(error)}).") from error
    return Detectors(card["name"], by_name, str(card.get("corpus", "")))


def _detector(folder: Path) -> Detector:
    detector = Detector(DetectorConfig(**json.loads((folder / "config.json").read_text(encoding="utf-8"))))
    detector.load_state_dict({key: t.float() for key, t in load_file(folder / "model.safetensors").items()})
    return detector.eval()
