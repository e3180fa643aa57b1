"""Neighbour lists on disk, named by what they were built from: a stale file is never read, a damaged one is built anew."""

import hashlib
import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pcg.files import replacing
from pcg.groups.neighbours import Neighbours, build_neighbours

FORMAT = 1
DTYPES = {"indptr": torch.int64, "neighbours": torch.int32, "similarity": torch.float16}


def load_or_build(embedding: Tensor, floor: float, eligible: Tensor | None, cache_dir: Path) -> Neighbours:
    """`build_neighbours`, remembered in `cache_dir`."""
    key = _key(embedding, floor, eligible)
    path = cache_dir / f"neighbours-{key}.safetensors"
    if path.exists():
        try:
            return _load(path, key, floor, len(embedding) + 1)
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            warnings.warn(f"{path.name} in the cache cannot be used ({error}); building it again.", stacklevel=2)
    built = build_neighbours(embedding, floor, eligible)
    with replacing(path) as temporary:
        save_file({name: getattr(built, name) for name in DTYPES}, temporary, {"key": key})
    return built


def _key(embedding: Tensor, floor: float, eligible: Tensor | None) -> str:
    """A name for the content: equal inputs share it, and any change in them gives another."""
    digest = hashlib.sha256(repr((FORMAT, float(floor), embedding.dtype, tuple(embedding.shape))).encode())
    eligible = torch.ones(len(embedding), dtype=torch.bool) if eligible is None else eligible
    for tensor in (embedding.detach(), eligible):
        digest.update(tensor.cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def _load(path: Path, key: str, floor: float, vocabulary: int) -> Neighbours:
    with safe_open(path, framework="pt") as file:
        if (file.metadata() or {}).get("key") != key:
            raise ValueError("it was built from something else")
        loaded = Neighbours(floor, **{name: file.get_tensor(name) for name in DTYPES})
    _check(loaded, vocabulary)
    return loaded


def _check(loaded: Neighbours, vocabulary: int) -> None:
    """Raise ValueError unless the tensors fit together, so that no index into them can leave its bounds."""
    indptr, neighbours, similarity = loaded.indptr, loaded.neighbours, loaded.similarity
    if any(getattr(loaded, name).dtype != dtype for name, dtype in DTYPES.items()):
        raise ValueError("its numbers are of another kind")
    if indptr.shape != (vocabulary + 1,) or neighbours.ndim != 1 or neighbours.shape != similarity.shape:
        raise ValueError("its lists have another shape")
    if indptr[0] != 0 or indptr[-1] != len(neighbours) or not (indptr.diff() > 0).all():
        raise ValueError("its rows do not fit its lists")
    if not torch.equal(neighbours[indptr[:-1]], torch.arange(vocabulary, dtype=torch.int32)):
        raise ValueError("its tokens do not start their own rows")
    if neighbours.min() < 0 or neighbours.max() >= vocabulary:
        raise ValueError("it names tokens outside the vocabulary")
