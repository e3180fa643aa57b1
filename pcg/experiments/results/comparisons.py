"""Methods compared on their common utterances: differences with intervals, rates at equal speed, and the best trade-offs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcg.experiments.results.analysis import Results, Summary
from pcg.experiments.results.condition_names import SCHEMES, acceptance_name, knob, method, sampler_name
from pcg.experiments.results.statistics import (
    Statistic,
    Sums,
    cer,
    estimate,
    mean,
    speedup,
    spoof,
    tokens_per_call,
    wer,
)
from pcg.experiments.unit import Condition
from pcg.metrics.estimate import Estimate, between


@dataclass(frozen=True)
class Difference:
    """`condition` less `baseline` over the `utterances` that both said, with paired intervals.

    p: of Student's paired t-test on the utterances' word error rates (PCG section 4), None where all are equal.
    """

    condition: Condition
    baseline: Condition
    utterances: int
    wer: Estimate | None
    cer: Estimate | None
    similarity: Estimate | None
    dnsmos: Estimate | None
    spoof: Estimate | None
    p: float | None


def difference(results: Results, condition: Condition, baseline: Condition) -> Difference:
    pair = results.sums(condition, baseline)

    def less(statistic: Statistic) -> Estimate | None:
        return estimate(lambda ours, theirs: statistic(ours) - statistic(theirs), *pair)

    return Difference(
        condition,
        baseline,
        utterances=len(pair[0]),
        wer=less(wer),
        cer=less(cer),
        similarity=less(mean("similarity")),
        dnsmos=less(mean("dnsmos")),
        spoof=less(spoof),
        p=_p_value(wer(pair[0]), wer(pair[1])),
    )


@dataclass(frozen=True)
class Axis:
    """What two curves are compared at. of(sums, sums of AR): a figure that grows with relaxation; timed: whether it needs times
    of one machine, and AR's."""

    name: str
    of: Statistic
    unit: str
    timed: bool


SPEED = Axis("speed", speedup, "x", timed=True)
WORK = Axis("work", tokens_per_call, " tokens a call", timed=False)


@dataclass(frozen=True)
class Matched:
    """The error rate of a method's curve where it has the speed or the work (`at`) of another's `point`, interpolated between
    its neighbours.

    All is over the same `utterances`. difference: the curve's WER less the point's. met: share of resamplings in which the
    point lay within the curve. Curve and difference are None where the two are not comparable, and `reason` says why. nearest:
    the curve's own setting that comes nearest, less the point, where it stands on the axis (`nearest_at`): nothing is
    interpolated.
    """

    curve: str
    point: Condition
    utterances: int
    at: Estimate | None = None
    point_wer: Estimate | None = None
    curve_wer: Estimate | None = None
    difference: Estimate | None = None
    met: float = 0.0
    reason: str = ""
    nearest: Difference | None = None
    nearest_at: float | None = None


FEW_POINTS = "the curve has fewer than two points"
# Below it the interval would be that of the lucky resamplings alone.
LEAST_MET = 0.9


