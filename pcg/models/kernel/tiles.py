"""Products of whole tiles (Intel AMX): what `panels.py` and `attention.py` do with vectors, for up to 16 rows at once.

A tile holds up to 16 rows of 64 bytes. One instruction multiplies a tile of inputs, `[rows, 16]` words, by a tile of weights,
`[16, 16]` words, and adds the result to a tile of sums, `[rows, 16]` floats; a word is a pair of bfloat16 numbers. Panels, keys
and values lie as tiles need them already, so only the type of their words, uint32 in place of int32, says who reads them.

A matrix of several tokens takes as long as that of one, while memory is what limits both: verification of drafts costs little.
The products of a sum are added up in another order than by AVX512-BF16, so last digits differ between the two.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.base import BaseContext
from numba.core.typing import Signature
from numba.extending import intrinsic, overload

from pcg.models.kernel.vectors import I8, I32, I64, NOTHING, POINTER, Values, address, call, loop

TILE_ROWS = 16
WORDS_ACROSS = 16
TILE_INPUTS = 2 * TILE_ROWS
BYTES = 4
"""In a word."""
SUMS, INPUTS, WEIGHTS = range(4), (4, 5), (6, 7)
"""Which of the eight tiles holds what."""


def shape_tiles(kept, rows):
    """Set the `rows` (at most 16) of the tiles, where `kept` is read by tiles, until `release_tiles`, for this thread."""


@overload(shape_tiles)
def _shape_tiles(kept, rows):
    def leave(kept, rows):
        pass

    def shape(kept, rows):
        shapes = np.zeros(64, np.uint8)  # Intel's manual, LDTILECFG: palette, bytes of a row from 16 on, rows from 48 on
        shapes[0] = 1
        for tile in range(8):
            shapes[16 + 2 * tile] = WORDS_ACROSS * BYTES
            shapes[48 + tile] = TILE_ROWS if tile in WEIGHTS else rows
        load_shapes(shapes)

    return shape if kept.dtype == types.uint32 else leave


def release_tiles(kept):
    """Release the tiles behind the last product of a call, or the system saves them at each change of threads."""


@overload(release_tiles)
def _release_tiles(kept):
    def leave(kept):
        pass

    def release(kept):
        forget_tiles()

    return release if kept.dtype == types.uint32 else leave


def rows_at_once(kept, otherwise):
    """Return how many rows of inputs one product of `kept` takes at most."""


@overload(rows_at_once)
def _rows_at_once(kept, otherwise):
    if kept.dtype == types.uint32:
        return lambda kept, otherwise: TILE_ROWS
    return lambda kept, otherwise: otherwise


@intrinsic
def load_shapes(typing, shapes):
    def generate(context: BaseContext, b: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        data = context.make_array(signature.args[0])(context, b, args[0]).data
        call(b, "llvm.x86.ldtilecfg", NOTHING, data)
        return context.get_dummy_value()

    return types.none(shapes), generate


@intrinsic
def forget_tiles(typing):
    def generate(context: BaseContext, b: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        call(b, "llvm.x86.tilerelease", NOTHING)
        return context.get_dummy_value()

    return types.none(), generate


def multiply(b: ir.IRBuilder, args: Values, across: int) -> None:
    """`panels._multiply` for as many tokens as the tiles have rows: of each 16 words of a row of `x`, and the words of the
    panel, which is `across` tiles wide, that belong to them."""
    weights, x, y, x_stride, y_stride, count = args
    width = I64(across * WORDS_ACROSS)
    for v in range(across):
        _zero(b, SUMS[v])

    def step(i: ir.Value, _: Values) -> list[ir.Value]:
        _load(b, INPUTS[0], address(b, x, i, I32), x_stride)
        for v in range(across):
            tile = WEIGHTS[v % len(WEIGHTS)]
            _load(b, tile, address(b, weights, b.add(b.mul(i, width), I64(v * WORDS_ACROSS)), I32), width)
            _multiply_add(b, SUMS[v], INPUTS[0], tile)
        return []

    loop(b, b.sdiv(count, I64(2)), TILE_ROWS, [], step)
    for v in range(across):
        _store(b, SUMS[v], address(b, y, I64(v * WORDS_ACROSS), I32), y_stride)


def score(b: ir.IRBuilder, args: Values, across: int, _: int) -> None:
    """`attention._score`: a block of keys is two tiles, and so are the queries."""
    q, keys, scores, stride, blocks = args
    halves, words = range(2), I64(across * 2)
    for half in halves:
        _load(b, INPUTS[half], address(b, q, I64(half * across), I32), words)

    def block(j: ir.Value, _: Values) -> list[ir.Value]:
        _zero(b, SUMS[0])
        for half in halves:
            first = b.add(b.mul(j, I64(2 * TILE_ROWS * across)), I64(half * TILE_ROWS * across))
            _load(b, WEIGHTS[half], address(b, keys, first, I32), I64(across))
            _multiply_add(b, SUMS[0], INPUTS[half], WEIGHTS[half])
        _store(b, SUMS[0], address(b, scores, b.mul(j, I64(across)), I32), stride)
        return []

    loop(b, blocks, 1, [], block)


def mix(b: ir.IRBuilder, args: Values, across: int, _: int) -> None:
    """`attention._mix`: the pairs of values are a multiple of 16."""
    shares, values, y, stride, pairs = args
    width = I64(len(SUMS) * across)
    for part in SUMS:
        _zero(b, part)

    def step(i: ir.Value, _: Values) -> list[ir.Value]:
        _load(b, INPUTS[0], address(b, shares, i, I32), stride)
        for part in SUMS:
            tile = WEIGHTS[part % len(WEIGHTS)]
            _load(b, tile, address(b, values, b.add(b.mul(i, width), I64(part * across)), I32), width)
            _multiply_add(b, part, INPUTS[0], tile)
        return []

    loop(b, pairs, TILE_ROWS, [], step)
    for part in SUMS:
        _store(b, part, address(b, y, I64(part * across), I32), width)


def _zero(b: ir.IRBuilder, tile: int) -> None:
    call(b, "llvm.x86.tilezero", NOTHING, I8(tile))


def _load(b: ir.IRBuilder, tile: int, start: ir.Value, stride: ir.Value) -> None:
    """stride: words from row to row, as in `_store`."""
    call(b, "llvm.x86.tileloadd64", NOTHING, I8(tile), b.bitcast(start, POINTER), b.mul(stride, I64(BYTES)))


def _store(b: ir.IRBuilder, tile: int, start: ir.Value, stride: ir.Value) -> None:
    call(b, "llvm.x86.tilestored64", NOTHING, I8(tile), b.bitcast(start, POINTER), b.mul(stride, I64(BYTES)))


def _multiply_add(b: ir.IRBuilder, sums: int, inputs: int, weights: int) -> None:
    call(b, "llvm.x86.tdpbf16ps", NOTHING, I8(sums), I8(inputs), I8(weights))
