"""The baseline: one target call for every token of every utterance."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter

import torch

from pcg.acceptance.sampler import as_array, draw
from pcg.decoding.model_runner import ModelRunner
from pcg.decoding.sequence import DecodingSequence
from pcg.takes.take import Round

ENDED = Round((), (), (), ended=True)


def autoregressive(target: ModelRunner, utterances: Sequence[DecodingSequence]) -> Iterator[dict[int, Round]]:
    """Yield a Round a token for every row that still speaks, until its end of speech, its pause or its limit of tokens.

    The times in a Round are those of the whole batch.
    """
    eos = target.vocabulary_size - 1
    while speaking := [u for u in utterances if u.speaking]:
        begun = perf_counter()
        unread = [u.emitted[target.read(u.row) :] for u in speaking]
        trails = target.trails([u.row for u in speaking], unread, [()] * len(speaking), [u.memory for u in speaking])
        called = perf_counter()
        coins = [float(torch.rand(1, generator=u.generator, dtype=torch.float64)) for u in speaking]
        tokens = [draw(as_array(trail.probs)[0], coin) for trail, coin in zip(trails, coins, strict=True)]
        drawn = perf_counter()
        times = {"verify_ms": 1e3 * (called - begun), "rule_ms": 1e3 * (drawn - called)}
        step = {}
        for u, token, trail in zip(speaking, tokens, trails, strict=True):
            round_ = ENDED if token == eos else Round((token,), ("target",), (1,))
            step[u.row] = replace(round_, **times)
            u.say(step[u.row], trail.after(0, token))
        yield step
