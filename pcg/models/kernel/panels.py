"""The CPU kernel's inner loops, as LLVM IR inside numba: what its own loop vectoriser does not find.

A matrix `[out, in]` lies in panels `[out / panel][in][panel]`, a panel being two vectors of `lanes` floats (16 on AVX-512, else
8). Every vector of weights that is loaded feeds one fused multiply-add a token with a broadcast input, so nothing is summed
across lanes and the weights are one ascending stream, however many tokens there are. The element type of a panel array says
how a weight is stored: float32 or int16 (bfloat16).

Panels of int32 hold bfloat16 weights for inputs that are rounded to bfloat16, too (`arithmetic.round_inputs`): words
`[out / panel][in / 2][panel]`, of the weights of inputs i and in / 2 + i, which AVX512-BF16 multiplies in one instruction.
Panels of uint32 hold the same for tiles (`tiles.py`).

`lanes` and `tokens` are values, and all variants are compiled: what numba keeps on disk depends on no constant that this CPU
chose, and the code of other CPUs can be tested on this one.
"""

from collections.abc import Callable, Sequence
from itertools import product

from llvmlite import ir
from numba import types
from numba.core.base import BaseContext
from numba.core.typing import Signature
from numba.extending import intrinsic

from pcg.models.kernel import tiles
from pcg.models.kernel.vectors import (
    BRAIN,
    I32,
    I64,
    LINE,
    NOTHING,
    POINTER,
    F,
    Values,
    add_products,
    address,
    broadcast,
    load,
    loop,
    multiply_add,
    pair,
    prefetch,
    sum_each,
)

HEAD_DIM = 64
VECTORS = 2
"""Vectors in a panel."""
TOKENS_IN_REGISTERS = {16: 8, 8: 6}
"""By lanes: AVX-512 has 32 registers, AVX2 16; each token takes two for its sums."""
NEIGHBOURS = 8
"""For so many tokens a key or value is loaded once."""
UNROLLED = 4
SLOTS_AT_ONCE = 4
"""Of keys and values; what the last four lack is read from what lies behind them (`in_large_pages`), with a share of zero."""
AHEAD = 8192
"""Bytes from what is read to what is asked for: with few registers the CPU alone falls behind, as it computes for longer."""
STORED = {types.float32: F, types.int16: BRAIN, types.int32: I32, types.uint32: I32}
"""How an element of an array of panels lies in memory, by the array's type."""

TILES = (16, 0)
"""The one variant of what tiles do: their shape says how many rows they have."""


