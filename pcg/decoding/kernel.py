"""The CPU fast path: a few tokens through a whole Llama in one compiled call, for float32 weights.

At this size PyTorch spends most of a step between its operators, and reads weights by many streams at once, which the memory
system dislikes. This kernel reads every weight once, in order, for all tokens of the call. It computes what
`DecodingLlama.forward` computes (tested); it compiles on first use and numba keeps the result on disk.
"""

import numpy as np
from numba import njit

TOKENS_AT_ONCE = 32
"""Above this many tokens a matrix library is faster."""
CACHE_LINE = 64


@njit(fastmath=True, nogil=True, cache=True)
def read_tokens(x, cos, sin, rows, slots, keys, values, norms, qkv, qkv_biases, out, mlp_norms, gate_up, down, heads, epsilon):
    """Run M tokens `x [M, D]` through all layers, in place; writes their keys and values.

    cos, sin `[M, dim]`: rotary tables of the tokens, the first half of `sin` negated. rows, slots `[M]`: where in the caches
    `keys, values [layers, B, kv_heads, capacity, dim]` a token goes; it attends to its row up to its own slot, so a row's
    tokens come in ascending slots. Weights are stacked over the layers, each `[layers, out, in]`; a Llama's
    `qkv_biases` are `[layers, 0]`.
    """
    tokens, width = x.shape
    kv_heads, dim = keys.shape[2], keys.shape[4]
    normed = _scratch(tokens, width)
    projected = _scratch(tokens, qkv.shape[1])
    mixed = _scratch(tokens, heads * dim)
    inner = _scratch(tokens, gate_up.shape[1])
    gated = _scratch(tokens, down.shape[2])
    added = _scratch(tokens, width)
    scores = _scratch(1, slots.max() + 1)[0]
    for layer in range(qkv.shape[0]):
        _normalise(x, norms[layer], epsilon, normed)
        _project(qkv[layer], normed, projected)
        if qkv_biases.shape[1]:
            projected += qkv_biases[layer]
        for m in range(tokens):
            for h in range(heads + kv_heads):
                _rotate(projected[m, h * dim : (h + 1) * dim], cos[m], sin[m])
            for h in range(kv_heads):
                key, value = (heads + h) * dim, (heads + kv_heads + h) * dim
                keys[layer, rows[m], h, slots[m]] = projected[m, key : key + dim]
                values[layer, rows[m], h, slots[m]] = projected[m, value : value + dim]
        for m in range(tokens):
            for h in range(heads):
                shared = h // (heads // kv_heads)
                query, answer = projected[m, h * dim : (h + 1) * dim], mixed[m, h * dim : (h + 1) * dim]
                row, seen = rows[m], slots[m] + 1
                _attend(query, keys[layer, row, shared, :seen], values[layer, row, shared, :seen], scores[:seen], answer)
        _project(out[layer], mixed, added)
        x += added
        _normalise(x, mlp_norms[layer], epsilon, normed)
        _project(gate_up[layer], normed, inner)
        for m in range(tokens):
            _gate(inner[m, : gated.shape[1]], inner[m, gated.shape[1] :], gated[m])
        _project(down[layer], gated, added)
        x += added


@njit(fastmath=True, nogil=True, cache=True)
def read_head(x, norm, head, epsilon, logits):
    """Final norm and head of `x [M, D]` into `logits [M, V]`."""
    normed = _scratch(*x.shape)
    _normalise(x, norm, epsilon, normed)
    _project(head, normed, logits)


