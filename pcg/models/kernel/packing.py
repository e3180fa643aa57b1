"""A Llama's weights as the CPU kernel reads them: one ascending stream of panels (see `panels.py`)."""

import contextlib
import ctypes
import math
import mmap
import sys
from collections.abc import Sequence
from typing import NamedTuple

import llvmlite.binding as llvm
import numpy as np
import torch
from torch import Tensor

from pcg.models.kernel.panels import HEAD_DIM, UNROLLED, VECTORS
from pcg.models.kernel.tiles import TILE_INPUTS
from pcg.models.weights import FusedWeights

PAGE = 1 << 21
"""Bytes of a large page."""


class Packed(NamedTuple):
    """panels: the matrices of all layers and of the head, in the order in which they are read (a feature draft's begin with A1
    and A2). norms, mlp_norms `[layers, D]`; biases of queries, keys and values `[layers, out]` or `[layers, 0]`; norm `[D]`;
    embedding `[ids, D]`. inner: the MLP's width; size: the tokens that the head knows; rank: that of a head of two matrices,
    else 0; lanes: the floats in a vector."""

    panels: np.ndarray
    norms: np.ndarray
    mlp_norms: np.ndarray
    biases: np.ndarray
    norm: np.ndarray
    embedding: np.ndarray
    inner: int
    size: int
    rank: int
    heads: int
    lanes: int
    epsilon: np.float32

    @property
    def bytes(self) -> int:
        """What a step of a few tokens reads of it: all but the embedding."""
        return sum(part.nbytes for part in (self.panels, self.norms, self.mlp_norms, self.biases, self.norm))

    @property
    def bytes_each(self) -> int:
        """Of a weight."""
        return 2 if self.panels.dtype in (np.int32, np.uint32) else self.panels.itemsize


def lanes_here() -> int:
    """Floats in a vector of this CPU; 0 where it has no fused multiply-adds, so that the kernel would not pay."""
    if llvm.get_process_triple().startswith(("aarch64", "arm64")):
        return 8
    has = llvm.get_host_cpu_features()
    if has.get("avx512f"):
        return 16
    return 8 if all(has.get(name) for name in ("avx2", "fma")) else 0


def words_here(lanes: int, inputs: Sequence[int]) -> type | None:
    """Return the type of the words in which this CPU multiplies pairs of bfloat16 numbers for so many `inputs`: uint32 by tiles
    (AMX: Intel's servers since Sapphire Rapids), int32 by vectors (AVX512-BF16: AMD since Zen 4), None if neither."""
    has = llvm.get_host_cpu_features()
    if lanes != 16:
        return None
    if has.get("amx-bf16") and all(count % TILE_INPUTS == 0 for count in inputs) and _tiles_allowed():
        return np.uint32
    return np.int32 if has.get("avx512bf16") else None


def _tiles_allowed() -> bool:
    """Ask Linux for this process's use of tiles (the kernel's documentation, "Using XSTATE features in user space")."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return sys.platform == "linux" and ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0


def is_bfloat16(matrices: Sequence[Tensor]) -> bool:
    """Return whether all these are exact in bfloat16."""
    return all(_is_brain(m.numpy()) for m in matrices)


def fits(weights: FusedWeights, dim: int, lanes: int) -> bool:
    """Return whether the kernel can read a model: float32 on a CPU, heads of 64, and outputs that fill panels."""
    panel = VECTORS * lanes
    whole = lanes > 0 and all(m.shape[1] % panel == 0 and m.shape[2] % UNROLLED == 0 for m in weights.matrices)
    return whole and dim == HEAD_DIM and weights.norm.device.type == "cpu" and weights.norm.dtype == torch.float32


def pack(
    weights: FusedWeights,
    before: Sequence[Tensor],
    norm: Tensor,
    head: Sequence[Tensor],
    embedding: Tensor,
    heads: int,
    epsilon: float,
    lanes: int,
    words: type | None = None,
) -> Packed:
    """Pack all layers of `weights` between a feature draft's input matrices (`before`) and the final `norm` and `head`, which
    is one matrix `[V, D]` or two: `[rank, D]` and `[V, rank]`. words: as in `packed`."""
    w = weights
    layers = [part[layer].numpy() for layer in range(w.layers) for part in (w.qkv, w.out, w.gate_up, w.down)]
    last = [matrix.numpy() for matrix in head]
    if len(last) == 2:  # the first matrix's outputs, `rank` of them, have to fill whole panels, too
        lacking = -len(last[0]) % (VECTORS * lanes)
        last = [np.pad(last[0], ((0, lacking), (0, 0))), np.pad(last[1], ((0, 0), (0, lacking)))]
    panels = packed([*(matrix.numpy() for matrix in before), *layers, *last], lanes, words)
    arrays = [tensor.numpy() for tensor in (w.norm, w.mlp_norm, w.qkv_bias, norm, embedding)]
    rank = last[0].shape[0] if len(last) == 2 else 0
    return Packed(panels, *arrays, w.down.shape[2], len(last[-1]), rank, heads, lanes, np.float32(epsilon))


def packed(matrices: Sequence[np.ndarray], lanes: int, words: type | None = None) -> np.ndarray:
    """Lay the float32 `matrices` out as panels, each `[out, in]`, one behind the other; missing outputs become zero rows.

    bfloat16 (int16) where it holds every weight exactly, else float32. words: the weights of two inputs in bfloat16 lie in one
    word of this type, for inputs that are rounded, too (`panels.py`).
    """
    panel = VECTORS * lanes
    kind = np.dtype(np.int16 if all(map(_is_brain, matrices)) else np.float32)
    outputs = [-(-len(m) // panel) * panel for m in matrices]
    pairs = words is not None and kind == np.int16
    panels = in_large_pages((sum(out * m.shape[1] for out, m in zip(outputs, matrices, strict=True)),), kind)
    at = 0
    for out, m in zip(outputs, matrices, strict=True):
        rows = np.concatenate([m, np.zeros((out - len(m), m.shape[1]), np.float32)]) if out > len(m) else m
        place, vectors = panels[at : at + rows.size], rows.reshape(out // panel, VECTORS, lanes, m.shape[1])
        if pairs:
            upper = np.ascontiguousarray(vectors.transpose(0, 3, 1, 2)).view(np.uint32) >> 16
            first, second = np.split(upper, 2, axis=1)
            place[:] = (first | second << 16).ravel().view(np.int16)
        elif kind == np.int16:  # see `vectors.pair`
            both = np.ascontiguousarray(vectors[:, ::-1].transpose(0, 3, 2, 1)).view(np.int32)
            place[:] = (both >> 16).ravel()
        else:
            place[:] = vectors.transpose(0, 3, 1, 2).ravel()
        at += rows.size
    return panels.view(words) if pairs else panels


def _is_brain(matrix: np.ndarray) -> bool:
    return not (np.ascontiguousarray(matrix).view(np.uint32) & 0xFFFF).any()


def in_large_pages(shape: tuple[int, ...], kind: np.dtype | type) -> np.ndarray:
    """Zeros in memory that comes from the system anew, 4 KB or more behind them too, in pages of 2 MB where it has them. Memory
    of the process that is used again keeps its small pages, and a stream of weights stops at the end of each."""
    size = max(1, math.prod(shape) * np.dtype(kind).itemsize)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    memory = mmap.mmap(-1, size + PAGE, **private)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    first = -np.frombuffer(memory, np.uint8).ctypes.data % PAGE
    return np.frombuffer(memory, kind, math.prod(shape), first).reshape(shape)
