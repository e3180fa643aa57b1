"""Records of experiments as figures: pooled over utterances with 95 % intervals, and compared on common utterances.

Every figure is a quotient of sums over utterances, so one bootstrap of the sums serves all of them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter

import numpy as np

from pcg.errors import InputError
from pcg.experiments.unit import DEFAULTS, RECORDED, Condition, Record, Result, Unit, Utterance
from pcg.metrics.estimate import Estimate, between, resampled, share
from pcg.settings import Settings

# Fields of a context that may differ between two records whose times are compared.
NOT_THE_MACHINE = ("date", "judges")
BLOCK = 10


@lru_cache(maxsize=1024)
def identity(condition: Condition) -> str:
    """Return a key of `condition` without its name, its seed and the settings that its method does not read."""
    return Unit(Utterance("", ""), condition, 0).key("")


def method(condition: Condition) -> str:
    """Return the name of the curve that a condition is a point of: its acceptance rule, and whether it samples otherwise."""
    settings = condition.settings
    if condition.swap:
        name = "random swap" if condition.swap.replacement == "random" else "swap"
    elif condition.model != "target":
        name = condition.model
    elif condition.rule:
        name = condition.rule.partition(":")[0]
    else:
        name = settings.method.upper() + (" block" if settings.verification == "block" else "")
    sampled = settings.hierarchical or settings.sampling[1:] != DEFAULTS.sampling[1:]
    return f"{name}, own sampler" if sampled else name


def knob(condition: Condition) -> float:
    """Return the relaxation on the method's own scale, growing with speed: beta, 1 - theta, k, or what the rule names."""
    if condition.swap:
        return 1 - condition.swap.theta
    if condition.rule:
        kind, *values = condition.rule.split(":")
        value = float(values[0] if kind == "typical" else values[-1])
        return -value if kind in ("typical", "relaxed", "ensemble") else value
    settings = condition.settings
    return {"ssd": settings.beta, "pcg": 1 - settings.theta}.get(settings.method, 0.0)


# Figures of a result that add up over utterances, first those that are its fields; "count" makes means of the others.
SUMMED = ("similarity", "dnsmos", "rounds", "drafted", "accepted", "trials", "swapped", "mel_distance")
COLUMNS: dict[str, Callable[[Result], float | None]] = {
    **{name: attrgetter(name) for name in SUMMED},
    "count": lambda r: 1,
    "word_errors": lambda r: r.words[0],
    "words": lambda r: r.words[1],
    "lost": lambda r: 2 * r.words[0] > r.words[1],
    "character_errors": lambda r: r.characters[0],
    "characters": lambda r: r.characters[1],
    "tokens": lambda r: len(r.tokens),
    "rejections": lambda r: sum(r.tested) - sum(r.accepted_at),
    "audio": lambda r: r.audio_seconds,
    "decoding": lambda r: r.decoding_seconds,
    "wall": lambda r: r.wall_seconds,
    "distillmos": lambda r: r.distillmos or 0.0,
    "distilled": lambda r: r.distillmos is not None,
    # Over the tokens of utterances that the target read again.
    "nll": lambda r: r.nats or 0.0,
    "read": lambda r: 0 if r.nats is None else len(r.tokens),
}
PLACES = {name: place for place, name in enumerate(COLUMNS)}
# Figures that are one sum over another, or a mean.
RATIOS = {
    "wer": ("word_errors", "words"),
    "cer": ("character_errors", "characters"),
    # The share of utterances with more than half of the words wrong.
    "lost": ("lost", "count"),
    # To the reference voice; of a swap, to the utterance before it.
    "similarity": ("similarity", "count"),
    "dnsmos": ("dnsmos", "count"),
    "distillmos": ("distillmos", "distilled"),
    "nll": ("nll", "read"),
    "acceptance_rate": ("accepted", "drafted"),
    "mel_distance": ("mel_distance", "count"),
}


@lru_cache(maxsize=2**16)
def columns_of(result: Result) -> np.ndarray:
    """Return one number for each of PLACES; NaN where the result has none."""
    values = [read(result) for read in COLUMNS.values()]
    return np.array([np.nan if value is None else float(value) for value in values])


