"""What the CPU kernel computes beside matrix products and attention, in loops that numba's compiler vectorises itself."""

import numpy as np
from numba import njit, types
from numba.extending import overload

from pcg.models.kernel.panels import HEAD_DIM, power_of_two

WORDS = (types.int32, types.uint32)
"""The types of arrays that hold pairs of bfloat16 numbers."""
CACHE_LINE = 64
BLOCK = 256
"""A draw adds up blocks of so many weights first."""


def _fold(combine, start):
    """Fold an array by a `combine` of two numbers in an order that is written here: the compiler's order differs between a
    process that compiles and one that reads its cache, and so would the last digits of a sum."""
    combine = njit(combine)

    @njit(nogil=True)
    def folded(numbers):
        a = b = c = d = e = f = g = h = start
        whole = len(numbers) // 8 * 8
        for i in range(0, whole, 8):
            a = combine(a, numbers[i])
            b = combine(b, numbers[i + 1])
            c = combine(c, numbers[i + 2])
            d = combine(d, numbers[i + 3])
            e = combine(e, numbers[i + 4])
            f = combine(f, numbers[i + 5])
            g = combine(g, numbers[i + 6])
            h = combine(h, numbers[i + 7])
        for i in range(whole, len(numbers)):
            a = combine(a, numbers[i])
        return combine(combine(combine(a, e), combine(b, f)), combine(combine(c, g), combine(d, h)))

    return folded


_total = _fold(lambda one, other: one + other, np.float32(0))
_greatest = _fold(lambda one, other: max(one, other), np.float32(-np.inf))


@njit(fastmath=True, nogil=True)
def share(scores, seen):
    """Softmax of the first `seen` scores, divided by the root of the head's width; the others become zero."""
    top, scale = _greatest(scores[:seen]), np.float32(HEAD_DIM**-0.5)
    for j in range(seen):
        scores[j] = _exp((scores[j] - top) * scale)
    share = np.float32(1) / _total(scores[:seen])
    for j in range(seen):
        scores[j] *= share
    scores[seen:] = np.float32(0)


@njit(fastmath=True, nogil=True)
def soften(logits, temperature, probs):
    """Softmax of `logits [V]` at `temperature` into `probs [V]`."""
    top, inverse = _greatest(logits), np.float32(1 / temperature)
    for i in range(len(logits)):
        probs[i] = _exp((logits[i] - top) * inverse)
    share = np.float32(1) / _total(probs)
    for i in range(len(logits)):
        probs[i] *= share


@njit(nogil=True, cache=True)
def soften_rows(logits, temperature):
    """Softmax of each row of `logits [R, V]` at `temperature`, `[R, V]`."""
    probs = np.empty(logits.shape, np.float32)
    for row in range(len(logits)):
        soften(logits[row], temperature, probs[row])
    return probs


@njit(nogil=True, cache=True)
def block_ends(weights):
    """Return the running sum of `weights [V]` behind each BLOCK of them, float64."""
    ends, total = np.empty(-(-len(weights) // BLOCK)), 0.0
    for block in range(len(ends)):
        total += _sum(weights[block * BLOCK : (block + 1) * BLOCK])
        ends[block] = total
    return ends


@njit(nogil=True, cache=True)
def draw_within(weights, ends, coin):
    """Return the index with a weight above zero in `weights [V]` at `coin` in [0, 1), by their `block_ends`."""
    goal, block = coin * ends[-1], 0
    while block + 1 < len(ends) and ends[block] <= goal:
        block += 1
    while block and ends[block] == ends[block - 1]:  # rounding left none beyond the goal: the last that grew the sum
        block -= 1
    goal -= ends[block - 1] if block else 0.0
    within, drawn = 0.0, block * BLOCK
    for i in range(block * BLOCK, min(len(weights), (block + 1) * BLOCK)):
        if within + weights[i] > within:
            within += weights[i]
            drawn = i
            if within > goal:
                break
    return drawn


@njit(nogil=True, cache=True)
def draw(weights, coin):
    return draw_within(weights, block_ends(weights), coin)


@njit(fastmath=True, nogil=True)
def _sum(numbers):
    total = 0.0
    for number in numbers:
        total += number
    return total


@njit(nogil=True)
def scratch(rows, columns):
    """Allot rows that begin with a cache line: a row across two lines makes a pass of a few tokens half as long again."""
    memory = np.empty(rows * columns + CACHE_LINE // 4, np.float32)
    first = (-memory.ctypes.data % CACHE_LINE) // 4
    return memory[first : first + rows * columns].reshape(rows, columns)


def inputs_each(panels):
    """Return how many inputs' weights an element of an array of panels holds (`panels.py`)."""


@overload(inputs_each)
def _inputs_each(panels):
    count = 2 if panels.dtype in WORDS else 1
    return lambda panels: count


def round_inputs(panels, x):
    """Round `x [M, in]` to bfloat16 in place where `panels` hold pairs: inputs i and in / 2 + i of a row share word i."""


@overload(round_inputs)
def _round_inputs(panels, x):
    def leave(panels, x):
        pass

    def round_pairs(panels, x):
        words, half = x.view(np.uint32), x.shape[1] // 2
        for m in range(x.shape[0]):
            first, second = words[m, :half], words[m, half:]
            for i in range(half):
                first[i] = round_pair(first[i], second[i])

    return round_pairs if panels.dtype in WORDS else leave


@njit(nogil=True)
def round_pair(first, second):
    """Return the bits of two floats, rounded to bfloat16, in one word, the first in its lower half."""
    return _upper(first) >> np.uint32(16) | _upper(second) & np.uint32(0xFFFF0000)


@njit(nogil=True)
def _upper(bits):
    """Return a float's bits, whose upper half is the nearest bfloat16, the even one between two."""
    return np.uint32(bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))


@njit(fastmath=True, nogil=True)
def dot(a, b):
    total = np.float32(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(fastmath=True, nogil=True)
def normalise(x, gain, epsilon, y):
    """Root-mean-square norm of each row."""
    for m in range(x.shape[0]):
        row = x[m]
        scale = np.float32(1) / np.sqrt(dot(row, row) / np.float32(row.shape[0]) + epsilon)
        for i in range(row.shape[0]):
            y[m, i] = row[i] * scale * gain[i]


@njit(fastmath=True, nogil=True)
def rotate(vector, cos, sin):
    half = vector.shape[0] // 2
    for i in range(half):
        a, b = vector[i], vector[i + half]
        vector[i] = a * cos[i] + b * sin[i]
        vector[i + half] = b * cos[i + half] + a * sin[i + half]


@njit(fastmath=True, nogil=True, error_model="numpy")
def gate(gate, up, gated):
    """gated = silu(gate) * up. By Python's model of errors a division could raise one, and would not be vectorised."""
    for i in range(gate.shape[0]):
        g = gate[i]
        e = _exp(-abs(g))
        gated[i] = (g if g > 0 else g * e) / (np.float32(1) + e) * up[i]


@njit(nogil=True)
def _exp(x):
    """exp(x) for x <= 0 within 3e-7 of itself, and zero below -87: 2 to the n times a polynomial of what is left of x (Cephes,
    expf). The compiler vectorises this; it does not vectorise the library's exp. Without fastmath, which would undo the
    subtraction of ln 2 in two steps."""
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    n = max(n, np.float32(-126))
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1.0, 1.0):
        p = p * r + np.float32(c)
    return p * power_of_two(np.int32(n)) if x > np.float32(-87) else np.float32(0)
