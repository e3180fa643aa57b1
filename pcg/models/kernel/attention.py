"""Attention in the CPU kernel, and the keys and values that it keeps: floats, or, in arrays of int32, rounded to bfloat16.

Floats lie as `[..., slot, 64]`. Of rounded numbers a word holds two, the first in its lower half, and AVX512-BF16 multiplies
both in one instruction: keys `[..., slot / 16, 32, 16]`, of which word i of a slot holds numbers i and 32 + i of its key;
values `[..., slot / 2, 64]`, of which word d holds number d of two neighbouring slots. Arrays of uint32 hold the same for
tiles (`tiles.py`).
"""

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.base import BaseContext
from numba.core.typing import Signature
from numba.extending import intrinsic, overload

from pcg.models.kernel import tiles
from pcg.models.kernel.arithmetic import round_pair, scratch, share
from pcg.models.kernel.panels import HEAD_DIM, NEIGHBOURS, SLOTS_AT_ONCE, TILES, addresses, call_variant, mix_values, score_keys
from pcg.models.kernel.tiles import rows_at_once, shape_tiles
from pcg.models.kernel.vectors import I32, I64, LINE, F, Values, add_products, address, broadcast, load, loop

SLOTS = 16
"""A block of rounded keys."""
WORDS = HEAD_DIM // 2
MOST_PAIRS = 16
"""Pairs of values that a tile holds."""
SUMS = 2
"""Of a score, each of every second word: one would wait for itself."""
ROUNDED_VARIANTS = [(SLOTS, rows) for rows in range(1, NEIGHBOURS + 1)]