@dataclass(frozen=True, eq=False)
class Sums:
    """`columns [..., K]`, one for each of PLACES: of utterances, their totals, or the totals of many resamplings."""

    columns: np.ndarray

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[..., PLACES[name]]

    @cached_property
    def total(self) -> "Sums":
        return Sums(self.columns.sum(0))

    @cached_property
    def resampled(self) -> "Sums":
        return Sums(resampled(self.columns))

    def ratio(self, above: str, below: str) -> np.ndarray:
        """Return one column over another; NaN where the divisor is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self[below] > 0, self[above] / self[below], np.nan)


Statistic = Callable[..., np.ndarray]


def speedup(sums: Sums, baseline: Sums, time: str = "decoding") -> np.ndarray:
    """Return pooled tokens per second of the decoding loop over those of the baseline (PCG section 3.1)."""
    return sums.ratio("tokens", time) / baseline.ratio("tokens", time)


def tokens_per_call(sums: Sums) -> np.ndarray:
    """Return tokens for each call of the target."""
    return 1 + sums.ratio("accepted", "rounds")


def estimate(statistic: Statistic, *sums: Sums) -> Estimate | None:
    """Return `statistic` of the totals of `sums` (the same utterances in each) with its 95 % bootstrap interval, or None."""
    if not len(sums[0]):
        return None
    value = float(statistic(*(s.total for s in sums)))
    return None if np.isnan(value) else between(value, statistic(*(s.resampled for s in sums)))


def over_few(statistic: Statistic, *sums: Sums) -> Estimate | None:
    """Return `statistic` > 0 of the totals of `sums` with Student's 95 % interval of its logarithm over their few rows, where a
    bootstrap's is too narrow; None for none."""
    from scipy.stats import t

    if not len(sums[0]):
        return None
    each, value = np.log(statistic(*sums)), float(statistic(*(s.total for s in sums)))
    half = float(t.ppf(0.975, len(each) - 1) * each.std(ddof=1) / len(each) ** 0.5)
    return Estimate(value, value * np.exp(-half), value * np.exp(half))


