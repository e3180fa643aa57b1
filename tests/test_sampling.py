"""Sampling laws against plain-Python readings of their papers' algorithms, over random logits and random walks."""

import math
import random

import pytest
import torch
from torch import Tensor

from pcg.sampling import EntropyAware, Plain, RepetitionAware, SamplerState

VOCABULARY, STEPS = 60, 80


def softmax(logits: list[float], temperature: float) -> list[float]:
    top = max(logits)
    weights = [math.exp((value - top) / temperature) for value in logits]
    return [weight / sum(weights) for weight in weights]


def nucleus(weights: list[float], k: int, p: float) -> list[float]:
    """Keep the k heaviest, then the fewest of these that reach the share p; normalise."""
    order = sorted(range(len(weights)), key=lambda i: -weights[i])[:k]
    total, reached, kept = sum(weights[i] for i in order), 0.0, []
    for i in order:
        if reached >= p * total:
            break
        kept.append(i)
        reached += weights[i]
    mass = sum(weights[i] for i in kept)
    return [weights[i] / mass if i in kept else 0.0 for i in range(len(weights))]


class EasByTheBook:
    """MSpoofTTS Algorithm 1, line by line; M is a list of [i, r, a]."""

    def __init__(self) -> None:
        self.memory: list[list[int]] = []

    def probs(self, s: list[float]) -> list[float]:
        pi = [0.0] * len(s)
        for j in range(len(s)):
            pi[j] = min(0.8, sum(0.2 * (1 / (1 + r)) * 0.7**a for i, r, a in self.memory if i == j))
        self.weighed = [s[j] - pi[j] for j in range(len(s))]
        return nucleus([max(0.0, w) for w in self.weighed], 50, 0.8)

    def spoken(self, token: int) -> None:
        self.memory = [[i, r, a + 1] for i, r, a in self.memory if a + 1 <= 15]
        top = sorted(range(len(self.weighed)), key=lambda j: -self.weighed[j])[:3]
        for r, i in enumerate(top if token in top else [*top, token], start=1):
            self.memory.append([i, r, 0])


class RasByTheBook:
    """VALL-E 2's sampling as the law of its two draws: enumerate the first, and spread the worn-out ones by the second."""

    def __init__(self) -> None:
        self.history: list[int] = []

    def probs(self, s: list[float]) -> list[float]:
        first, second = nucleus(s, 50, 0.8), nucleus(s, 50, 1.0)
        law = [0.0] * len(s)
        for x, mass in enumerate(first):
            if self.history[-25:].count(x) / 25 > 0.1:
                for y in range(len(s)):
                    law[y] += mass * second[y]
            else:
                law[x] += mass
        return law

    def spoken(self, token: int) -> None:
        self.history.append(token)


def logits_of(generator: torch.Generator) -> Tensor:
    """Few tokens lead, the same ones again and again, so that memories matter."""
    return torch.randn(VOCABULARY, generator=generator) + 4 * (torch.arange(VOCABULARY) < 6)


@pytest.mark.parametrize(("memory", "book"), [(EntropyAware(0.9), EasByTheBook()), (RepetitionAware(0.9), RasByTheBook())])
def test_memories_are_their_algorithms(memory: SamplerState, book: EasByTheBook | RasByTheBook) -> None:
    generator, rng = torch.Generator().manual_seed(1), random.Random(1)
    forgetful = memory
    differs = 0
    for _ in range(STEPS):
        logits = logits_of(generator)
        warped, wanted = memory.warp(logits), book.probs(softmax(logits.tolist(), 0.9))
        assert torch.allclose(warped.probs.double(), torch.tensor(wanted, dtype=torch.float64), atol=1e-6)
        differs += not torch.allclose(forgetful.warp(logits).probs, warped.probs, atol=1e-3)
        token = rng.choices(range(VOCABULARY), wanted)[0]
        memory = memory.after(token, warped)
        book.spoken(token)
    assert differs > STEPS / 4, "what is remembered must matter, or this test shows nothing"


def test_plain_is_temperature_top_k_and_top_p() -> None:
    generator = torch.Generator().manual_seed(2)
    for k, p in ((0, 1.0), (5, 1.0), (0, 0.7), (20, 0.9)):
        logits = logits_of(generator)
        wanted = nucleus(softmax(logits.tolist(), 0.6), k or VOCABULARY, p)
        assert torch.allclose(Plain(0.6, k, p).warp(logits).probs, torch.tensor(wanted), atol=1e-6)


def test_a_repetition_penalty_weighs_down_what_was_spoken_and_nothing_else() -> None:
    memory = Plain(1.0, penalty=1.3)
    logits = torch.tensor([2.0, -1.0, 0.5])
    warped = memory.warp(logits)
    assert torch.equal(warped.probs, logits.softmax(0))
    later = memory.after(0, warped).after(1, warped).warp(logits).probs
    assert torch.allclose(later, torch.tensor([2.0 / 1.3, -1.3, 0.5]).softmax(0))


@pytest.mark.parametrize("memory", [EntropyAware(0.8), RepetitionAware(0.8), Plain(0.8, penalty=1.2)])
def test_going_on_from_an_older_memory_is_as_if_the_rest_had_not_been(memory: SamplerState) -> None:
    generator = torch.Generator().manual_seed(3)
    steps = [logits_of(generator) for _ in range(8)]
    for logits in steps[:4]:
        memory = memory.after(2, memory.warp(logits))
    before = memory.warp(steps[4]).probs
    rejected = memory
    for logits in steps[4:]:
        rejected = rejected.after(1, rejected.warp(logits))
    assert torch.equal(memory.warp(steps[4]).probs, before)
    assert not torch.equal(rejected.warp(steps[4]).probs, before)


@pytest.mark.parametrize("memory", [EntropyAware(1.0), RepetitionAware(1.0), Plain(1.0, 50, 0.8)])
def test_a_law_is_a_law_at_any_logits(memory: SamplerState) -> None:
    for logits in (torch.zeros(VOCABULARY), torch.full((VOCABULARY,), -1e4), torch.eye(VOCABULARY)[0] * 1e4):
        for _ in range(30):
            warped = memory.warp(logits)
            assert warped.probs.min() >= 0
            assert abs(float(warped.probs.sum()) - 1) < 1e-5
            memory = memory.after(int(warped.probs.argmax()), warped)
