"""What records say: figures of each condition with intervals over utterances, and differences between conditions.

Knows records only: neither voices nor judges.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcg.errors import InputError
from pcg.experiments.results.naming import SCHEMES, acceptance_name, identity, knob, law, method
from pcg.experiments.results.sums import (
    COLUMNS,
    Statistic,
    Sums,
    cer,
    columns_of,
    estimate,
    mean,
    speedup,
    spoof,
    wall_speedup,
    wer,
)
from pcg.experiments.unit import Condition, Record, Utterance
from pcg.metrics.bound import StepCosts
from pcg.metrics.estimate import Estimate, between, share

# What may differ between two records whose times are compared all the same.
_NOT_THE_MACHINE = ("date", "judges")


class Results:
    """Records by condition. Two conditions are one if the same is said by both (`Unit.key`): the first one's name is kept.

    Raises InputError if the records are of several voices or judges, whose numbers cannot be compared.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        _check_sources(records)
        self._records: dict[str, dict[tuple[Utterance, int], Record]] = {}
        self._conditions: dict[str, Condition] = {}
        for record in records:
            unit = record.unit
            known = identity(unit.condition)
            self._conditions.setdefault(known, unit.condition)
            self._records.setdefault(known, {})[replace(unit.utterance, section=""), unit.seed] = record

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(self._conditions.values())

    def __contains__(self, condition: Condition) -> bool:
        return identity(condition) in self._records

    def of(self, condition: Condition) -> list[Record]:
        """The records of `condition`, of any name; none if it was not done."""
        return list(self._records.get(identity(condition), {}).values())

    def baseline(self, condition: Condition) -> Condition | None:
        """AR by the target with the sampling law of `condition`, its temperature included, if it was done."""
        alone = Condition("", condition.settings.with_(method="ar", hierarchical=False))
        return self._conditions.get(identity(alone))

    def within(self, conditions: Iterable[Condition], sections: Collection[str]) -> "Results":
        """What `conditions` said of some sections of the sentences."""
        records = [record for condition in conditions for record in self.of(condition)]
        return Results([record for record in records if record.unit.utterance.section in sections])

    def sums(self, *conditions: Condition, timed: bool = False) -> tuple[Sums, ...]:
        """For each condition its sums `[U, K]` over the U utterances that all of them said with the same seeds.

        timed: only where all of them were said on the same machine, with the same versions and as many workers.
        """
        tables = [self._records.get(identity(c), {}) for c in conditions]
        keys = [key for key in tables[0] if all(key in table for table in tables[1:])]
        if timed:
            keys = [key for key in keys if all(_place(t[key]) == _place(tables[0][key]) for t in tables[1:])]
        rows = {utterance: row for row, utterance in enumerate(dict.fromkeys(utterance for utterance, _ in keys))}
        columns = np.zeros((len(tables), len(rows), len(COLUMNS)))
        for which, table in enumerate(tables):
            for utterance, seed in keys:
                columns[which, rows[utterance]] += columns_of(table[utterance, seed])
        return tuple(map(Sums, columns))


@dataclass(frozen=True)
class Summary:
    """One condition's figures over its `n` records; rates are fractions, and None is what there is no number for.

    speedup, wall_speedup: over AR, on the `timed` utterances that both said on the same machine. acceptance: of position i =
    1 .. lookahead, the share of rounds that accepted there; conditional: the share of tests there that did. bound: the best
    speed-up at this acceptance (Leviathan et al., Theorem 3.8) where the costs of single steps were given. For a swapped
    utterance the similarity is that to the utterance before the swap, and its times mean nothing. rtf: seconds of all work per
    second of audio. computed: tokens that the target read for each that was said. spoof: see `Result`.
    """

    condition: Condition
    n: int
    utterances: int
    wer: Estimate | None
    cer: Estimate | None
    similarity: Estimate | None
    dnsmos: Estimate | None
    speedup: Estimate | None
    wall_speedup: Estimate | None
    timed: int
    tokens_per_second: float | None
    lm_rtf: Estimate | None
    acceptance_rate: Estimate | None
    mean_acceptance_length: Estimate | None
    acceptance: tuple[float, ...]
    conditional: tuple[float, ...]
    trials_per_rejection: Estimate | None
    hit_limit: Estimate
    swapped: Estimate | None
    mel_distance: Estimate | None
    bound: float | None
    rtf: Estimate | None
    computed: Estimate | None
    spoof: Estimate | None

    @property
    def name(self) -> str:
        return self.condition.name

    @property
    def method(self) -> str:
        return method(self.condition)


def summarise(results: Results, costs: Mapping[int, StepCosts] | None = None) -> list[Summary]:
    """A summary of every condition. costs: those of the steps by lookahead (`pcg.bench.methods.step_costs`)."""
    return [summary(results, condition, costs or {}) for condition in results.conditions]