class Results:
    """Records by condition. Two conditions are one if they have one `identity`; the first one's name is kept. Raises InputError
    if the records are of several voices or judges."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records: dict[str, dict[tuple[Utterance, int], Record]] = {}
        self._conditions: dict[str, Condition] = {}
        first: dict[str, object] = {}
        for context in {id(record.context): record.context for record in records}.values():
            judges = {f"judge of {metric}": judge for metric, judge in context.get("judges", {}).items()}
            for field, source in (judges | {"voice": context.get("voice")}).items():
                if first.setdefault(field, source) != source:
                    raise InputError(field, source, f"{first[field]!r} as in the other records")
        for record in records:
            key = identity(record.unit.condition)
            self._conditions.setdefault(key, record.unit.condition)
            self._records.setdefault(key, {})[_place_of(record)] = record
        places = {place for own in self._records.values() for place in own}
        for key, own in self._records.items():
            if self._conditions[key].model in RECORDED:  # a recording is the same for every seed
                spoken = {utterance: record for (utterance, _), record in own.items()}
                for utterance, seed in places:
                    if record := spoken.get(utterance):
                        own.setdefault((utterance, seed), replace(record, unit=replace(record.unit, seed=seed)))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(self._conditions.values())

    @property
    def records(self) -> list[Record]:
        return [record for records in self._records.values() for record in records.values()]

    def _of(self, condition: Condition) -> dict[tuple[Utterance, int], Record]:
        return self._records.get(identity(condition), {})

    def of(self, condition: Condition) -> list[Record]:
        return list(self._of(condition).values())

    def baseline(self, condition: Condition) -> Condition | None:
        """Return AR by the target with the sampler and temperature of `condition`, if there are records of it."""
        alone = Condition("", condition.settings.with_(method="ar", hierarchical=False, verification="token"))
        return self._conditions.get(identity(alone))

    def by_judge(self) -> dict[str, "Results"]:
        """Return the same records with the words of each judge who heard all of them, by name; "" is the first judge."""
        records = self.records
        heard = [tuple(transcript.judge for transcript in record.result.also_heard) for record in records]
        judges = [judge for judge in (heard[0] if heard else ()) if all(judge in names for names in heard)]
        others = {judge: [replace(record, result=record.result.by(judge)) for record in records] for judge in judges}
        return {"": self} | {judge: Results(theirs) for judge, theirs in others.items()}

    def shared(self, conditions: Sequence[Condition], timed: bool = False) -> list[tuple[Utterance, int]]:
        """Return the utterances and seeds that all `conditions` have.

        timed: only records of one machine with the same versions, made by a worker that had no other beside it.
        """
        first, *others = [self._of(condition) for condition in conditions]
        keys = [key for key in first if all(key in other for other in others)]
        if timed:
            machines = {key: _machine(first[key]) for key in keys if first[key].context.get("workers") == 1}
            keys = [key for key in machines if all(_machine(other[key]) == machines[key] for other in others)]
        return keys

    def sums(self, *conditions: Condition, timed: bool = False) -> tuple[Sums, ...]:
        """Return for each condition its sums `[U, K]` over the U utterances of `shared`, seeds added up."""
        keys = self.shared(conditions, timed)
        rows = {utterance: row for row, utterance in enumerate(dict.fromkeys(utterance for utterance, _ in keys))}
        columns = np.zeros((len(conditions), len(rows), len(PLACES)))
        for which, condition in enumerate(conditions):
            for utterance, seed in keys:
                columns[which, rows[utterance]] += columns_of(self._of(condition)[utterance, seed].result)
        return tuple(map(Sums, columns))


def _place_of(record: Record) -> tuple[Utterance, int]:
    return replace(record.unit.utterance, section=""), record.unit.seed


def _machine(record: Record) -> dict[str, object]:
    return {name: value for name, value in record.context.items() if name not in NOT_THE_MACHINE}


class Summary:
    """The figures of a condition over its `n` records; rates are fractions.

    Every name in RATIOS and FIGURES is an attribute, computed when it is asked for; None where there is no number.
    """

    def __init__(self, results: Results, condition: Condition) -> None:
        self.results, self.condition, self.name, self.method = results, condition, condition.name, method(condition)
        self.records = results.of(condition)
        if not self.records:
            raise InputError("condition", condition.name, "one that has records")
        (self.sums,) = results.sums(condition)
        self.n, self.utterances = len(self.records), len(self.sums)
        # Whether times are those of decoding.
        self.spoken = condition.swap is None and condition.model not in RECORDED

    def __getattr__(self, name: str) -> object:
        if name not in RATIOS and name not in FIGURES:
            raise AttributeError(name)
        setattr(self, name, self.pooled(*RATIOS[name]) if name in RATIOS else FIGURES[name](self))
        return self.__dict__[name]

    def pooled(self, above: str, below: str = "count", meaningful: object = True) -> Estimate | None:
        """Return one sum over another with its interval."""
        return estimate(lambda sums: sums.ratio(above, below), self.sums) if meaningful else None

    def wer_quantile(self, share: float) -> float:
        """Return the WER that this share of the utterances does not exceed."""
        return float(np.quantile(self.sums["word_errors"] / np.maximum(1, self.sums["words"]), share))

    @cached_property
    def with_baseline(self) -> tuple[Sums, Sums]:
        """The sums of the condition and of AR over the utterances that both have from one machine."""
        baseline = self.results.baseline(self.condition)
        if baseline is None or not self.spoken:
            return (Sums(self.sums.columns[:0]),) * 2
        return self.results.sums(self.condition, baseline, timed=True)

    @property
    def blocks(self) -> tuple[Sums, ...]:
        """`with_baseline` by blocks of BLOCK utterances in the order in which they were said: a machine's speed changes from
        block to block. Empty for fewer than three blocks."""
        if self.timed <= 2 * BLOCK:
            return tuple(Sums(sums.columns[:0]) for sums in self.with_baseline)
        starts = np.arange(0, self.timed, BLOCK)
        return tuple(Sums(np.add.reduceat(sums.columns, starts)) for sums in self.with_baseline)

    @cached_property
    def change(self) -> "Difference | None":
        """The difference to AR; None for AR itself, and where it has no records."""
        baseline = self.results.baseline(self.condition)
        if baseline is None or identity(baseline) == identity(self.condition):
            return None
        return Difference(self.name, *self.results.sums(self.condition, baseline))

    @cached_property
    def by_position(self) -> np.ndarray:
        """Tests and acceptances at position 1 .. lookahead, `[2, L]`."""
        both = np.zeros((2, max(len(record.result.tested) for record in self.records)))
        for record in self.records:
            both[0, : len(record.result.tested)] += record.result.tested
            both[1, : len(record.result.accepted_at)] += record.result.accepted_at
        return both


FIGURES: dict[str, Callable[[Summary], object]] = {
    "wer_p95": lambda s: s.wer_quantile(0.95),
    "wer_worst": lambda s: s.wer_quantile(1.0),
    # Speeds over AR, of the decoding loop and of all work, on so many `timed` utterances.
    "timed": lambda s: len(s.with_baseline[0]),
    "speedup": lambda s: estimate(speedup, *s.with_baseline),
    "speedup_over_blocks": lambda s: over_few(speedup, *s.blocks),
    "wall_speedup": lambda s: estimate(lambda ours, theirs: speedup(ours, theirs, "wall"), *s.with_baseline),
    "tokens_per_second": lambda s: float(s.sums.total.ratio("tokens", "decoding")) if s.spoken else None,
    # Seconds of the decoding loop for a second of audio.
    "lm_rtf": lambda s: s.pooled("decoding", "audio", s.spoken),
    "acceptance_of_tested": lambda s: float(s.by_position[1].sum() / s.by_position[0].sum()) if s.by_position.any() else None,
    "mean_acceptance_length": lambda s: estimate(tokens_per_call, s.sums) if s.spoken else None,
    # Shares at position 1 .. lookahead: of the rounds, and of the tests there.
    "acceptance": lambda s: tuple((s.by_position[1] / np.maximum(s.by_position[0], 1)[:1]).tolist()),
    "conditional": lambda s: tuple((s.by_position[1] / np.maximum(s.by_position[0], 1)).tolist()),
    "trials_per_rejection": lambda s: s.pooled("trials", "rejections", s.sums.total["trials"]),
    "hit_limit": lambda s: share(sum(record.result.hit_limit for record in s.records), s.n),
    "swapped": lambda s: s.pooled("swapped", meaningful=s.condition.swap),
}


def summarise(results: Results) -> list[Summary]:
    return sorted((Summary(results, each) for each in results.conditions), key=lambda row: (row.method, knob(row.condition)))


def alike(results: Results, rows: Iterable[Summary]) -> tuple[Results, list[Summary]]:
    """Compute `rows` again on the utterances and seeds that they and the AR of each share: only such rows make a table."""
    conditions = [row.condition for row in rows]
    if not conditions:
        return results, []
    wanted = [*conditions, *(base for c in conditions if (base := results.baseline(c)) is not None)]
    names, keys = set(map(identity, wanted)), set(results.shared(wanted))
    records = [r for r in results.records if identity(r.unit.condition) in names and _place_of(r) in keys]
    shared = Results(records)
    return (shared, [Summary(shared, condition) for condition in conditions]) if keys else (results, [])


def is_usual(row: Summary) -> bool:
    """Return whether the row has the papers' lookahead, which is the default; AR has none."""
    return row.condition.settings.method == "ar" or row.condition.settings.lookahead == DEFAULTS.lookahead


