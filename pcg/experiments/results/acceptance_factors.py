"""Where acceptance fails: the tests of drafted tokens by what was spoken, by how sure the target was, and by place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pcg.analysis.whatif import ACCEPTED, RELAXED, Trace
from pcg.experiments.results.analysis import Results
from pcg.experiments.unit import Condition
from pcg.groups.phones import CLASSES
from pcg.metrics.estimate import Estimate, between, resampled

FIFTHS = ("1st fifth", "2nd fifth", "3rd fifth", "4th fifth", "last fifth")
ENTROPIES = (1.0, 2.0, 3.0, 4.0)
SIZES = (1.5, 3.5, 7.5, 15.5, 31.5)
DEPTHS = 8


@dataclass(frozen=True)
class Factor:
    """What tests are told apart by: `levels` are its values' names; `level(trace)` gives the number of each token's, `[T]`,
    less than 0 where it has none."""

    name: str
    levels: tuple[str, ...]
    level: Callable[[Trace], np.ndarray]


@dataclass(frozen=True)
class LevelAcceptance:
    """The tests at one level: how many, their `share` of all tests, and of them the `accepted`, and those `relaxed`, which SD
    would have rejected by the same coin."""

    tests: int
    share: Estimate
    accepted: Estimate
    relaxed: Estimate


def _ranges(edges: Sequence[float]) -> tuple[str, ...]:
    ends = [f"{edge:g}" for edge in edges]
    return (
        f"below {ends[0]}",
        *(f"{low} to {high}" for low, high in pairwise(ends)),
        f"{ends[-1]} and above",
    )


def _phone(trace: Trace) -> np.ndarray:
    letters = [name[0] for name in CLASSES]
    return np.array([letters.index(each) if each in letters else -1 for each in trace.phones], int)


def _fifth(trace: Trace) -> np.ndarray:
    count = len(trace.kinds)
    return np.arange(count) * len(FIFTHS) // max(1, count)


FACTORS = (
    Factor("phone", tuple(CLASSES), _phone),
    Factor("entropy of the target, nats", _ranges(ENTROPIES), lambda trace: np.digitize(trace.nats("entropy"), ENTROPIES)),
    Factor("size of the group", ("1", "2-3", "4-7", "8-15", "16-31", "32 and above"),
           lambda trace: np.digitize(trace.group_sizes, SIZES)),
    Factor("place in the draft", tuple(str(depth + 1) for depth in range(DEPTHS)),
           lambda trace: np.where(trace.depths <= DEPTHS, trace.depths - 1, -1)),
    Factor("place in the utterance", FIFTHS, _fifth),
)  # fmt: skip


def acceptance_by(results: Results, condition: Condition, factor: Factor) -> dict[str, LevelAcceptance]:
    """By level of `factor`, for those levels that were tested at all; nothing where no record of `condition` has a trace."""
    by_utterance: dict[object, np.ndarray] = {}
    for record in results.of(condition):
        if (trace := record.result.trace) is not None:
            said = record.unit.utterance
            by_utterance[said] = by_utterance.get(said, 0) + _counts(trace, factor)
    counts = np.array([row for row in by_utterance.values()])
    if not counts.sum():
        return {}
    total, draws = counts.sum(0), resampled(counts.reshape(len(counts), -1)).reshape(-1, *counts.shape[1:])
    found = {}
    for number, level in enumerate(factor.levels):
        if total[number, 0]:
            found[level] = LevelAcceptance(
                int(total[number, 0]),
                _ratio(total[number, 0], total[:, 0].sum(), draws[:, number, 0], draws[:, :, 0].sum(1)),
                _ratio(total[number, 1], total[number, 0], draws[:, number, 1], draws[:, number, 0]),
                _ratio(total[number, 2], total[number, 0], draws[:, number, 2], draws[:, number, 0]),
            )
    return found


def _counts(trace: Trace, factor: Factor) -> np.ndarray:
    """Tests, those accepted and those relaxed by level, `[levels, 3]`."""
    kinds, level = np.array(list(trace.kinds)), factor.level(trace)
    counts = np.zeros((len(factor.levels), 3))
    known = trace.tested & (level >= 0)
    relaxed = kinds == RELAXED
    for place, wanted in enumerate((known, known & (relaxed | (kinds == ACCEPTED)), known & relaxed)):
        counts[:, place] = np.bincount(level[wanted], minlength=len(factor.levels))
    return counts


def _ratio(above: float, below: float, drawn_above: np.ndarray, drawn_below: np.ndarray) -> Estimate:
    with np.errstate(divide="ignore", invalid="ignore"):
        return between(above / below, drawn_above / drawn_below)
