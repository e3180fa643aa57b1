"""The loops over neighbour lists that theta's slider waits for, compiled; numba keeps the result on disk.

Rows are stretches of one array: row i is `entries[starts[i] : starts[i] + sizes[i]]`. One thread each: numba's own threads may
not be entered from several of Python's.
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def prefix_sizes(indptr, bits, lowest):
    """How far each row of descending float16 `bits` (as int16) reaches down to the rank `lowest`, `[R]` int64. The first entry,
    which is the token itself, always belongs."""
    sizes = np.empty(len(indptr) - 1, np.int64)
    for row in range(len(sizes)):
        low, high = indptr[row] + 1, indptr[row + 1]
        while low < high:
            middle = (low + high) // 2
            value = np.int32(bits[middle])
            if (value if value >= 0 else -32768 - value) >= lowest:
                low = middle + 1
            else:
                high = middle
        sizes[row] = low - indptr[row]
    return sizes


@njit(nogil=True, cache=True)
def running_names(entries, names):
    """Running sums of the `entries`' names, `[E + 1]` int64, wrapping around: a stretch's sum is a difference of two."""
    sums = np.empty(len(entries) + 1, np.int64)
    total = np.int64(0)
    sums[0] = total
    for i in range(len(entries)):
        total += names[entries[i]]
        sums[i + 1] = total
    return sums


@njit(nogil=True, cache=True)
def number_sets(hashes):
    """Number equal hashes `[V]` int64 alike, in order of their first appearance: those firsts `[M]` and the numbers `[V]`."""
    slots = 2
    while slots < 2 * len(hashes):
        slots *= 2
    table = np.full(slots, -1, np.int64)
    first, number = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
    found = 0
    for row in range(len(hashes)):
        slot = hashes[row] & (slots - 1)
        while table[slot] >= 0 and hashes[first[table[slot]]] != hashes[row]:
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot] = found
            first[found] = row
            found += 1
        number[row] = table[slot]
    return first[:found].copy(), number


@njit(nogil=True, cache=True)
def tally(starts, sizes, entries, step, counts):
    """Add `step` to `counts [V]` of every entry of every row, in place."""
    for row in range(len(starts)):
        for i in range(starts[row], starts[row] + sizes[row]):
            counts[entries[i]] += step


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})
def row_sums(starts, sizes, entries, values):
    """The sum of `values [V]` float64 over each row's entries, `[R]` float64."""
    sums = np.empty(len(starts), np.float64)
    for row in range(len(starts)):
        total = 0.0
        for entry in entries[starts[row] : starts[row] + sizes[row]]:
            total += values[entry]
        sums[row] = total
    return sums


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})
def weighed(values, weights, entries):
    """The sum over the `entries` of values `[V]` times weights `[V]`, in float64."""
    total = 0.0
    for entry in entries:
        total += values[entry] * weights[entry]
    return total


@njit(nogil=True, cache=True)
def number_at(coin, numbers, entries):
    """The `entries` have `numbers [V]`, -1 where they have none: of those in ascending order the one at `coin` in [0, 1)."""
    found, count = np.empty(len(entries), numbers.dtype), 0
    for entry in entries:
        found[count] = numbers[entry]
        count += numbers[entry] >= 0
    if count == 0:
        raise ValueError("the token is in no group")
    place = int(coin * count)
    return np.partition(found[:count], place)[place]
