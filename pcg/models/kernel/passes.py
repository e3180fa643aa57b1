"""The CPU fast path: a few tokens through a whole Llama, or a draft's whole turn, in one compiled call.

At this size PyTorch spends most of a step between its operators, and reads weights by many streams at once, which the memory
system dislikes. This kernel reads every weight once, in order, for up to eight tokens of the call (`panels.py` says how), and
every key and value once for all neighbouring tokens of a row. It computes what `DecodingLlama.run` computes (tested); it
compiles on first use and numba keeps the result on disk. Whether that is outdated numba sees by the content of this file alone,
not of its helpers in this folder: `CALLED` changes with them.
"""

import numpy as np
from numba import njit

from pcg.models.kernel.arithmetic import draw, gate, inputs_each, normalise, rotate, round_inputs, scratch, soften
from pcg.models.kernel.attention import attend, keep
from pcg.models.kernel.packing import Packed
from pcg.models.kernel.panels import HEAD_DIM, TOKENS_IN_REGISTERS, VECTORS, multiply_panel
from pcg.models.kernel.tiles import release_tiles, rows_at_once, shape_tiles

CALLED = "e03dec79f091781f"
"""The start of the SHA-256 of the other files in this folder, in the order of their names (tested)."""
TOKENS_AT_ONCE = 512
"""PyTorch reads longer prompts: the scratch memory of the kernel grows with the tokens."""
UNIT_EPSILON = np.float32(1e-6)
"""As in `pcg.models.feature_draft`."""
WIDE, NARROW = TOKENS_IN_REGISTERS[16], TOKENS_IN_REGISTERS[8]


@njit(fastmath=True, nogil=True, cache=True)
def read_tokens(model: Packed, ids, cos, sin, rows, starts, counts, lasts, temperatures, keys, values, taps, tapped):
    """Run `ids [N]` through all layers: `counts[r]` of them for each row r, one row behind the other. Returns what the
    `lasts[r]` last tokens of each row say of the next, `[sum of lasts, V]`: the softmax at `temperatures[r]`, or, where that is
    0, the logits.

    cos, sin `[N, dim]`: rotary tables of the tokens, the first half of `sin` negated. The ids of row r go into row `rows[r]` of
    the caches `keys, values [layers, B, kv_heads, ...]` (`attention.py`), from slot `starts[r]` on, and see all before. The
    hidden states behind the layers `tapped [n]` (counted from 1) are written to `taps [B, capacity, n, D]`.
    """
    x = scratch(len(ids), model.embedding.shape[1])
    for m in range(len(ids)):
        x[m] = model.embedding[ids[m]]
    cursor = np.zeros(1, np.int64)
    _read_layers(model, cursor, x, cos, sin, rows, starts, counts, keys, values, taps, tapped)
    newest = _newest(x, counts, lasts)
    logits = np.empty((len(newest), model.size), np.float32)
    _read_head(model, cursor, newest, logits)
    at = 0
    for r in range(len(rows)):
        for n in range(at, at + lasts[r] if temperatures[r] else at):
            soften(logits[n], temperatures[r], logits[n])
        at += lasts[r]
    release_tiles(model.panels)
    return logits


@njit(fastmath=True, nogil=True, cache=True)
def draft_turns(model: Packed, ids_of, ids, counts, cos, sin, taps, rows, starts, drawing, keys, values):
    """Read `ids [N]`, `counts[r]` of them into row `rows[r]` of the caches from slot `starts[r]` on. Then draw a token for row
    r by each of the first `wanted[r]` > 0 of its `coins [R, L]` from the softmax p at `temperatures[r]`, and read it, but for
    the last. Returns the tokens `[R, L]` and their p `[R, L, V]`. drawing: (coins, wanted, temperatures).

    cos, sin `[B, capacity, dim]`: rotary tables of all slots; ids_of `[V]`: the id of each token. A feature draft reads `ids`
    behind the target's `taps [N, n, D]`, and a drawn token behind its own state (`feature_draft.py`); for a Llama n is 0.
    """
    coins, wanted, temperatures = drawing
    tokens, probs = np.zeros(coins.shape, np.int64), np.empty((*coins.shape, model.size), np.float32)
    no_taps, tapped, cursor = np.empty((1, 1, 0, 0), np.float32), np.empty(0, np.int64), np.zeros(1, np.int64)
    width, features = model.embedding.shape[1], taps.shape[1] * taps.shape[2]
    each = inputs_each(model.panels)
    state_matrix = width * features // each  # the panels of a feature draft begin with A1 and A2
    active, starts, unread, x = np.arange(len(rows)), starts.copy(), ids, scratch(len(ids), width)
    x[:] = np.float32(0)
    if features:
        units = scratch(len(ids) * taps.shape[1], width)
        normalise(taps.reshape(-1, width), np.ones(width, np.float32), UNIT_EPSILON, units)
        _project(model, cursor, units.reshape(len(ids), features), x)
        cursor[0] = state_matrix + width * width // each
    for step in range(coins.shape[1]):
        for m in range(len(x)):
            x[m] += model.embedding[unread[m]]
        here = rows[active]
        cosines, sines = _tables(cos, here, starts, counts), _tables(sin, here, starts, counts)
        _read_layers(model, cursor, x, cosines, sines, here, starts, counts, keys, values, no_taps, tapped)
        states, logits = _newest(x, counts, np.ones(len(active), np.int64)), np.empty((len(active), model.size), np.float32)
        _read_head(model, cursor, states, logits)
        going, unread = 0, np.empty(len(active), np.int64)
        for r in range(len(active)):
            row = active[r]
            soften(logits[r], temperatures[row], probs[row, step])
            tokens[row, step] = draw(probs[row, step], coins[row, step])
            if step + 1 < wanted[row]:
                active[going], starts[going], unread[going] = row, starts[r] + counts[r], ids_of[tokens[row, step]]
                states[going] = states[r]
                going += 1
        if going == 0:
            break
        active, starts, counts, x = active[:going], starts[:going], np.ones(going, np.int64), scratch(going, width)
        cursor[0] = state_matrix
        x[:] = np.float32(0)
        if features:
            normalise(states[:going], np.ones(width, np.float32), UNIT_EPSILON, units)
            _project(model, cursor, units[:going], x)
    release_tiles(model.panels)
    return tokens, probs


