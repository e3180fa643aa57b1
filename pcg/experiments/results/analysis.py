"""What records say: figures of each condition with intervals over utterances, and differences between conditions.

Knows records only: neither voices nor judges.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcg.errors import InputError
from pcg.experiments.results.condition_names import identity, method, sampler_name
from pcg.experiments.results.papers import PCG_BEST_LOOKAHEAD
from pcg.experiments.results.statistics import (
    COLUMNS,
    Sums,
    cer,
    columns_of,
    estimate,
    mean,
    speedup,
    spoof,
    tokens_per_call,
    wall_speedup,
    wer,
)
from pcg.experiments.unit import DEFAULTS, RECORDED, Condition, Record, Unit, Utterance
from pcg.metrics.estimate import Estimate, share
from pcg.synthesis.costs import StepCosts

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
        """AR by the target with the sampler of `condition`, its temperature included, if it was done."""
        alone = Condition("", condition.settings.with_(method="ar", hierarchical=False, verification="token"))
        return self._conditions.get(identity(alone))

    @property
    def judges(self) -> tuple[str, ...]:
        """The further judges of the words, who heard every record."""
        named = [tuple(hearing.judge for hearing in record.result.also_heard) for record in self._all()]
        return tuple(judge for judge in (named[0] if named else ()) if all(judge in names for names in named))

    @property
    def sections(self) -> tuple[str, ...]:
        """The kinds of sentences, in the order of the records."""
        return tuple(dict.fromkeys(record.unit.utterance.section for record in self._all()))

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({record.unit.seed for record in self._all()}))

    def where(self, wanted: Callable[[Unit], bool]) -> "Results":
        """The records of the units that are `wanted`."""
        return Results([record for record in self._all() if wanted(record.unit)])

    def heard_by(self, judge: str) -> "Results":
        """The same records with the words of a further judge."""
        return Results([replace(record, result=record.result.by(judge)) for record in self._all()])

    def by_judge(self) -> dict[str, "Results"]:
        """What each judge heard, by its name; the first has none."""
        return {"": self} | {judge: self.heard_by(judge) for judge in self.judges}

    def _all(self) -> list[Record]:
        return [record for records in self._records.values() for record in records.values()]

    def alike(self, conditions: Sequence[Condition]) -> "Results":
        """These conditions, and AR beside each, on the utterances that all of them said with the same seeds."""
        return self.sharing(*conditions, *(base for c in conditions if (base := self.baseline(c)) is not None))

    def sharing(self, *conditions: Condition, timed: bool = False) -> "Results":
        """What these conditions said of the utterances over which `sums` adds."""
        names, keys = dict.fromkeys(map(identity, conditions)), set(self._shared(conditions, timed))
        return Results([r for name in names for key, r in self._records.get(name, {}).items() if key in keys])

    def covers(self, condition: Condition, other: Condition) -> bool:
        """Whether `condition` said all that `other` said, with the same seeds."""
        return {*self._records.get(identity(other), {})} <= {*self._records.get(identity(condition), {})}

    def only(self, conditions: Iterable[Condition]) -> "Results":
        """What these conditions said."""
        return Results([record for condition in conditions for record in self.of(condition)])

    def within(self, conditions: Iterable[Condition], sections: Collection[str]) -> "Results":
        """What `conditions` said of some sections of the sentences."""
        return self.only(conditions).where(lambda unit: unit.utterance.section in sections)

    def sums(self, *conditions: Condition, timed: bool = False) -> tuple[Sums, ...]:
        """For each condition its sums `[U, K]` over the U utterances that all of them said with the same seeds.

        timed: only where all of them were said on the same machine, with the same versions and as many workers.
        """
        tables, keys = [self._records.get(identity(c), {}) for c in conditions], self._shared(conditions, timed)
        rows = {utterance: row for row, utterance in enumerate(dict.fromkeys(utterance for utterance, _ in keys))}
        columns = np.zeros((len(tables), len(rows), len(COLUMNS)))
        for which, table in enumerate(tables):
            for utterance, seed in keys:
                columns[which, rows[utterance]] += columns_of(table[utterance, seed])
        return tuple(map(Sums, columns))

    def _shared(self, conditions: Sequence[Condition], timed: bool) -> list[tuple[Utterance, int]]:
        first, *others = [self._records.get(identity(c), {}) for c in conditions]
        keys = [key for key in first if all(key in other for other in others)]
        if timed:
            keys = [key for key in keys if all(_place(other[key]) == _place(first[key]) for other in others)]
        return keys


@dataclass(frozen=True)
class Summary:
    """One condition's figures over its `n` records; rates are fractions, and None is what there is no number for.

    speedup, wall_speedup: over AR, on the `timed` utterances that both said on the same machine. acceptance: of position i =
    1 .. lookahead, the share of rounds that accepted there; conditional: the share of tests there that did. bound: the best
    speed-up at this acceptance (Leviathan et al., Theorem 3.8) where the costs of single steps were given, and every round
    drafted `lookahead` tokens. trials_per_rejection: None by block verification, which thins only some of the rejected. For a
    swapped utterance the similarity is that to the utterance before the swap, and its times mean nothing. rtf: seconds of all
    work per second of audio. computed: tokens that the target read for each that was said. spoof: see `Result`.
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
    acceptance_of_tested: float | None
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


