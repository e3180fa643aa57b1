"""Tensors on disk, named by what they were made from, and with a digest: a stale file is never read, a damaged one is made
anew."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from threading import RLock

import torch
from torch import Tensor, nn

from pcg.codec.codec import Codec
from pcg.codec.embedded import FSQ, log_mel
from pcg.errors import InputError
from pcg.groups.atlas import Atlas, load_or_build_atlas
from pcg.groups.groups import Groups
from pcg.groups.neighbours import MAX_PAIRS, CosineSample, Neighbours, Progress, near_in_both
from pcg.groups.store import content_key, load_or_build, load_or_make
from pcg.settings import SIMILARITIES

DTYPES = {"indptr": torch.int64, "neighbours": torch.int32, "similarity": torch.float16}
Tensors = dict[str, Tensor]


REPEATS = 5
MELS = 80
CODES_AT_ONCE = 64


def mel_features(codec: Codec, progress: Progress | None = None) -> Tensor:
    """How each code sounds, `[codes, frames * 80]` float32: a log-mel spectrogram in nats, less its mean over the codes.

    The context is the code itself, which favours none: it is decoded five times in a row, so that decoder and vocoder have
    settled in the middle, and the middle one is what counts, in Hann-windowed frames of about 10 ms, four frames wide. What all
    codes share (the vocoder's noise floor, the slope of speech) would make every cosine large, hence the mean. Codecs that have
    `decode_batch` (codes `[B, T]` -> samples `[B, T * hop]`) decode 64 codes at once. `progress` counts codes.
    """
    frames = max(1, round(100 * codec.hop / codec.sample_rate))
    frame = codec.hop // frames
    first = REPEATS // 2 * codec.hop // frame
    spectra = []
    for codes in torch.arange(codec.codebook_size).split(CODES_AT_ONCE):
        waves = _decode_each(codec, codes[:, None].expand(-1, REPEATS))
        mel = log_mel(waves, 4 * frame, frame, MELS, codec.sample_rate)
        spectra.append(mel[:, first : first + frames].flatten(1))
        if progress:
            progress(int(codes[-1]) + 1, codec.codebook_size)
    stacked = torch.cat(spectra)
    return stacked - stacked.mean(0)


def fsq_features(fsq: FSQ) -> Tensor:
    """The digits of each code as thermometers, `[codes, sum(levels - 1)]` of +1 and -1.

    Digit d of L levels has +1 in its first d of L - 1 places, so that the cosine of two codes is 1 - 2 L1 / max: one step of
    one digit costs the same everywhere, and opposite corners of the lattice lie at -1.
    """
    digits = fsq.digits(torch.arange(fsq.codebook_size))
    thermometers = [digits[:, [i]] > torch.arange(levels - 1) for i, levels in enumerate(fsq.levels)]
    return 2 * torch.cat(thermometers, dim=1).float() - 1


def theta_for(neighbours: Neighbours, mean_size: float) -> float:
    """The theta whose groups come closest to `mean_size` tokens in the mean (of |G(t)| over all tokens): exact, by counting.

    It lies amid the thetas that give the same groups. Raises InputError if the lists' floor is too high for that size.
    """
    values, counts = neighbours.levels
    largest = neighbours.mean_size_at(neighbours.floor)
    if not 1 <= mean_size <= largest:
        raise InputError("mean_size", mean_size, f"from 1 to {largest:g}, which the floor {neighbours.floor:g} leaves")
    edges = torch.tensor([1.0, *values, neighbours.floor], dtype=torch.float64)
    sizes = 1 + torch.tensor([0, *counts], dtype=torch.float64).cumsum(0) / neighbours.vocabulary
    best = int((sizes - mean_size).abs().argmin())
    return float((edges[best] + edges[best + 1]) / 2)


def _decode_each(codec: Codec, codes: Tensor) -> Tensor:
    """Codes `[B, T]` -> samples `[B, T * hop]`, every row an utterance of its own."""
    batch = getattr(codec, "decode_batch", None)
    return batch(codes) if batch else torch.stack([codec.decode(row) for row in codes])


LIBRARY_FORMAT = 1
PROBE_CODES = 64
# A sample may err, and lists too long would be refused.
AIM = 0.8


class GroupLibrary:
    """Groups of the codes of `embedding [codes, D]` (PCG section 2.1), or by another similarity of `codec`'s codes.

    usage_mask `[codes]`, bool: the codes that the corpus used; the others stand alone. floor: the lowest theta wanted; it is
    raised for a similarity that would leave more pairs above it than can be kept, and `neighbours(...).floor` tells. Lists are
    built on first use, stored by content in `cache_dir`, and kept; `shipped` is a folder that may hold the map. Threads may
    share a library. `announce` makes a `Progress` of the name of what is being built. Raises InputError if
    embedding and codec have different numbers of codes.
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
        announce: Callable[[str], Progress] | None = None,
    ) -> None:
        if len(embedding) != codec.codebook_size:
            raise InputError("embedding", f"of {len(embedding)} codes", f"of the codec's {codec.codebook_size} codes")
        self._embedding, self._codec, self._eligible = embedding, codec, usage_mask
        self._floor, self._cache, self._shipped = floor, cache_dir, shipped
        self._device, self._announce = device, announce
        self._lists: dict[str, Neighbours] = {}
        self._atlas: Atlas | None = None
        self._building = RLock()
        self._groups = lru_cache(maxsize=32)(self._groups_at)

    @property
    def similarities(self) -> tuple[str, ...]:
        """Those that this codec allows: "fsq" needs the digits of its codes."""
        return tuple(name for name in SIMILARITIES if name != "fsq" or hasattr(self._codec, "fsq"))

    def neighbours(self, similarity: str = "cosine") -> Neighbours:
        if similarity not in self.similarities:
            raise InputError("similarity", similarity, "one of " + ", ".join(self.similarities))
        if similarity not in self._lists:
            with self._building:
                if similarity not in self._lists:
                    self._lists[similarity] = self._build(similarity)
        return self._lists[similarity]

    def groups(self, theta: float, similarity: str = "cosine") -> Groups:
        """The groups at `theta` on the scale of `similarity`; the last 32 are kept."""
        return self._groups(theta, similarity)

    def atlas(self) -> Atlas:
        """The map of the embedding."""
        with self._building:
            if self._atlas is None:
                lists, vectors = self.neighbours(), self._embedding
                self._atlas = load_or_build_atlas(lists, vectors, self._eligible, self._cache, self._shipped)
            return self._atlas

    def _groups_at(self, theta: float, similarity: str) -> Groups:
        return self.neighbours(similarity).groups_at(theta)

    def _build(self, similarity: str) -> Neighbours:
        if similarity == "both":
            return near_in_both(self.neighbours("cosine"), self.neighbours("mel"))
        features = self._features(similarity)
        sample, floor = CosineSample.of(features, self._eligible), self._floor
        if sample.pairs_above(floor) > AIM * MAX_PAIRS:
            floor = sample.theta_leaving(AIM * MAX_PAIRS)
        return load_or_build(features, floor, self._eligible, self._cache, self._device, self._progress(similarity))

    def _features(self, similarity: str) -> Tensor:
        if similarity == "fsq":
            return fsq_features(self._codec.fsq)
        return self._mel() if similarity == "mel" else self._embedding

    def _mel(self) -> Tensor:
        """`mel_features`, stored: decoding every code takes longer than the search."""
        codes = self._codec.codebook_size
        key = content_key((LIBRARY_FORMAT, codes, self._codec.hop, self._codec.sample_rate), *self._identity())

        def check(tensors: Mapping[str, Tensor]) -> None:
            if tensors["mel"].ndim != 2 or len(tensors["mel"]) != codes:
                raise ValueError("its features have another shape")

        def make() -> dict[str, Tensor]:
            return {"mel": mel_features(self._codec, self._progress("decoding every code"))}

        return load_or_make(self._cache / f"mel-{key}.safetensors", key, {"mel": torch.float32}, make, check)["mel"]

    def _identity(self) -> list[Tensor]:
        """What tells the codec from others: its weights, or else what it makes of some codes."""
        if isinstance(self._codec, nn.Module):
            return list(self._codec.state_dict().values())
        return [self._codec.decode(torch.linspace(0, self._codec.codebook_size - 1, PROBE_CODES).long())]

    def _progress(self, label: str) -> Progress | None:
        return self._announce(label) if self._announce else None
