"""The groups of one voice, at any theta and by any similarity; lists, features and the map are kept on disk.

A file is named by what it was made from, so a stale one is never read; one that cannot be read is made anew.
"""

import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from threading import RLock

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from tqdm import tqdm

from pcg.codec.codec import Codec
from pcg.codec.embedded import log_mel
from pcg.errors import InputError, PCGError, first_line
from pcg.files import sweep, write_safetensors
from pcg.groups.atlas import NEAREST, SEED, Atlas, build_atlas
from pcg.groups.groups import Groups
from pcg.groups.neighbours import Neighbours, affordable_floor, build_neighbours
from pcg.settings import SIMILARITIES

FORMAT = 1
NEIGHBOURS = ("indptr", "neighbours", "similarity")
ATLAS = tuple(field.name for field in fields(Atlas))
REPEATS = 5
MELS = 80
CODES_AT_ONCE = 64
PROBE_CODES = 64
Tensors = dict[str, Tensor]


class GroupLibrary:
    """Groups of the codes of `embedding [codes, D]` (PCG section 2.1), or by another similarity of `codec`'s codes.

    usage_mask `[codes]`, bool: the codes that the corpus used; the others stand alone. floor: the lowest theta wanted; it is
    raised for a similarity that would leave more pairs above it than can be kept, and `neighbours(...).floor` tells. Lists are
    built on first use, stored by content in `cache_dir`, and kept; `shipped` is a folder that may hold the map. Threads may
    share a library. show_progress: with a bar on the terminal.
    """

    def __init__(
        self,
        embedding: Tensor,
        codec: Codec,
        usage_mask: Tensor,
        floor: float,
        cache_dir: Path,
        shipped: Path | None = None,
        device: str = "cpu",
        show_progress: bool = False,
    ) -> None:
        self._embedding, self._codec, self._eligible = embedding, codec, usage_mask
        self._floor, self._cache, self._shipped = floor, cache_dir, shipped
        self._device, self._show_progress = device, show_progress
        self._lists: dict[str, Neighbours] = {}
        self._atlas: Atlas | None = None
        self._building = RLock()
        self._groups = lru_cache(maxsize=32)(lambda theta, similarity: self.neighbours(similarity).groups_at(theta))

    def neighbours(self, similarity: str = "cosine") -> Neighbours:
        """Return the lists of one of SIMILARITIES, built on first use."""
        if similarity not in SIMILARITIES:
            raise InputError("similarity", similarity, "one of " + ", ".join(SIMILARITIES))
        if similarity not in self._lists:
            with self._building:
                if similarity not in self._lists:
                    features = self._mel() if similarity == "mel" else self._embedding
                    floor = affordable_floor(features, self._floor, self._eligible)
                    where = self._cache, self._device, similarity if self._show_progress else ""
                    self._lists[similarity] = load_or_build_neighbours(features, floor, self._eligible, *where)
        return self._lists[similarity]

    def groups(self, theta: float, similarity: str = "cosine") -> Groups:
        """Return the groups at `theta` on the scale of `similarity`; the last 32 are kept."""
        return self._groups(theta, similarity)

    def atlas(self) -> Atlas:
        """Return the map of the embedding."""
        with self._building:
            if self._atlas is None:
                lists, vectors = self.neighbours(), self._embedding
                self._atlas = load_or_build_atlas(lists, vectors, self._eligible, self._cache, self._shipped)
            return self._atlas

    def _mel(self) -> Tensor:
        """`mel_features`, stored: decoding every code takes longer than the search."""
        codes, label = self._codec.codebook_size, "decoding every code" if self._show_progress else ""
        if isinstance(self._codec, nn.Module):
            identity = list(self._codec.state_dict().values())
        else:  # the sound of some codes
            identity = [self._codec.decode(torch.linspace(0, codes - 1, PROBE_CODES).long())]
        key = content_key((FORMAT, codes, self._codec.hop, self._codec.sample_rate), *identity)
        return load_or_make("mel", key, ("mel",), lambda: {"mel": mel_features(self._codec, label)}, self._cache)["mel"]


