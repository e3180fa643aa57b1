"""Tensors on disk, named by what they were made from, and with a digest: a stale file is never read, a damaged one is made
anew."""

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pcg.errors import PCGError, first_line
from pcg.files import sweep, write_safetensors
from pcg.groups.neighbours import Neighbours, Progress, build_neighbours

FORMAT = 1
DTYPES = {"indptr": torch.int64, "neighbours": torch.int32, "similarity": torch.float16}
Tensors = dict[str, Tensor]


def load_or_build(
    features: Tensor,
    floor: float,
    eligible: Tensor | None,
    cache_dir: Path,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Neighbours:
    """`build_neighbours`, remembered in `cache_dir`."""
    usable = torch.ones(len(features), dtype=torch.bool) if eligible is None else eligible
    key = content_key((FORMAT, float(floor), features.dtype, tuple(features.shape)), features, usable)

    def make() -> Tensors:
        built = build_neighbours(features, floor, eligible, device, progress)
        return {name: getattr(built, name) for name in DTYPES}

    def check(tensors: Mapping[str, Tensor]) -> None:
        _check(Neighbours(floor, **tensors), len(features) + 1)

    return Neighbours(floor, **load_or_make(cache_dir / f"neighbours-{key}.safetensors", key, DTYPES, make, check))


def content_key(facts: tuple[object, ...], *tensors: Tensor) -> str:
    """A name for the content: equal inputs share it, and any change in them gives another."""
    digest = hashlib.sha256(repr(facts).encode())
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def load_or_make(
    path: Path,
    key: str,
    dtypes: Mapping[str, torch.dtype],
    make: Callable[[], Tensors],
    check: Callable[[Mapping[str, Tensor]], None],
    shipped: Path | None = None,
) -> Tensors:
    """The tensors in the file `shipped` or `path`, if it was stored under `key` with these names and dtypes, is undamaged, and
    `check` raises no ValueError; else what `make` returns, stored in `path` whole or not at all.

    A file that cannot be used, or cannot be stored, is a warning.
    """
    sweep(path.parent)
    for file in (shipped, path):
        if file is None or not os.path.lexists(file):
            continue
        try:
            loaded = _load(file, key, dtypes)
            check(loaded)
            return loaded
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            warnings.warn(f"{file.name} in {file.parent} cannot be used ({first_line(error)}).", stacklevel=3)
    made = make()
    try:
        write_safetensors(path, made, {"key": key, "digest": _digest(made)})
    except PCGError as error:
        warnings.warn(f"{first_line(error)}: the work goes on without it.", stacklevel=3)
    return made


def _load(path: Path, key: str, dtypes: Mapping[str, torch.dtype]) -> Tensors:
    with safe_open(path, framework="pt") as file:
        facts = file.metadata() or {}
        loaded = {name: file.get_tensor(name) for name in dtypes}
    if facts.get("key") != key:
        raise ValueError("it was built from something else")
    if any(loaded[name].dtype != dtype for name, dtype in dtypes.items()):
        raise ValueError("its numbers are of another kind")
    if facts.get("digest") != _digest(loaded):
        raise ValueError("its digest is missing, or that of other numbers")
    return loaded


def _digest(tensors: Tensors) -> str:
    names = sorted(tensors)
    return content_key(tuple((name, tuple(tensors[name].shape)) for name in names), *(tensors[name] for name in names))


def _check(loaded: Neighbours, vocabulary: int) -> None:
    """Raise ValueError unless the tensors fit together, so that no index into them can leave its bounds."""
    indptr, neighbours, similarity = loaded.indptr, loaded.neighbours, loaded.similarity
    if indptr.shape != (vocabulary + 1,) or neighbours.ndim != 1 or neighbours.shape != similarity.shape:
        raise ValueError("its lists have another shape")
    if indptr[0] != 0 or indptr[-1] != len(neighbours) or not (indptr.diff() > 0).all():
        raise ValueError("its rows do not fit its lists")
    if not torch.equal(neighbours[indptr[:-1]], torch.arange(vocabulary, dtype=torch.int32)):
        raise ValueError("its tokens do not start their own rows")
    if neighbours.min() < 0 or neighbours.max() >= vocabulary:
        raise ValueError("it names tokens outside the vocabulary")