def rounded_shapes(slots: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of the rounded keys and of the rounded values of `slots` tokens."""
    return (-(-slots // SLOTS), WORDS, SLOTS), (-(-slots // 2 // MOST_PAIRS) * MOST_PAIRS, HEAD_DIM)


Loop = Callable[[ir.IRBuilder, Values, int, int], None]


def _product(name: str, by_vectors: Loop, by_tiles: Loop) -> Callable[..., None]:
    """Multiply `rows` rows of words `x` with `count` > 0 pieces of what is kept from word `at` on, into `y`."""

    @intrinsic
    def product(typing, rows, x, kept, at, y, stride, count):
        def generate(context: BaseContext, b: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
            rows, x, kept, at, y, stride, count = args
            array = addresses(context, b, signature)
            inputs = [array(1, x, I64(0), I32), array(2, kept, at, I32), array(4, y, I64(0)), stride, count]
            if signature.args[2].dtype == types.uint32:
                call_variant(b, f"{name}.tiles", [TILES], *map(I64, TILES), inputs, by_tiles)
            else:
                call_variant(b, name, ROUNDED_VARIANTS, I64(SLOTS), rows, inputs, by_vectors)
            return context.get_dummy_value()

        n = types.int64
        return types.none(n, x, kept, n, y, n, n), generate

    return product


def _score(b: ir.IRBuilder, args: Values, lanes: int, rows: int) -> None:
    """Compute `scores[r, j] = q[r] . keys[j]` for the slots j of the blocks of keys; `q [rows, 32]`, words as a key's."""
    q, keys, scores, stride, blocks = args
    words, floats = ir.VectorType(I32, lanes), ir.VectorType(F, lanes)

    def block(j: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        first = b.mul(j, I64(WORDS * SLOTS))

        def step(i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            grown = list(sums)
            for u in range(SUMS):
                word = b.add(i, I64(u))
                here = b.add(first, b.mul(word, I64(SLOTS)))
                loaded = b.load(address(b, keys, here, I32), align=LINE, typ=words)
                for r in range(rows):
                    one = broadcast(b, load(b, address(b, q, b.add(word, I64(r * WORDS)), I32), I32), lanes)
                    grown[r * SUMS + u] = add_products(b, loaded, one, grown[r * SUMS + u])
            return grown

        sums = loop(b, I64(WORDS), SUMS, [ir.Constant(floats, None)] * (rows * SUMS), step)
        for r in range(rows):
            total = b.fadd(sums[r * SUMS], sums[r * SUMS + 1])
            b.store(total, address(b, scores, b.add(b.mul(stride, I64(r)), b.mul(j, I64(SLOTS)))), align=4)
        return []

    loop(b, blocks, 1, [], block)


def _mix(b: ir.IRBuilder, args: Values, lanes: int, rows: int) -> None:
    """`y[r] = sum over j of shares[r, j] values[j]` over the slots j of the pairs of values. Word i of a row of `shares` holds
    the rounded shares of the slots 2i and 2i + 1. The stride is that of the shares."""
    shares, values, y, stride, pairs = args
    words, floats, parts = ir.VectorType(I32, lanes), ir.VectorType(F, lanes), HEAD_DIM // lanes
    together = parts if rows * parts <= 3 * lanes // 2 else parts // 2  # so that the sums fit into the registers
    for begun in range(0, parts, together):

        def step(j: ir.Value, sums: list[ir.Value], begun: int = begun) -> list[ir.Value]:
            first = b.mul(j, I64(HEAD_DIM))
            starts = [b.add(first, I64((begun + part) * lanes)) for part in range(together)]
            loaded = [b.load(address(b, values, start, I32), align=LINE, typ=words) for start in starts]
            shared = [load(b, address(b, shares, b.add(b.mul(stride, I64(r)), j), I32), I32) for r in range(rows)]
            spread = [broadcast(b, word, lanes) for word in shared]
            return [add_products(b, loaded[s % together], spread[s // together], sums[s]) for s in range(len(sums))]

        sums = loop(b, pairs, 1, [ir.Constant(floats, None)] * (rows * together), step)
        for s, total in enumerate(sums):
            place = I64(s // together * HEAD_DIM + (begun + s % together) * lanes)
            b.store(total, address(b, y, place), align=4)


score_rounded = _product("score.rounded", _score, tiles.score)
mix_rounded = _product("mix.rounded", _mix, tiles.mix)


def keep(keys, values, layer, row, head, slot, projected, m, key, value):
    """Keep the key and value of a token, which begin at `key` and `value` of row m of `projected`, in `slot`."""


@overload(keep)
def _keep(keys, values, layer, row, head, slot, projected, m, key, value):
    def floats(keys, values, layer, row, head, slot, projected, m, key, value):
        keys[layer, row, head, slot] = projected[m, key : key + HEAD_DIM]
        values[layer, row, head, slot] = projected[m, value : value + HEAD_DIM]

    word = keys.dtype

    def rounded(keys, values, layer, row, head, slot, projected, m, key, value):
        bits = projected.view(np.uint32)
        block, place = keys[layer, row, head, slot // SLOTS], slot % SLOTS
        for i in range(WORDS):
            block[i, place] = word(round_pair(bits[m, key + i], bits[m, key + WORDS + i]))
        pair = values[layer, row, head, slot // 2]
        for d in range(HEAD_DIM):
            both = np.uint32(pair[d])
            upper = round_pair(bits[m, value + d], bits[m, value + d])
            kept = np.uint32(0xFFFF0000) if slot % 2 == 0 else np.uint32(0xFFFF)
            pair[d] = word(both & kept | upper & ~kept)

    return floats if keys.dtype == types.float32 else rounded


def attend(lanes, heads, projected, first, count, layer, row, start, keys, values, mixed):
    """Attention of the `count` tokens from `first` on, neighbours in a `row` from slot `start` on, into `mixed`."""


@overload(attend)
def _attend(lanes, heads, projected, first, count, layer, row, start, keys, values, mixed):
    return _attend_floats if keys.dtype == types.float32 else _attend_rounded


def _attend_floats(lanes, heads, projected, first, count, layer, row, start, keys, values, mixed):
    batch, kv_heads, capacity = keys.shape[1:4]
    stride, mixed_stride, apart = projected.shape[1], mixed.shape[1], capacity * HEAD_DIM
    size = -(-count // -(-count // NEIGHBOURS))
    scores = scratch(NEIGHBOURS, -(-(start + count) // SLOTS) * SLOTS)
    for m in range(first, first + count, size):
        some = min(size, first + count - m)
        seen = start + m - first + 1
        for h in range(heads):
            shared = h // (heads // kv_heads)
            at, place = ((layer * batch + row) * kv_heads + shared) * apart, h * HEAD_DIM
            end = -(-(seen + some - 1) // SLOTS_AT_ONCE) * SLOTS_AT_ONCE
            score_keys(lanes, some, projected, m * stride + place, stride, keys, at, scores, scores.shape[1], end)
            for n in range(some):
                share(scores[n, :end], seen + n)
            mixed[m : m + some, place : place + HEAD_DIM] = 0
            mix_values(lanes, some, scores, scores.shape[1], values, at, mixed, m * mixed_stride + place, mixed_stride, end)


def _attend_rounded(lanes, heads, projected, first, count, layer, row, start, keys, values, mixed):
    """Attend with the heads that share keys together: a row of these loops is a token's head."""
    batch, kv_heads, group = keys.shape[1], keys.shape[2], heads // keys.shape[2]
    rows, bits, together = count * group, projected.view(np.uint32), rows_at_once(keys, 1) * 2
    size = -(-rows // -(-rows // rows_at_once(keys, NEIGHBOURS)))
    width = -(-(start + count) // (2 * MOST_PAIRS)) * 2 * MOST_PAIRS
    queries, scores, y = scratch(size, WORDS), scratch(size, width), scratch(size, HEAD_DIM)
    shares = scratch(size, width // 2)
    shape_tiles(keys, size)
    q, words, found = queries.view(np.uint32), shares.view(np.uint32), scores.view(np.uint32)
    for shared in range(kv_heads):
        here = (layer * batch + row) * kv_heads + shared
        for begun in range(0, rows, size):
            begun = min(begun, rows - size)
            for r in range(size):
                m, place = first + (begun + r) // group, (shared * group + (begun + r) % group) * HEAD_DIM
                for i in range(WORDS):
                    q[r, i] = round_pair(bits[m, place + i], bits[m, place + WORDS + i])
            end = start + (begun + size - 1) // group + 1
            pairs = -(-end // together) * together // 2
            score_rounded(size, q, keys, here * keys.shape[3] * WORDS * SLOTS, scores, width, -(-end // SLOTS))
            for r in range(size):
                share(scores[r, : 2 * pairs], start + (begun + r) // group + 1)
                for i in range(pairs):
                    words[r, i] = round_pair(found[r, 2 * i], found[r, 2 * i + 1])
            mix_rounded(size, words, values, here * values.shape[3] * HEAD_DIM, y, width // 2, pairs)
            for r in range(size):
                m, place = first + (begun + r) // group, (shared * group + (begun + r) % group) * HEAD_DIM
                mixed[m, place : place + HEAD_DIM] = y[r]
