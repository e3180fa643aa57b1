"""Hierarchical decoding (MSpoofTTS: Zhao et al., arXiv 2603.05373, Algorithm 2): beams, pruned by spoof detectors.

How a beam goes on is the caller's: by the target alone, or speculatively, which makes it spoof-guided SD, SSD or PCG.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from pcg.decode.sequence import DecodingSequence
from pcg.spoof import M10, M25, M50, M50_10, M50_25, Detectors, Resolution
from pcg.take import Branch, Cycle, Round

PRUNING = (M10, M25)
FINAL = (M50, M50_25, M50_10)
UNJUDGED = 0.5

Advance = Callable[[Sequence[DecodingSequence]], Iterator[dict[int, Round]]]
"""Lets utterances speak until their pauses: `to_the_end`, with its models."""
Fork = Callable[[int, Sequence[int]], None]
"""(source, rows): the caches of `rows` become those of `source`."""


@dataclass(frozen=True)
class Hierarchy:
    """The defaults are the paper's (section 3.2). warmup: tokens before the first beams. stages: tokens of a cycle at which
    beams are pruned, and at its end. beams: how many there are in each stage. weights: of the ranks by M50, M50<-25 and
    M50<-10."""

    warmup: int = 20
    stages: tuple[int, int, int] = (10, 25, 50)
    beams: tuple[int, int, int] = (8, 5, 3)
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)


@dataclass
class _Beam:
    number: int
    utterance: DecodingSequence
    rounds: list[Round] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    stages: int = 0
    rank: float | None = None

    def branch(self) -> Branch:
        return Branch(self.number, tuple(self.rounds), dict(self.scores), self.stages, self.rank)


def hierarchical(
    advance: Advance, fork: Fork, detectors: Detectors, plan: Hierarchy, utterance: DecodingSequence
) -> Iterator[Cycle]:
    """Yield the warm-up and then cycle after cycle, until the utterance ends. The runners behind `advance` and `fork` have as
    many rows as there are beams in the first stage; the utterance begins in one of them.

    Beam 0 goes on with the utterance's own coins, so that with one beam the tokens are those without a hierarchy. A beam that
    ends early keeps its place and is judged by its last tokens; one that is shorter than a detector's span counts as neither
    real nor synthetic there. The paper tells of neither case.
    """
    if plan.warmup:
        first = _Beam(0, utterance)
        _extend(advance, [first], plan.warmup)
        yield Cycle(0, (first.branch(),), 0)
    while not utterance.ended and len(utterance.emitted) < utterance.limit:
        start = len(utterance.emitted)
        beams = _spread(fork, plan.beams[0], utterance)
        everyone = list(beams)
        for length, keep, resolution in zip(plan.stages[:2], plan.beams[1:], PRUNING, strict=True):
            _extend(advance, beams, start + length)
            _score(detectors, resolution, beams, start)
            beams = sorted(beams, key=lambda beam: -beam.scores[resolution.name])[:keep]
        _extend(advance, beams, start + plan.stages[2])
        chosen = _best(detectors, plan.weights, beams, start)
        utterance = chosen.utterance
        yield Cycle(start, tuple(beam.branch() for beam in everyone), chosen.number)


def _spread(fork: Fork, count: int, utterance: DecodingSequence) -> list[_Beam]:
    """Beam 0 is the utterance where it stands, the others are forks of it in the other rows."""
    if count == 1:
        return [_Beam(0, utterance)]
    seeds = torch.randint(2**62, (count - 1,), generator=utterance.generator).tolist()
    rows = [row for row in range(count) if row != utterance.row]
    fork(utterance.row, rows)
    forks = [utterance.fork(row, torch.Generator().manual_seed(seed)) for row, seed in zip(rows, seeds, strict=True)]
    return [_Beam(number, each) for number, each in enumerate([utterance, *forks])]


def _extend(advance: Advance, beams: Sequence[_Beam], pause: int) -> None:
    by_row = {beam.utterance.row: beam for beam in beams}
    for beam in beams:
        beam.utterance.pause = pause
        beam.stages += 1
    for step in advance([beam.utterance for beam in beams]):
        for row, round_ in step.items():
            by_row[row].rounds.append(round_)


def _score(detectors: Detectors, resolution: Resolution, beams: Sequence[_Beam], start: int) -> None:
    for beam in beams:
        beam.scores[resolution.name] = UNJUDGED
    judged = [(beam, _window(beam.utterance.emitted, start, resolution.span)) for beam in beams]
    judged = [(beam, window) for beam, window in judged if len(window) == resolution.span]
    if judged:
        real = detectors.real(resolution, torch.tensor([window for _, window in judged]))
        for (beam, _), value in zip(judged, real.tolist(), strict=True):
            beam.scores[resolution.name] = value


def _window(emitted: Sequence[int], start: int, span: int) -> Sequence[int]:
    """Return the first `span` tokens of the cycle, or, where there are fewer, the last ones of the utterance."""
    return emitted[start : start + span] if len(emitted) >= start + span else emitted[-span:]


def _best(detectors: Detectors, weights: Sequence[float], beams: Sequence[_Beam], start: int) -> _Beam:
    """Rank aggregation (lines 19 to 26)."""
    ranks = dict.fromkeys((beam.number for beam in beams), 0.0)
    for resolution, weight in zip(FINAL, weights, strict=True):
        _score(detectors, resolution, beams, start)
        ordered = sorted(beams, key=lambda beam: -beam.scores[resolution.name])
        for rank, beam in enumerate(ordered, start=1):
            ranks[beam.number] += weight * rank
    for beam in beams:
        beam.rank = ranks[beam.number]
    return min(beams, key=lambda beam: ranks[beam.number])
