"""The baseline: one target call for every token of every utterance."""

from collections.abc import Iterator, Sequence
from time import perf_counter

import torch

from pcg.decoding.laws import law
from pcg.decoding.state import Readers
from pcg.rules.verdict import draw
from pcg.take import Round


def autoregressive(
    target: Readers, temperature: float, limits: Sequence[int], generators: Sequence[torch.Generator]
) -> Iterator[dict[int, Round]]:
    """Yield a Round a token for every row that still speaks, until its end of speech or its limit of tokens.

    The times in a Round are those of the whole batch.
    """
    eos = target.vocabulary_size - 1
    spoken = {row: [] for row in range(target.batch)}
    unread: dict[int, list[int]] = {row: [] for row in spoken}
    while unread:
        begun = perf_counter()
        rows = list(unread)
        q = law(target.feed(rows, list(unread.values()), 1)[:, 0], temperature).cpu()
        called = perf_counter()
        coins = [float(torch.rand(1, generator=generators[row], dtype=torch.float64)) for row in rows]
        tokens = [draw(q[i], coin) for i, coin in enumerate(coins)]
        drawn = perf_counter()
        times = {"verify_ms": 1e3 * (called - begun), "rule_ms": 1e3 * (drawn - called)}
        step = {}
        for row, token in zip(rows, tokens, strict=True):
            ended = token == eos
            step[row] = Round((), (), (), ended=True, **times) if ended else Round((token,), ("target",), (1,), **times)
            spoken[row] += step[row].tokens
            unread[row] = [token]
            if ended or len(spoken[row]) == limits[row]:
                del unread[row]
        yield step