def matched(results: Results, axis: Axis, name: str, curve: Sequence[Condition], point: Condition) -> Matched:
    """Compare `point` with the curve through the conditions `curve`, whose sums are interpolated linearly along the `axis`.

    Of the curve those that said all that `point` said, if they make a curve: one that was said less often would take most
    utterances from all.
    """
    whole = [condition for condition in curve if results.covers(condition, point)]
    curve = whole if len(whole) > 1 else curve
    baseline = results.baseline(point) if axis.timed else point
    if baseline is None or len(curve) < 2:
        return Matched(name, point, 0, reason="AR was not measured" if baseline is None else FEW_POINTS)
    results = results.sharing(baseline, point, *curve, timed=axis.timed)
    base, at, *along = results.sums(baseline, point, *curve)
    if not len(base):
        return Matched(name, point, 0, reason="no utterance was said by all of them")

    def on_curve(at: Sums, base: Sums, *along: Sums) -> np.ndarray:
        return _interpolated(axis.of(at, base), np.array([axis.of(s, base) for s in along]), np.array([wer(s) for s in along]))

    everything = (at, base, *along)
    where, own = estimate(axis.of, at, base), estimate(wer, at)
    value = float(on_curve(*(s.total for s in everything)))
    drawn = on_curve(*(s.resampled for s in everything))
    ends = [float(axis.of(s.total, base.total)) for s in along]
    near = min(range(len(curve)), key=lambda i: abs(ends[i] - where.value))
    pair = {"nearest": difference(results, curve[near], point), "nearest_at": ends[near]}
    compared = Matched(name, point, len(base), where, own, met=float(np.isfinite(drawn).mean()), **pair)
    if np.isnan(value) or compared.met < LEAST_MET:
        reached = f"the curve reaches {min(ends):.2f} to {max(ends):.2f}{axis.unit}"
        return replace(compared, reason=reached if np.isnan(value) else f"{reached}, and the point lies near its end")
    gap = between(value - float(wer(at.total)), drawn - wer(at.resampled))
    return replace(compared, curve_wer=between(value, drawn), difference=gap)


def pareto(summaries: Sequence[Summary]) -> list[Summary]:
    """Those that no other beats, being at least as fast with at most as many word errors; the slowest first."""
    there = [s for s in summaries if s.speedup and s.wer]
    ranked = sorted(there, key=lambda s: (-s.speedup.value, s.wer.value))
    front: list[Summary] = []
    for candidate in ranked:
        if not front or candidate.wer.value < front[-1].wer.value:
            front.append(candidate)
    return front[::-1]


def schemes(results: Results) -> dict[str, Condition]:
    """The conditions of MSpoofTTS by its names for them: AR by each sampler, at its temperature and its top-k."""
    alone = [c for c in results.conditions if c.settings.method == "ar" and c.model == "target" and not c.swap]
    theirs = [c for c in alone if c.settings.temperature == 1 and (c.settings.sampler != "plain" or c.settings.top_k == 50)]
    found = {SCHEMES[sampler_name(c.settings)]: c for c in theirs if sampler_name(c.settings) in SCHEMES}
    return {name: found[name] for name in SCHEMES.values() if name in found}


def curve(results: Results, method_name: str, like: Condition) -> list[Condition]:
    """The conditions of one method that share lookahead and temperature with `like`, in order of their knob.

    SSD at beta 0 and PCG at theta 1 say what SD says, coin for coin, so SD is where the curves of both begin.
    """
    shared = [c for c in results.conditions if c.swap is None and _comparable(c, like)]
    begins = [c for c in shared if acceptance_name(c) == "SD"] if method_name.startswith(("SSD", "PCG")) else []
    return begins + sorted((c for c in shared if method(c) == method_name), key=knob)


def _comparable(one: Condition, other: Condition) -> bool:
    fields = ("lookahead", "temperature", "adaptive", "sampler", "top_k", "top_p", "repetition_penalty", "hierarchical",
              "verification", "lookahead_cost")  # fmt: skip
    return all(getattr(one.settings, f) == getattr(other.settings, f) for f in fields)


def _interpolated(speed: np.ndarray, speeds: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """`rates [P, ...]` at `speeds [P, ...]` -> the rate at `speed [...]`; not a number outside of the speeds."""
    flat, order = speeds.reshape(len(speeds), -1), np.argsort(speeds.reshape(len(speeds), -1), axis=0)
    along = np.take_along_axis(flat, order, 0)
    values = np.take_along_axis(rates.reshape(len(rates), -1), order, 0)
    found = [
        np.interp(x, xs, ys, left=np.nan, right=np.nan) for x, xs, ys in zip(np.ravel(speed), along.T, values.T, strict=True)
    ]
    return np.array(found).reshape(np.shape(speed))


def _p_value(ours: np.ndarray, theirs: np.ndarray) -> float | None:
    if len(ours) < 2 or np.allclose(ours - theirs, (ours - theirs)[0]):
        return None
    from scipy.stats import ttest_rel  # half a second to import, and the page reads results without it

    return float(ttest_rel(ours, theirs).pvalue)