def most_heard(rows: Iterable[Summary]) -> list[Summary]:
    """Return the rows with the largest number of records."""
    rows = list(rows)
    return [row for row in rows if row.n == max(each.n for each in rows)]


class Difference:
    """What is called `name` less another, by their sums over the `utterances` that both have.

    Every name in RATIOS is an attribute, an Estimate with a paired interval or None, computed when it is asked for.
    """

    def __init__(self, name: str, ours: Sums, theirs: Sums) -> None:
        self.name, self._pair, self.utterances = name, (ours, theirs), len(ours)

    def __getattr__(self, name: str) -> Estimate | None:
        if name not in RATIOS:
            raise AttributeError(name)
        columns = RATIOS[name]
        setattr(self, name, estimate(lambda ours, theirs: ours.ratio(*columns) - theirs.ratio(*columns), *self._pair))
        return self.__dict__[name]

    @property
    def work(self) -> tuple[Estimate | None, Estimate | None]:
        """Tokens per target call of both."""
        return tuple(estimate(tokens_per_call, sums) for sums in self._pair)

    @cached_property
    def rates(self) -> np.ndarray:
        """Differences of the utterances' word error rates, `[U]`."""
        ours, theirs = (sums.ratio(*RATIOS["wer"]) for sums in self._pair)
        return ours - theirs

    @cached_property
    def p(self) -> float | None:
        """Student's paired t-test on the utterances' word error rates (PCG section 4); None where all differences are equal."""
        if len(self.rates) < 2 or np.allclose(self.rates, self.rates[0]):
            return None
        from scipy.stats import ttest_1samp

        return float(ttest_1samp(self.rates, 0.0).pvalue)

    def no_loss(self, margin: float) -> tuple[float, float] | None:
        """Test that `condition` misses less than `margin` more of the words: Student's paired t-test on the utterances' word
        error rates, one-sided.

        Returns:
            p, and the power at 2.5 %: how often it would tell so if there were no difference. None for one utterance.
        """
        from scipy.stats import norm, ttest_1samp

        if len(self.rates) < 2:
            return None
        if np.allclose(self.rates, self.rates[0]):
            return (0.0 if self.rates[0] < margin else 1.0), 1.0
        spread = float(self.rates.std(ddof=1)) / len(self.rates) ** 0.5
        p = float(ttest_1samp(self.rates, margin, alternative="less").pvalue)
        return p, float(norm.cdf(margin / spread - norm.ppf(0.975)))


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust the p of several claims that are made together (Holm's step-down)."""
    order = np.argsort(ps)
    steps = np.minimum(1.0, np.arange(len(ps), 0, -1) * np.asarray(ps)[order])
    adjusted = np.empty(len(ps))
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted.tolist()


def at_equal_work(results: Results, name: str, point: Condition) -> Difference | None:
    """Return the method `name` at the work of `point` (tokens per target call), less the point.

    Where one setting works less and one more, it is a mix of the nearest two: so large a share of the takes of each that the
    work is equal; its intervals hold that share fixed. Else it is the nearest one. Settings that lack utterances of the point
    are left out; None where none is left.
    """
    (every,), surplus = results.sums(point), {}
    for condition in curve(results, name, point):
        ours, theirs = results.sums(condition, point)
        if method(condition) == name and len(ours) == len(every):
            surplus[condition] = float(tokens_per_call(ours.total) - tokens_per_call(theirs.total))
    below, above = [c for c in surplus if surplus[c] <= 0], [c for c in surplus if surplus[c] > 0]
    if not below or not above:
        near = min(surplus, key=lambda c: abs(surplus[c]), default=None)
        return near and Difference(near.name, *results.sums(near, point))
    less, more = max(below, key=surplus.get), min(above, key=surplus.get)
    pair = *sums, theirs = results.sums(less, more, point)
    accepted = tokens_per_call(theirs.total) - 1
    low, high = (float(s.total["accepted"] - accepted * s.total["rounds"]) for s in sums)
    share = low / (low - high)
    mixed = Sums((1 - share) * pair[0].columns + share * pair[1].columns)
    return Difference(f"{less.name} ({1 - share:.0%}) and {more.name} ({share:.0%})", mixed, theirs)


def pareto(summaries: Sequence[Summary], prices: Sequence[str] = ("wer",)) -> list[tuple[Summary, float]]:
    """Return the rows that no other beats, the slowest first: none is as fast at prices as low, and better in one of them.

    Args:
        summaries: of the same utterances.
        prices: of RATIOS those of which less is better.

    Returns:
        each with the share of the bootstrap's resamples in which nothing beats it.
    """
    known = sorted((s for s in summaries if s.speedup and all(getattr(s, p) for p in prices)), key=lambda s: s.speedup.value)
    if not known:
        return []

    def front(resample: Callable[[Sums], Sums]) -> np.ndarray:
        costs = [
            [-speedup(*map(resample, s.with_baseline)), *(resample(s.sums).ratio(*RATIOS[p]) for p in prices)] for s in known
        ]
        ours = np.moveaxis(np.array(costs, ndmin=3), 1, -1)  # [rows, resamples, costs]
        beaten = [((ours <= own).all(-1) & (ours < own).any(-1)).any(0) for own in ours]
        return ~np.array(beaten)

    best, shares = front(lambda s: Sums(s.columns.sum(0, keepdims=True))), front(lambda s: s.resampled).mean(1)
    return [(s, float(share)) for s, is_best, share in zip(known, best[:, 0], shares, strict=True) if is_best]


def curve(results: Results, name: str, like: Condition) -> list[Condition]:
    """Return the conditions of the method `name` that share all but the knob with `like`, in order of the knob.

    SD is where the curves of SSD (beta 0) and PCG (theta 1) begin.
    """
    free = {"method", "theta", "beta", "seed"}
    fields = [field for field in Settings.model_fields if field not in free]
    shared = [
        c
        for c in results.conditions
        if c.swap is None and all(getattr(c.settings, field) == getattr(like.settings, field) for field in fields)
    ]
    begins = [c for c in shared if method(c).partition(",")[0] == "SD"] if name.startswith(("SSD", "PCG")) else []
    return begins + sorted((c for c in shared if method(c) == name), key=knob)