def alike(results: Results, rows: Iterable[Summary]) -> tuple[Results, list[Summary]]:
    """`rows` again, on the utterances that all of them share, as only such rows may stand in one table; no rows where there are
    none. A bound is that of all its utterances."""
    rows = list(rows)
    shared = results.alike([row.condition for row in rows]) if rows else results
    if not rows or not shared.of(rows[0].condition):
        return results, []
    return shared, [replace(summary(shared, row.condition, {}), bound=row.bound) for row in rows]


def of_one_temperature(results: Results, summaries: Sequence[Summary]) -> tuple[Results, Sequence[Summary]]:
    """Without those that sample plainly at another temperature than most: they are points of no curve of the others. Samplers
    have temperatures of their own."""
    plain = Counter(s.condition.settings.temperature for s in summaries if not sampler_name(s.condition.settings))
    if len(plain) < 2:
        return results, summaries
    usual = max(plain, key=lambda temperature: (plain[temperature], temperature == DEFAULTS.temperature))
    kept = [s for s in summaries if s.condition.settings.temperature == usual or sampler_name(s.condition.settings)]
    return results.only(s.condition for s in kept), kept


def is_usual(row: Summary) -> bool:
    """Whether it was said with the papers' lookahead; AR has none."""
    return row.condition.settings.method == "ar" or row.condition.settings.lookahead == PCG_BEST_LOOKAHEAD


def most_heard(rows: Iterable[Summary]) -> list[Summary]:
    """Those that were said as often as the one that was said most."""
    rows = list(rows)
    return [row for row in rows if row.n == max(each.n for each in rows)]


def summary(results: Results, condition: Condition, costs: Mapping[int, StepCosts]) -> Summary:
    records = results.of(condition)
    if not records:
        raise InputError("condition", condition.name, "one that has records")
    (sums,) = results.sums(condition)
    baseline = results.baseline(condition)
    spoken = condition.swap is None and condition.model not in RECORDED
    pair = results.sums(condition, baseline, timed=True) if baseline and spoken else (Sums(np.zeros((0, len(COLUMNS)))),) * 2
    length = estimate(tokens_per_call, sums)
    drafts, thins = bool(sums.total["drafted"]), bool(sums.total["trials"]) and condition.settings.verification == "token"
    # A bound knows rounds of one length alone.
    full = drafts and sums.total["drafted"] == sums.total["rounds"] * condition.settings.lookahead
    cost = costs.get(condition.settings.lookahead) if full else None
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
        acceptance_of_tested=float(accepted.sum() / tested.sum()) if tested.any() else None,
        mean_acceptance_length=length if spoken else None,
        acceptance=tuple((accepted / tests[:1]).tolist()),
        conditional=tuple((accepted / tests).tolist()),
        trials_per_rejection=estimate(lambda s: s.ratio("trials", "rejections"), sums) if thins else None,
        hit_limit=share(sum(r.result.hit_limit for r in records), len(records)),
        swapped=estimate(mean("swapped"), sums) if condition.swap else None,
        mel_distance=estimate(mean("mel_distance"), sums) if condition.swap else None,
        bound=cost.bound(length.value, condition.settings.lookahead) if cost and length else None,
        rtf=estimate(lambda s: s.ratio("wall", "audio"), sums) if spoken else None,
        computed=estimate(lambda s: s.ratio("computed", "tokens"), sums) if spoken else None,
        spoof=estimate(spoof, sums),
    )


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