def mel_features(codec: Codec, label: str = "") -> Tensor:
    """Return the spectrum of each code in nats, `[codes, frames * 80]` float32, less the mean over the codes:
    what all share (the vocoder's noise floor, the slope of speech) would make every cosine large."""
    spectra = code_spectra(codec, torch.arange(codec.codebook_size), label).flatten(1)
    return spectra - spectra.mean(0)


def code_spectra(codec: Codec, codes: Tensor, label: str = "") -> Tensor:
    """Return the log-mel spectrum of each of `codes [N]` in nats, `[N, frames, 80]`.

    Each is decoded five times in a row, so that decoder and vocoder have settled in the middle; the middle one counts, in
    Hann-windowed frames of about 10 ms, four frames wide. Codecs that have `decode_batch` (codes `[B, T]` -> samples
    `[B, T * hop]`) decode 64 codes at once. label: the title of a progress bar, "" for none.
    """
    frames = max(1, round(100 * codec.hop / codec.sample_rate))
    frame = codec.hop // frames
    first = REPEATS // 2 * codec.hop // frame
    batch, spectra = getattr(codec, "decode_batch", None), []
    for block in tqdm(codes.split(CODES_AT_ONCE), desc=label, disable=None if label else True):
        rows = block[:, None].expand(-1, REPEATS)
        waves = batch(rows) if batch else torch.stack([codec.decode(row) for row in rows])
        mel = log_mel(waves, 4 * frame, frame, MELS, codec.sample_rate)
        spectra.append(mel[:, first : first + frames])
    return torch.cat(spectra)


def load_or_build_neighbours(
    features: Tensor, floor: float, eligible: Tensor | None, cache_dir: Path, device: str = "cpu", label: str = ""
) -> Neighbours:
    """`build_neighbours`, stored in `cache_dir`."""
    key = _key_of((FORMAT, float(floor)), features, eligible)

    def make() -> Tensors:
        built = build_neighbours(features, floor, eligible, device, label)
        return {name: getattr(built, name) for name in NEIGHBOURS}

    return Neighbours(floor, **load_or_make("neighbours", key, NEIGHBOURS, make, cache_dir))


def load_or_build_atlas(
    neighbours: Neighbours, features: Tensor, eligible: Tensor | None, cache_dir: Path, shipped: Path | None = None
) -> Atlas:
    """`build_atlas`, stored in `cache_dir`, unless the folder `shipped` has it."""
    key = _key_of((FORMAT, neighbours.floor, NEAREST, SEED), features, eligible)

    def make() -> Tensors:
        built = build_atlas(neighbours, features, eligible)
        return {name: getattr(built, name) for name in ATLAS}

    return Atlas(**load_or_make("atlas", key, ATLAS, make, cache_dir, shipped))


def _key_of(facts: tuple[object, ...], features: Tensor, eligible: Tensor | None) -> str:
    usable = torch.ones(len(features), dtype=torch.bool) if eligible is None else eligible
    return content_key((*facts, features.dtype, tuple(features.shape)), features, usable)


def content_key(facts: tuple[object, ...], *tensors: Tensor) -> str:
    """Return a name for the content: equal inputs share it, and any change in them gives another."""
    digest = hashlib.sha256(repr(facts).encode())
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def load_or_make(
    kind: str, key: str, names: Sequence[str], make: Callable[[], Tensors], folder: Path, shipped: Path | None = None
) -> Tensors:
    """Load the tensors `names` of `KIND-KEY.safetensors` from `shipped` or `folder`, or make them and store them in `folder`.

    A file that was stored under another key, cannot be read, or cannot be stored, is a warning.
    """
    sweep(folder)
    name = f"{kind}-{key}.safetensors"
    for place in (shipped, folder):
        if place is None or not os.path.lexists(place / name):
            continue
        try:
            with safe_open(place / name, framework="pt") as file:
                if (file.metadata() or {}).get("key") != key:
                    raise ValueError("it was built from something else")
                return {each: file.get_tensor(each) for each in names}
        except (SafetensorError, OSError, ValueError) as error:
            warnings.warn(f"{name} in {place} cannot be used ({first_line(error)}).", stacklevel=3)
    made = make()
    try:
        write_safetensors(folder / name, made, {"key": key})
    except PCGError as error:
        warnings.warn(f"{first_line(error)}: the work goes on without it.", stacklevel=3)
    return made