@njit(nogil=True)
def _newest(x, counts, lasts):
    """Return the last `lasts[r]` of the `counts[r]` rows of `x [N, D]` that belong to r, for each r."""
    newest, at, end = scratch(lasts.sum(), x.shape[1]), 0, 0
    for r in range(len(counts)):
        end += counts[r]
        newest[at : at + lasts[r]] = x[end - lasts[r] : end]
        at += lasts[r]
    return newest


@njit(nogil=True)
def _tables(table, rows, starts, counts):
    """Return the entries of `table [B, capacity, dim]` at the slots of the tokens, `[N, dim]`."""
    found, at = np.empty((counts.sum(), table.shape[2]), np.float32), 0
    for r in range(len(rows)):
        found[at : at + counts[r]] = table[rows[r], starts[r] : starts[r] + counts[r]]
        at += counts[r]
    return found


@njit(fastmath=True, nogil=True)
def _read_layers(model: Packed, cursor, x, cos, sin, rows, starts, counts, keys, values, taps, tapped):
    """Run `x [N, D]` through all layers, in place; writes keys, values and taps. Moves the `cursor` (see `_project`)."""
    (tokens, width), heads, kv_heads = x.shape, model.heads, keys.shape[2]
    mixed_width, row_of, slot_of = heads * HEAD_DIM, np.empty(tokens, np.int64), np.empty(tokens, np.int64)
    firsts = counts.cumsum() - counts
    for r in range(len(rows)):
        row_of[firsts[r] : firsts[r] + counts[r]] = rows[r]
        slot_of[firsts[r] : firsts[r] + counts[r]] = starts[r] + np.arange(counts[r])
    normed, added, mixed = scratch(tokens, width), scratch(tokens, width), scratch(tokens, mixed_width)
    projected = scratch(tokens, mixed_width + 2 * kv_heads * HEAD_DIM)
    inner, gated = scratch(tokens, 2 * model.inner), scratch(tokens, model.inner)
    for layer in range(len(model.norms)):
        normalise(x, model.norms[layer], model.epsilon, normed)
        _project(model, cursor, normed, projected)
        if model.biases.shape[1]:
            projected += model.biases[layer]
        for m in range(tokens):
            row, slot = row_of[m], slot_of[m]
            for h in range(heads + kv_heads):
                rotate(projected[m, h * HEAD_DIM : (h + 1) * HEAD_DIM], cos[m], sin[m])
            for h in range(kv_heads):
                key = mixed_width + h * HEAD_DIM
                value = key + kv_heads * HEAD_DIM
                keep(keys, values, layer, row, h, slot, projected, m, key, value)
        for r in range(len(rows)):
            attend(model.lanes, heads, projected, firsts[r], counts[r], layer, rows[r], starts[r], keys, values, mixed)
        _project(model, cursor, mixed, added)
        x += added
        normalise(x, model.mlp_norms[layer], model.epsilon, normed)
        _project(model, cursor, normed, inner)
        for m in range(tokens):
            gate(inner[m, : model.inner], inner[m, model.inner :], gated[m])
        _project(model, cursor, gated, added)
        x += added
        for t in range(len(tapped)):
            if tapped[t] == layer + 1:
                for m in range(tokens):
                    taps[row_of[m], slot_of[m], t] = x[m]


@njit(fastmath=True, nogil=True)
def _read_head(model: Packed, cursor, x, logits):
    """Final norm and head of `x [N, D]` into `logits [N, V]`; with a `rank`, the head is two matrices, one behind the other."""
    panel = VECTORS * model.lanes
    normed, padded = scratch(*x.shape), scratch(len(x), -(-model.size // panel) * panel)
    normalise(x, model.norm, model.epsilon, normed)
    if model.rank:
        small = scratch(len(x), model.rank)
        _project(model, cursor, normed, small)
        _project(model, cursor, small, padded)
    else:
        _project(model, cursor, normed, padded)
    for n in range(len(x)):
        logits[n] = padded[n, : model.size]


@njit(fastmath=True, nogil=True)
def _project(model: Packed, cursor, x, y):
    """y `[M, out]` = x `[M, in]` times the matrix at the `cursor`, where its panels begin. Moves that on; may round `x`."""
    (tokens, inputs), outputs, panel = x.shape, y.shape[1], VECTORS * model.lanes
    most = rows_at_once(model.panels, WIDE if model.lanes == 16 else NARROW)
    size, at = -(-tokens // -(-tokens // most)), cursor[0]
    round_inputs(model.panels, x)
    shape_tiles(model.panels, size)
    for first in range(0, outputs, panel):
        for begun in range(0, tokens, size):
            m = min(begun, tokens - size)  # the last rows together with some before them, which come out as they were
            multiply_panel(model.lanes, size, model.panels, at, x, m * inputs, inputs, y, m * outputs + first, outputs, inputs)
        at += panel * inputs // inputs_each(model.panels)
    cursor[0] = at