@intrinsic
def multiply_panel(typing, lanes, tokens, panels, at, x, x_at, x_stride, y, y_at, y_stride, count):
    """`y[m, :panel] = sum over i < count of panel[i, :panel] x[m, i]` for `tokens` rows m; count % 4 == 0.

    `at`, `x_at` and `y_at` say where in their arrays the panel, `x[0]` and `y[0]` begin, the strides how far apart rows lie,
    all in elements.
    """
    kind = STORED[panels.dtype]

    def generate(context: BaseContext, b: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        lanes, tokens, panels, at, x, x_at, x_stride, y, y_at, y_stride, count = args
        array = addresses(context, b, signature)
        inputs = [array(2, panels, at, kind), array(4, x, x_at), array(7, y, y_at), x_stride, y_stride, count]
        if signature.args[2].dtype == types.uint32:
            call_variant(
                b, "multiply.tiles", [TILES], *map(I64, TILES), inputs, lambda b, each, *_: tiles.multiply(b, each, VECTORS)
            )
            return context.get_dummy_value()
        wide = {16: TOKENS_IN_REGISTERS[16]} if kind == I32 else TOKENS_IN_REGISTERS
        variants = [(width, m) for width, most in wide.items() for m in range(1, most + 1)]
        call_variant(b, f"multiply.{kind}", variants, lanes, tokens, inputs, lambda *each: _multiply(*each, kind))
        return context.get_dummy_value()

    n = types.int64
    return types.none(n, n, panels, n, x, n, n, y, n, n, n), generate


@intrinsic
def score_keys(typing, lanes, tokens, q, q_at, q_stride, keys, at, scores, stride, count):
    """`scores[m, j] = q[m] . keys[j]` for j < count and `tokens` rows m; count % SLOTS_AT_ONCE == 0."""

    def generate(context: BaseContext, b: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        lanes, tokens, q, q_at, q_stride, keys, at, scores, stride, count = args
        array = addresses(context, b, signature)
        inputs = [array(2, q, q_at), array(5, keys, at), array(7, scores, I64(0)), q_stride, stride, tokens, count]
        call_variant(b, "score", [(width, 0) for width in TOKENS_IN_REGISTERS], lanes, I64(0), inputs, _score)
        return context.get_dummy_value()

    n = types.int64
    return types.none(n, n, q, n, n, keys, n, scores, n, n), generate


@intrinsic
def mix_values(typing, lanes, tokens, shares, stride, values, at, y, y_at, y_stride, count):
    """Add to `y[m]` the sum over j < count of `shares[m, j] values[j]` for `tokens` rows m; count as there."""

    def generate(context: BaseContext, b: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        lanes, tokens, shares, stride, values, at, y, y_at, y_stride, count = args
        array = addresses(context, b, signature)
        inputs = [array(2, shares, I64(0)), array(4, values, at), array(6, y, y_at), stride, y_stride, count]
        call_variant(b, "mix", product(TOKENS_IN_REGISTERS, range(1, NEIGHBOURS + 1)), lanes, tokens, inputs, _mix)
        return context.get_dummy_value()

    n = types.int64
    return types.none(n, n, shares, n, values, n, y, n, n, n), generate


@intrinsic
def power_of_two(typing, exponent):
    """2 to the `exponent`, an int32 between -126 and 127, as a float32: the exponent of a float is its upper bits."""

    def generate(context: BaseContext, b: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return b.bitcast(b.shl(b.add(args[0], I32(127)), I32(23)), F)

    return types.float32(types.int32), generate


def addresses(context: BaseContext, b: ir.IRBuilder, signature: Signature) -> Callable[..., ir.Value]:
    """Return the address of an element of the contiguous array that is argument `place`."""

    def array(place: int, value: ir.Value, index: ir.Value, kind: ir.Type = F) -> ir.Value:
        return address(b, context.make_array(signature.args[place])(context, b, value).data, index, kind)

    return array


def call_variant(
    b: ir.IRBuilder,
    name: str,
    variants: Sequence[tuple[int, int]],
    lanes: ir.Value,
    tokens: ir.Value,
    inputs: Values,
    write: Callable[[ir.IRBuilder, Values, int, int], None],
) -> None:
    """Call the variant for (lanes, tokens). Each is a function that is written once a module: inlined, they would multiply."""
    after = b.append_basic_block("called")
    switch = b.switch(b.add(b.mul(lanes, I64(256)), tokens), after)
    for width, count in variants:
        called = f"pcg.{name}.{width}.{count}"
        function = b.module.globals.get(called)
        if function is None:
            kinds = [POINTER if value.type.is_pointer else value.type for value in inputs]
            function = ir.Function(b.module, ir.FunctionType(NOTHING, kinds), called)
            function.linkage = "internal"
            function.attributes.add("noinline")
            inner = ir.IRBuilder(function.append_basic_block("entry"))
            write(inner, function.args, width, count)
            inner.ret_void()
        block = b.append_basic_block("variant")
        switch.add_case(I64(256 * width + count), block)
        with b.goto_block(block):
            b.call(function, inputs)
            b.branch(after)
    b.position_at_end(after)


def _multiply(b: ir.IRBuilder, args: Values, lanes: int, tokens: int, kind: ir.Type) -> None:
    """Multiply in an order that does not depend on the number of tokens, so that a row has the same bits in every batch."""
    weights, x, y, x_stride, y_stride, count = args
    panel, inputs, size = VECTORS * lanes, 2 if kind == I32 else 1, 2 if kind == BRAIN else 4
    number, add = (I32, add_products) if kind == I32 else (F, multiply_add)
    rows = [address(b, x, b.mul(x_stride, I64(m))) for m in range(tokens)]

    def step(i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        grown = list(sums)
        for line in range(0, UNROLLED // inputs * panel * size if kind != I32 and tokens > 2 else 0, LINE):
            prefetch(b, address(b, weights, b.add(b.mul(i, I64(panel)), I64((AHEAD + line) // size)), kind))
        for u in range(UNROLLED // inputs):
            place = b.add(i, I64(u))
            first = b.mul(place, I64(panel))
            loaded = pair(b, address(b, weights, first, kind), kind, lanes)
            for m in range(tokens):
                one = broadcast(b, load(b, address(b, rows[m], place), number), lanes)
                for v in range(VECTORS):
                    grown[m * VECTORS + v] = add(b, loaded[v], one, grown[m * VECTORS + v])
        return grown

    zero = ir.Constant(ir.VectorType(F, lanes), None)
    sums = loop(b, b.sdiv(count, I64(inputs)), UNROLLED // inputs, [zero] * (tokens * VECTORS), step)
    for m in range(tokens):
        for v in range(VECTORS):
            b.store(sums[m * VECTORS + v], address(b, y, b.add(b.mul(y_stride, I64(m)), I64(v * lanes))), align=4)


def _score(b: ir.IRBuilder, args: Values, lanes: int, _: int) -> None:
    q, keys, scores, q_stride, stride, tokens, count = args
    vector, parts, each = ir.VectorType(F, lanes), range(HEAD_DIM // lanes), range(SLOTS_AT_ONCE)
    fit = len(parts) * SLOTS_AT_ONCE <= 2 * TOKENS_IN_REGISTERS[lanes]

    def step(j: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        first = b.mul(j, I64(HEAD_DIM))

        def key(k: int, part: int) -> ir.Value:
            return load(b, address(b, keys, b.add(first, I64(k * HEAD_DIM + part * lanes))), vector)

        held = {(k, part): key(k, part) for k in each for part in parts if fit}

        def score(m: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            query = address(b, q, b.mul(q_stride, m))
            ones = [load(b, address(b, query, I64(part * lanes)), vector) for part in parts]
            totals = []
            for k in each:
                total = b.fmul(held.get((k, 0)) or key(k, 0), ones[0])
                for part in parts[1:]:
                    total = multiply_add(b, held.get((k, part)) or key(k, part), ones[part], total)
                totals.append(total)
            b.store(sum_each(b, totals), address(b, scores, b.add(b.mul(stride, m), j)), align=4)
            return []

        return loop(b, tokens, 1, [], score)

    loop(b, count, SLOTS_AT_ONCE, [], step)


def _mix(b: ir.IRBuilder, args: Values, lanes: int, tokens: int) -> None:
    shares, values, y, stride, y_stride, count = args
    vector, parts = ir.VectorType(F, lanes), HEAD_DIM // lanes
    together = parts  # parts of a head whose sums fit into the registers at once
    while tokens * together > 3 * lanes // 2:
        together //= 2

    def block(first: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        for begun in range(0, parts, together):
            rows, columns = range(tokens), range(begun * lanes, (begun + together) * lanes, lanes)
            mixed = [address(b, y, b.add(b.mul(y_stride, I64(m)), I64(column))) for m in rows for column in columns]

            def step(i: ir.Value, sums: list[ir.Value], begun: int = begun) -> list[ir.Value]:
                j = b.add(first, i)
                slot = b.mul(j, I64(HEAD_DIM))
                for number in range(0, HEAD_DIM if begun == 0 and together < parts else 0, LINE // 4):
                    prefetch(b, address(b, values, b.add(slot, I64(AHEAD // 4 + number))))
                starts = [b.add(slot, I64((begun + part) * lanes)) for part in range(together)]
                loaded = [load(b, address(b, values, start), vector) for start in starts]
                shared = [load(b, address(b, shares, b.add(b.mul(stride, I64(m)), j)), F) for m in range(tokens)]
                spread = [broadcast(b, share, lanes) for share in shared]
                return [multiply_add(b, loaded[s % together], spread[s // together], sums[s]) for s in range(len(sums))]

            sums = loop(b, I64(SLOTS_AT_ONCE), 1, [load(b, each, vector) for each in mixed], step)
            for total, each in zip(sums, mixed, strict=True):
                b.store(total, each, align=4)
        return []

    loop(b, count, SLOTS_AT_ONCE, [], block)
