"""What it costs to move theta at LLaSA's vocabulary, against searching anew."""

from dataclasses import asdict, dataclass
from math import ceil, log
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from pcg.bench.timing import milliseconds
from pcg.errors import InputError
from pcg.groups.pairs.neighbours import Neighbours, build_neighbours
from pcg.groups.pairs.sample import CosineSample
from pcg.groups.progress import bar
from pcg.groups.similarities import theta_for

LEVELS = 4
HIDDEN = 64
STEP = 5e-4


@dataclass(frozen=True)
class GroupsCost:
    """`theta_ms`: the median of making groups at a theta not seen before, with statistics and one look-up each way.
    `rebuild_ms`: the same groups by a search of its own, `build_seconds`: the search down to the floor, once for all thetas;
    `speedup` = rebuild_ms / theta_ms. `mean_size` is that reached at `theta`; `bytes` those of the lists."""

    tokens: int
    dimensions: int
    mean_size: float
    theta: float
    theta_ms: float
    rebuild_ms: float
    build_seconds: float
    speedup: float
    bytes: int
    threads: int

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def clustered_embedding(tokens: int, dimensions: int, seed: int = 0) -> Tensor:
    """Vectors `[tokens, dimensions]` as a codec's tokens have them, uneven and overlapping: a random smooth function of the
    code's base-4 digits, whose steps are unequally wide, plus noise that is louder for some codes than for others."""
    generator = torch.Generator().manual_seed(seed)
    places = ceil(log(tokens, LEVELS))
    digits = torch.arange(tokens)[:, None] // LEVELS ** torch.arange(places) % LEVELS
    steps = torch.rand(places, LEVELS, generator=generator).exp().cumsum(1)
    positions = steps[torch.arange(places), digits] - steps.mean(1)
    hidden = (positions @ torch.randn(places, HIDDEN, generator=generator) / places**0.5).tanh()
    smooth = hidden @ torch.randn(HIDDEN, dimensions, generator=generator) / HIDDEN**0.5
    loudness = 0.6 * (0.4 * torch.randn(tokens, 1, generator=generator)).exp()
    return smooth + loudness * torch.randn(tokens, dimensions, generator=generator)


def bench_groups(tokens: int = 65_536, dimensions: int = 2048, mean_size: float = 140, repeats: int = 7) -> GroupsCost:
    """Time groups of about `mean_size` tokens on lists that reach down to twice that size.

    The full size takes minutes (two searches) and about 3 GB. Raises InputError for fewer than 256 tokens, or fewer repeats
    than one.
    """
    if tokens < 256:
        raise InputError("tokens", tokens, "at least 256")
    if repeats < 1:
        raise InputError("repeats", repeats, "a whole number from 1 up")
    embedding = clustered_embedding(tokens, dimensions)
    floor = CosineSample.of(embedding).theta_leaving((2 * mean_size - 1) * tokens / 2)
    begun = perf_counter()
    neighbours = build_neighbours(embedding, floor, progress=bar("neighbours"))
    build_seconds = perf_counter() - begun
    theta = theta_for(neighbours, mean_size)
    theta_ms = theta_milliseconds(neighbours, theta, repeats)
    again = bar("the search for one theta alone")
    rebuild_ms = milliseconds(lambda: build_neighbours(embedding, theta, progress=again).groups_at(theta))
    reached = neighbours.mean_size_at(theta)
    cost = GroupsCost(
        tokens,
        dimensions,
        round(reached, 1),
        round(theta, 5),
        round(theta_ms, 2),
        round(rebuild_ms, 1),
        round(build_seconds, 4),
        round(rebuild_ms / theta_ms, 1),
        neighbours.bytes,
        torch.get_num_threads(),
    )
    print(f"{tokens:,} tokens x {dimensions}: groups of {reached:.0f} in the mean at theta {theta:.3f}, {cost.threads} threads")
    print(f"lists down to {floor:.3f}: {build_seconds:.1f} s, {neighbours.bytes / 1e6:.0f} MB")
    print(f"groups at a new theta: {theta_ms:.1f} ms; by a search of its own: {rebuild_ms:.0f} ms ({cost.speedup:.0f}x)")
    return cost


def theta_milliseconds(neighbours: Neighbours, theta: float, repeats: int) -> float:
    """The median over `repeats` slightly different thetas, so that nothing can have been kept; one before is not counted."""
    steps = range(-(repeats // 2), repeats - repeats // 2 + 1)
    thetas = iter([max(neighbours.floor, theta + STEP * step) for step in steps])

    def work() -> None:
        groups = neighbours.groups_at(next(thetas))
        groups.statistics()
        groups.members_of(len(groups) // 2)
        groups.groups_of(groups.vocabulary // 2)

    return median([milliseconds(work) for _ in range(repeats + 1)][1:])