def summary(results: Results, condition: Condition, costs: Mapping[int, StepCosts]) -> Summary:
    records = results.of(condition)
    if not records:
        raise InputError("condition", condition.name, "one that has records")
    (sums,) = results.sums(condition)
    baseline = results.baseline(condition)
    spoken = condition.swap is None
    pair = results.sums(condition, baseline, timed=True) if baseline and spoken else (Sums(np.zeros((0, len(COLUMNS)))),) * 2
    length = estimate(lambda s: 1 + s.ratio("accepted", "rounds"), sums)
    drafts = bool(sums.total["drafted"])
    cost = costs.get(condition.settings.lookahead) if drafts else None
    tested, accepted = _by_position(records)
    tests = np.maximum(tested, 1)
    return Summary(
        condition,
        n=len(records),
        utterances=len(sums),
        wer=estimate(wer, sums),
        cer=estimate(cer, sums),
        similarity=estimate(mean("similarity"), sums),
        dnsmos=estimate(mean("dnsmos"), sums),
        speedup=estimate(speedup, *pair),
        wall_speedup=estimate(wall_speedup, *pair),
        timed=len(pair[0]),
        tokens_per_second=float(sums.total.ratio("tokens", "decoding")) if spoken else None,
        lm_rtf=estimate(lambda s: s.ratio("decoding", "audio"), sums) if spoken else None,
        acceptance_rate=estimate(lambda s: s.ratio("accepted", "drafted"), sums) if drafts else None,
        mean_acceptance_length=length if spoken else None,
        acceptance=tuple((accepted / tests[:1]).tolist()),
        conditional=tuple((accepted / tests).tolist()),
        trials_per_rejection=estimate(lambda s: s.ratio("trials", "rejections"), sums) if sums.total["trials"] else None,
        hit_limit=share(sum(r.result.hit_limit for r in records), len(records)),
        swapped=None if spoken else estimate(mean("swapped"), sums),
        mel_distance=None if spoken else estimate(mean("mel_distance"), sums),
        bound=cost.bound(length.value, condition.settings.lookahead) if cost and length else None,
        rtf=estimate(lambda s: s.ratio("wall", "audio"), sums) if spoken else None,
        computed=estimate(lambda s: s.ratio("computed", "tokens"), sums) if spoken else None,
        spoof=estimate(spoof, sums),
    )


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
class EqualSpeed:
    """The error rate of a method's curve at the speed-up of another's `point`, interpolated between its neighbours.

    difference: the curve's WER less the point's, over the same utterances. met: share of resamplings in which the point's
    speed lay within the curve's. Curve and difference are None where the two are not comparable, and `reason` says why.
    """

    curve: str
    point: Condition
    utterances: int
    speedup: Estimate | None
    point_wer: Estimate | None
    curve_wer: Estimate | None
    difference: Estimate | None
    met: float
    reason: str = ""


# Below it the interval would be that of the lucky resamplings alone.
LEAST_MET = 0.9


def equal_speed(results: Results, name: str, curve: Sequence[Condition], point: Condition) -> EqualSpeed:
    """Compare `point` with the curve through the conditions `curve`, whose sums are interpolated linearly in speed-up."""
    baseline = results.baseline(point)
    if baseline is None or len(curve) < 2:
        lacking = "AR was not measured" if baseline is None else "the curve has fewer than two points"
        return EqualSpeed(name, point, 0, None, None, None, None, 0.0, lacking)
    base, at, *along = results.sums(baseline, point, *curve, timed=True)
    if not len(base):
        return EqualSpeed(name, point, 0, None, None, None, None, 0.0, "no utterance was said by all of them")

    def on_curve(at: Sums, base: Sums, *along: Sums) -> np.ndarray:
        return _interpolated(speedup(at, base), np.array([speedup(s, base) for s in along]), np.array([wer(s) for s in along]))

    everything = (at, base, *along)
    speed, own = estimate(speedup, at, base), estimate(wer, at)
    value = float(on_curve(*(s.total for s in everything)))
    drawn = on_curve(*(s.resampled for s in everything))
    met = float(np.isfinite(drawn).mean())
    compared = EqualSpeed(name, point, len(base), speed, own, None, None, met)
    if np.isnan(value) or met < LEAST_MET:
        ends = [float(speedup(s.total, base.total)) for s in along]
        reached = f"the curve reaches {min(ends):.2f}x to {max(ends):.2f}x"
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
    """The conditions of MSpoofTTS by its names for them: AR by each law, at its temperature and its top-k."""
    alone = [c for c in results.conditions if c.settings.method == "ar" and c.model == "target" and not c.swap]
    theirs = [c for c in alone if c.settings.temperature == 1 and (c.settings.sampler != "plain" or c.settings.top_k == 50)]
    found = {SCHEMES[law(c.settings)]: c for c in theirs if law(c.settings) in SCHEMES}
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


def _by_position(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Tests and acceptances, `[L]` each, added up over the records."""
    depth = max(len(r.result.tested) for r in records)
    both = np.zeros((2, depth))
    for record in records:
        both[0, : len(record.result.tested)] += record.result.tested
        both[1, : len(record.result.accepted_at)] += record.result.accepted_at
    return both[0], both[1]


def _place(record: Record) -> dict[str, object]:
    return {name: value for name, value in record.context.items() if name not in _NOT_THE_MACHINE}


def _check_sources(records: Sequence[Record]) -> None:
    first: dict[str, object] = {}
    for context in {id(record.context): record.context for record in records}.values():
        judges = context.get("judges")
        sources = {f"judge of {metric}": judge for metric, judge in judges.items()} if isinstance(judges, Mapping) else {}
        for field, source in (sources | {"voice": context.get("voice")}).items():
            if first.setdefault(field, source) != source:
                raise InputError(field, source, f"{first[field]!r} as in the other records")
