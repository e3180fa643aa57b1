"""Small pieces of LLVM IR on vectors of floats, which `panels.py` writes its loops with. Indices and counts are 64-bit."""

from collections.abc import Callable, Sequence

from llvmlite import ir

F, I8, I32, I64 = ir.FloatType(), ir.IntType(8), ir.IntType(32), ir.IntType(64)
BRAIN = ir.IntType(16)
POINTER, NOTHING = ir.PointerType(), ir.VoidType()


class _Brain(ir.Type):
    """bfloat16, which llvmlite does not know."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Brain)

    def __hash__(self) -> int:
        return hash(_Brain)


PAIRS = ir.VectorType(_Brain(), 32)
"""Sixteen pairs of bfloat16."""
LINE = 64
"""Bytes in a cache line."""
Values = Sequence[ir.Value]


def address(b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, kind: ir.Type = F) -> ir.Value:
    """Return the address of element `index` behind `pointer`."""
    return b.gep(pointer, [index], source_etype=kind)


def load(b: ir.IRBuilder, pointer: ir.Value, kind: ir.Type) -> ir.Value:
    """Return a float or a vector of them, from where any float may lie."""
    return b.load(pointer, align=4, typ=kind)


def prefetch(b: ir.IRBuilder, pointer: ir.Value) -> None:
    """Ask for a cache line that will be read, into the second cache."""
    call(b, "llvm.prefetch.p0", NOTHING, pointer, I32(0), I32(2), I32(1))


def pair(b: ir.IRBuilder, pointer: ir.Value, kind: ir.Type, lanes: int) -> list[ir.Value]:
    """Load two vectors of floats from 2 `lanes` numbers of a `kind`, aligned to a vector of them: F, or BRAIN (bfloat16, the
    upper 16 bits of a float). I32 are words, which hold two numbers each, and remain words.

    The numbers of the first vector in BRAIN lie in the upper halves of 32-bit words, those of the second in the lower halves:
    a mask and a shift make them floats.
    """
    floats, words = ir.VectorType(F, lanes), ir.VectorType(I32, lanes)
    if kind == BRAIN:
        both = b.load(pointer, align=4 * lanes, typ=words)
        first = b.and_(both, ir.Constant(words, [-(1 << 16)] * lanes))
        return [b.bitcast(each, floats) for each in (first, b.shl(both, ir.Constant(words, [16] * lanes)))]
    places = (pointer, address(b, pointer, I64(lanes), kind))
    return [b.load(place, align=4 * lanes, typ=ir.VectorType(kind, lanes)) for place in places]


def broadcast(b: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    nothing = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    return _shuffle(b, b.insert_element(nothing, scalar, I32(0)), nothing, [0] * lanes)


def multiply_add(b: ir.IRBuilder, one: ir.Value, other: ir.Value, added: ir.Value) -> ir.Value:
    """one * other + added, fused where the CPU can."""
    return call(b, f"llvm.fmuladd.v{one.type.count}f32", one.type, one, other, added)


def add_products(b: ir.IRBuilder, one: ir.Value, other: ir.Value, added: ir.Value) -> ir.Value:
    """Add to each of 16 floats in `added` the products of a pair of bfloat16 numbers in `one` and `other` (AVX512-BF16)."""
    pairs = b.bitcast(one, PAIRS), b.bitcast(other, PAIRS)
    return call(b, "llvm.x86.avx512bf16.dpbf16ps.512", added.type, added, *pairs)


def sum_each(b: ir.IRBuilder, totals: Sequence[ir.Value]) -> ir.Value:
    """Return the sums of four vectors as one vector of four: a transposition within each four lanes, added up on the way."""
    lanes = totals[0].type.count

    def paired(one: ir.Value, other: ir.Value, low: Sequence[int], high: Sequence[int]) -> ir.Value:
        fours = range(0, lanes, 4)
        masks = [[four + (i if i < 4 else lanes + i - 4) for four in fours for i in chosen] for chosen in (low, high)]
        return b.fadd(*(_shuffle(b, one, other, mask) for mask in masks))

    first, second = (paired(totals[k], totals[k + 1], (0, 4, 1, 5), (2, 6, 3, 7)) for k in (0, 2))
    total = paired(first, second, (0, 1, 4, 5), (2, 3, 6, 7))
    while lanes > 4:
        lanes //= 2
        total = b.fadd(_shuffle(b, total, total, range(lanes)), _shuffle(b, total, total, range(lanes, 2 * lanes)))
    return total


def loop(
    b: ir.IRBuilder, count: ir.Value, step: int, begun: Values, body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]]
) -> list[ir.Value]:
    """`body` for 0, step, 2 step ... below `count` > 0, with sums that begin as `begun`; returns the sums."""
    before, inside, after = b.block, b.append_basic_block("loop"), b.append_basic_block("done")
    b.branch(inside)
    b.position_at_end(inside)
    i = b.phi(I64)
    sums = [b.phi(each.type) for each in begun]
    grown = body(i, sums)
    following = b.add(i, I64(step))
    for phi, first, then in zip([i, *sums], [I64(0), *begun], [following, *grown], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(then, b.block)
    b.cbranch(b.icmp_signed("<", following, count), inside, after)
    b.position_at_end(after)
    return grown


def _shuffle(b: ir.IRBuilder, one: ir.Value, other: ir.Value, lanes: Sequence[int]) -> ir.Value:
    return b.shuffle_vector(one, other, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def call(b: ir.IRBuilder, name: str, answer: ir.Type, *inputs: ir.Value) -> ir.Value:
    """Call a function of LLVM's own."""
    kind = ir.FunctionType(answer, [each.type for each in inputs])
    return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), inputs)