@njit(nogil=True, cache=True)
def _scratch(rows, columns):
    """Where a row that starts between two cache lines is read, a pass of a few tokens takes half as long again."""
    memory = np.empty(rows * columns + CACHE_LINE // 4, np.float32)
    first = (-memory.ctypes.data % CACHE_LINE) // 4
    return memory[first : first + rows * columns].reshape(rows, columns)


@njit(fastmath=True, nogil=True, cache=True)
def _project(weight, x, y):
    """y = x weight^T. The weights are read as two long streams, one through each half of the rows: two rows at a time halve the
    loads of `x`, and neighbouring rows as streams would keep breaking the memory's prefetching off."""
    tokens, outputs = x.shape[0], weight.shape[0]
    if outputs % 2:
        for m in range(tokens):
            y[m, outputs - 1] = _dot(weight[outputs - 1], x[m])
    tiled = tokens // 4 * 4
    for m in range(0, tiled, 4):
        _project_four(weight, outputs // 2, x[m], x[m + 1], x[m + 2], x[m + 3], y[m], y[m + 1], y[m + 2], y[m + 3])
    for m in range(tiled, tokens):
        _project_one(weight, outputs // 2, x[m], y[m])


@njit(fastmath=True, nogil=True, cache=True)
def _project_four(weight, half, a, b, c, d, ya, yb, yc, yd):
    zero = np.float32(0)
    for o in range(half):
        first, second = weight[o], weight[o + half]
        fa, fb, fc, fd, sa, sb, sc, sd = zero, zero, zero, zero, zero, zero, zero, zero
        for i in range(weight.shape[1]):
            f, s, ai, bi, ci, di = first[i], second[i], a[i], b[i], c[i], d[i]
            fa += f * ai
            fb += f * bi
            fc += f * ci
            fd += f * di
            sa += s * ai
            sb += s * bi
            sc += s * ci
            sd += s * di
        ya[o], yb[o], yc[o], yd[o] = fa, fb, fc, fd
        ya[o + half], yb[o + half], yc[o + half], yd[o + half] = sa, sb, sc, sd


@njit(fastmath=True, nogil=True, cache=True)
def _project_one(weight, half, a, y):
    for o in range(half):
        first, second = weight[o], weight[o + half]
        f = s = np.float32(0)
        for i in range(weight.shape[1]):
            f += first[i] * a[i]
            s += second[i] * a[i]
        y[o], y[o + half] = f, s


@njit(fastmath=True, nogil=True, cache=True)
def _dot(a, b):
    total = np.float32(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(fastmath=True, nogil=True, cache=True)
def _normalise(x, gain, epsilon, y):
    """Root-mean-square norm of each row."""
    for m in range(x.shape[0]):
        row = x[m]
        total = np.float32(0)
        for i in range(row.shape[0]):
            total += row[i] * row[i]
        scale = np.float32(1) / np.sqrt(total / np.float32(row.shape[0]) + epsilon)
        for i in range(row.shape[0]):
            y[m, i] = row[i] * scale * gain[i]


@njit(fastmath=True, nogil=True, cache=True)
def _rotate(vector, cos, sin):
    half = vector.shape[0] // 2
    for i in range(half):
        a, b = vector[i], vector[i + half]
        vector[i] = a * cos[i] + b * sin[i]
        vector[i + half] = b * cos[i + half] + a * sin[i + half]


@njit(fastmath=True, nogil=True, cache=True)
def _attend(query, keys, values, scores, answer):
    """Softmax attention of one head of one token over `keys, values [N, dim]`, four of them at a time."""
    count, dim = keys.shape
    tiled = count // 4 * 4
    scale, top, total = np.float32(1) / np.sqrt(np.float32(dim)), np.float32(-np.inf), np.float32(0)
    for n in range(0, tiled, 4):
        a, b, c, d = keys[n], keys[n + 1], keys[n + 2], keys[n + 3]
        sa = sb = sc = sd = np.float32(0)
        for i in range(dim):
            q = query[i]
            sa += q * a[i]
            sb += q * b[i]
            sc += q * c[i]
            sd += q * d[i]
        scores[n], scores[n + 1], scores[n + 2], scores[n + 3] = sa * scale, sb * scale, sc * scale, sd * scale
    for n in range(tiled, count):
        scores[n] = _dot(query, keys[n]) * scale
    for n in range(count):
        top = max(top, scores[n])
    for n in range(count):
        scores[n] = _exp_of_negative(scores[n] - top)
        total += scores[n]
    share = np.float32(1) / total
    answer[:] = np.float32(0)
    for n in range(0, tiled, 4):
        a, b, c, d = values[n], values[n + 1], values[n + 2], values[n + 3]
        pa, pb, pc, pd = scores[n] * share, scores[n + 1] * share, scores[n + 2] * share, scores[n + 3] * share
        for i in range(dim):
            answer[i] += pa * a[i] + pb * b[i] + pc * c[i] + pd * d[i]
    for n in range(tiled, count):
        p, a = scores[n] * share, values[n]
        for i in range(dim):
            answer[i] += p * a[i]


@njit(fastmath=True, nogil=True, cache=True)
def _gate(gate, up, gated):
    """gated = silu(gate) * up."""
    for i in range(gate.shape[0]):
        g = gate[i]
        e = _exp_of_negative(-abs(g))
        gated[i] = (g if g > 0 else g * e) / (np.float32(1) + e) * up[i]


@njit(fastmath=True, nogil=True, cache=True)
def _exp_of_negative(x):
    """exp(x) for x <= 0 within 1e-5 of itself: (a polynomial of x / 64) to the 64th. The compiler vectorises this; it does not
    vectorise the library's exp."""
    z = max(x, np.float32(-40)) * np.float32(1 / 64)
    p = np.float32(1 / 40320)
    for c in (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        p = p * z + np.float32(c)
    for _ in range(6):
        p *= p
    return p
