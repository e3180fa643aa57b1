"""A tiny target over sixteen codes, and utterances of random codes, for the tests of drafts."""

import json

import torch

from pcg.models.weights import Vocabulary
from pcg.settings import Settings
from pcg.text.prompt import PhonemeReader
from pcg.training.draft import Material, Trial, draw_pairs
from pcg.training.models import Shape, new_target
from pcg.training.tokens import TokenizedUtterance, collate, make_row

READER = PhonemeReader(tuple("helo.j"), (2.0,) * 6)
CODES = 16
VOCABULARY = Vocabulary(CODES, READER.first_code, READER.end)


def coins(seed=0):
    return torch.Generator().manual_seed(seed)


def make_target(layers=4, tied=True, scale=6.0):
    target = new_target(VOCABULARY, Shape(layers, 16, 2, 24), seed=0)
    if not tied:
        target.config.tie_word_embeddings = False
        target.lm_head.weight = torch.nn.Parameter(torch.randn(target.lm_head.weight.shape, generator=coins()))
    with torch.no_grad():
        # Far from the tiny initial weights, so that layers matter.
        for weight in target.parameters():
            weight.mul_(scale if weight.ndim == 2 else 1.0)
    return target.eval()


def read_log(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


def make_spoken(count, seed=0):
    rng = coins(seed)
    codes = [torch.randint(0, CODES, (10 + i % 5,), generator=rng) for i in range(count)]
    return [TokenizedUtterance("xy"[i % 2], "hello", READER.read("hello"), codes[i]) for i in range(count)]


def same_voice(count, seed=0):
    return [u for u in make_spoken(2 * count, seed) if u.voice == "x"]


def batch_of(spoken, size=2):
    return collate([make_row(spoken[i : i + size], READER, CODES) for i in range(0, len(spoken) - size + 1, size)])


def make_material(corpus=None):
    return Material(corpus or make_spoken(40), draw_pairs(make_spoken(40, seed=1), 8, 0), READER, VOCABULARY)


def make_trial(target, lookahead=3):
    return Trial(target, make_material(), Settings(temperature=1.0, lookahead=lookahead, theta=0.5))
