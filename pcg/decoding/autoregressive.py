"""The baseline: one target call for every token."""

from collections.abc import Iterator
from time import perf_counter

import torch

from pcg.decoding.laws import law
from pcg.decoding.state import Reader
from pcg.rules.verdict import draw
from pcg.take import Round


def autoregressive(target: Reader, temperature: float, limit: int, generator: torch.Generator) -> Iterator[Round]:
    """Yield a Round a token until the end of speech or `limit` tokens."""
    eos = target.vocabulary_size - 1
    token: list[int] = []
    for _ in range(limit):
        begun = perf_counter()
        q = law(target.feed(token, 1), temperature)[0]
        called = perf_counter()
        coin = float(torch.rand(1, generator=generator, dtype=torch.float64))
        token = [draw(q, coin)]
        drawn = perf_counter()
        times = {"verify_ms": 1e3 * (called - begun), "rule_ms": 1e3 * (drawn - called)}
        if token[0] == eos:
            yield Round((), (), (), ended=True, **times)
            return
        yield Round((token[0],), ("target",), (1,), **times)
