"""Garbage: each kind does what it says, and a batch holds as much of it as the mix says."""

import random
from collections import Counter

import pytest
import torch
from torch import Tensor

from pcg.errors import InputError
from pcg.spoof import M50
from pcg.training.detectors import KINDS, OWN, Garbage, Mix, Segments

CODES, USED = 64, 48
USAGE = torch.tensor(([400] + [10] * 5) * 8 + [0] * (CODES - USED))
ANGLES = 2 * torch.pi * torch.arange(CODES) / CODES
CIRCLE = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1)
"""Codes next to each other are similar, and those on the other side are not."""
GARBAGE = Garbage(USAGE, CIRCLE)


def coins(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def real(rows: int = 200, span: int = 50) -> Tensor:
    """Segments that climb by one, so that each code of a segment is another."""
    return (torch.randint(USED, (rows, 1), generator=coins(1)) + torch.arange(span)) % CODES


def chi_squared(codes: Tensor, weights: Tensor) -> tuple[float, float]:
    """Pearson's statistic of `codes` against a law, and the bound that it exceeds once in some 30,000 times (4 deviations)."""
    law = weights[weights > 0].double() / weights.sum()
    counts = torch.bincount(codes.flatten(), minlength=len(weights))[weights > 0].double()
    expected = law * codes.numel()
    free = len(law) - 1
    return float(((counts - expected) ** 2 / expected).sum()), free + 4 * (2 * free) ** 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_garbage_is_made_of_used_codes_alone_and_of_the_generator_alone(kind: str) -> None:
    segments = real() % USED
    before = segments.clone()
    made = GARBAGE.of(kind, segments, coins(2))
    assert made.shape == segments.shape
    assert made.dtype == torch.int64
    assert (USAGE[made] > 0).all()
    assert torch.equal(segments, before)
    assert torch.equal(made, GARBAGE.of(kind, segments, coins(2)))
    assert (kind == "reversed") == torch.equal(made, GARBAGE.of(kind, segments, coins(3)))
    assert (made != segments).any(dim=1).all()
    assert (kind == "reversed") == torch.equal(made.flip(-1), segments)


def test_random_codes_follow_the_usage_and_uniform_ones_do_not() -> None:
    by_usage, uniform = (GARBAGE.of(kind, real(), coins(4)) for kind in ("random", "uniform"))
    statistic, bound = chi_squared(by_usage, USAGE)
    assert statistic < bound
    statistic, bound = chi_squared(uniform, USAGE > 0)
    assert statistic < bound
    # The negative controls: each by the other's law.
    assert chi_squared(uniform, USAGE)[0] > 10 * bound
    assert chi_squared(by_usage, USAGE > 0)[0] > 10 * bound
    # No code says anything of the next one: eight stretches of codes are said equally often, and so are their pairs.
    stretch = by_usage // 6
    statistic, bound = chi_squared(8 * stretch[:, ::2] + stretch[:, 1::2], torch.ones(64))
    assert statistic < bound


def test_a_shuffled_segment_has_the_codes_of_the_real_one_at_any_places() -> None:
    segments = torch.arange(10).expand(4000, 10)
    made = GARBAGE.of("shuffled", segments, coins(6))
    assert torch.equal(made.sort(dim=1).values, segments)
    for place in (0, 4, 9):
        statistic, bound = chi_squared(made[:, place], torch.ones(10))
        assert statistic < bound
    # The negative control: codes of a segment that stay near their places.
    near = (torch.arange(10) + 3 * torch.rand(4000, 10, generator=coins(7))).argsort(dim=1)
    assert chi_squared(near[:, 0], torch.ones(10))[0] > 10 * bound


def test_a_swapped_code_sounds_different_and_random_ones_often_do_not() -> None:
    segments = real() % USED
    made = GARBAGE.of("swapped", segments, coins(8))
    assert (made != segments).all()

    def similar(codes: Tensor) -> Tensor:
        return (CIRCLE[segments] * CIRCLE[codes]).sum(-1)

    # The group of a code at theta 0.9 are the nine codes around it.
    assert (similar(made) > 0.9).float().mean() < 0.001
    by_chance = similar(GARBAGE.of("random", segments, coins(8)))
    assert (by_chance > 0.9).float().mean() > 0.05
    assert similar(made).mean() < by_chance.mean() - 0.4


def test_unknown_kinds_and_impossible_shares_are_refused() -> None:
    with pytest.raises(InputError, match="garbage is 'noise', but must be one of random, uniform"):
        GARBAGE.of("noise", real(), coins())
    with pytest.raises(InputError, match="garbage is 'noise', but must be shares"):
        Mix(garbage={"noise": 0.1})
    with pytest.raises(InputError, match=r"1\.2 together"):
        Mix(garbage={"random": 0.6, "swapped": 0.6})
    with pytest.raises(InputError, match="synthetic is 0"):
        Mix(synthetic=0)


def test_a_batch_holds_what_the_mix_says() -> None:
    """Real codes climb, the voice's own stand still: so each segment tells of which kind it is."""
    climbing, still = list(real(30, 80)), [torch.full((80,), code) for code in range(30)]
    mix = Mix(synthetic=3, garbage={"reversed": 0.2, "random": 0.3})
    batch = Segments(climbing, still).batch(M50, 8000, mix, GARBAGE, random.Random(0))
    found = Counter(zip(batch.real.tolist(), map(kind_of, batch.segments), strict=True))
    assert set(found) == {(1.0, "real"), (0.0, OWN), (0.0, "reversed"), (0.0, "random")}
    assert found[1.0, "real"] == 2000
    # Four standard deviations of 6,000 draws.
    for kind, share in {OWN: 0.5, "reversed": 0.2, "random": 0.3}.items():
        assert abs(found[0.0, kind] - 6000 * share) < 4 * (6000 * share * (1 - share)) ** 0.5


def kind_of(segment: Tensor) -> str:
    steps = set(((segment[1:] - segment[:-1]) % CODES).tolist())
    return {frozenset({1}): "real", frozenset({0}): OWN, frozenset({CODES - 1}): "reversed"}.get(frozenset(steps), "random")
