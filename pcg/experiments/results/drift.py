"""What relaxation does over time: how far a text drifts, under the target, from what the target would have said itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pcg.analysis.whatif import RELAXED, Trace
from pcg.experiments.results.analysis import Results
from pcg.experiments.unit import Condition, Record
from pcg.metrics.estimate import Estimate, between, resampled

BEHIND = 5
"""So many tokens behind a relaxed one are watched."""
# Each a sum over some tokens of an utterance, and how many they are.
_PARTS = ("all", "early", "late", "relaxed", "behind", "elsewhere")


@dataclass(frozen=True)
class Drift:
    """relaxed: share of all tokens that only the group or the tolerance accepted. surprisal: -log of a token's probability
    under the target, in nats, less that of AR on the same utterances; early, late: in the first and in the last fifth alone.
    behind: surprisal less entropy of the `BEHIND` tokens after a relaxed one, less that of all others (relaxed ones left out);
    None where there are none."""

    utterances: int
    relaxed: Estimate
    surprisal: Estimate
    early: Estimate
    late: Estimate
    behind: Estimate | None


def drift(results: Results, condition: Condition, baseline: Condition) -> Drift | None:
    """`condition` against AR, on the utterances of which both have traces; None without any."""
    ours, theirs = _sums(results.of(condition)), _sums(results.of(baseline))
    shared = [said for said in ours if said in theirs]
    if not shared:
        return None
    both = np.array([[ours[said], theirs[said]] for said in shared])
    total, draws = both.sum(0), resampled(both.reshape(len(both), -1)).reshape(-1, *both.shape[1:])

    def estimated(figure: Callable[[np.ndarray], np.ndarray]) -> Estimate:
        return between(float(figure(total)), figure(draws))

    def above_ar(part: str) -> Estimate:
        return estimated(lambda sums: _mean(sums, 0, part) - _mean(sums, 1, part))

    watched = total[0, _PARTS.index("behind"), 1] > 0 and total[0, _PARTS.index("elsewhere"), 1] > 0
    return Drift(
        len(shared),
        relaxed=estimated(lambda sums: _mean(sums, 0, "relaxed")),
        surprisal=above_ar("all"),
        early=above_ar("early"),
        late=above_ar("late"),
        behind=estimated(lambda sums: _mean(sums, 0, "behind") - _mean(sums, 0, "elsewhere")) if watched else None,
    )


def _mean(sums: np.ndarray, whose: int, part: str) -> np.ndarray:
    """Of `sums [..., 2, parts, 2]`; whose: 0 for the condition's, 1 for AR's. Not a number where there are no tokens."""
    of = sums[..., whose, _PARTS.index(part), :]
    with np.errstate(divide="ignore", invalid="ignore"):
        return of[..., 0] / of[..., 1]


def _sums(records: Sequence[Record]) -> dict[tuple[str, str], np.ndarray]:
    """The sums of every utterance that has traces, over its seeds, `[parts, 2]`."""
    found: dict[tuple[str, str], np.ndarray] = {}
    for record in records:
        if (trace := record.result.trace) is not None and trace.kinds:
            said = record.unit.utterance.text, record.unit.utterance.voice
            found[said] = found.get(said, 0) + _of_trace(trace)
    return found


def _of_trace(trace: Trace) -> np.ndarray:
    surprisal, relaxed = trace.nats("surprisal"), np.array([kind == RELAXED for kind in trace.kinds], bool)
    excess, fifth = surprisal - trace.nats("entropy"), max(1, len(surprisal) // 5)
    near = np.convolve(relaxed, np.ones(BEHIND + 1))[: len(relaxed)] > 0
    parts = {
        "all": surprisal, "early": surprisal[:fifth], "late": surprisal[-fifth:], "relaxed": relaxed,
        "behind": excess[near & ~relaxed], "elsewhere": excess[~near],
    }  # fmt: skip
    return np.array([[parts[name].sum(), len(parts[name])] for name in _PARTS], float)
