"""The findings of a set of records in five sentences, each with its figures; one that was not measured is left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcg.experiments.results.acceptance_factors import FACTORS, acceptance_by
from pcg.experiments.results.analysis import Results, Summary, alike, is_usual, most_heard
from pcg.experiments.results.claims import ENOUGH, interchangeable_row, points
from pcg.experiments.results.comparisons import WORK, Difference, Matched, curve, difference, matched
from pcg.experiments.unit import Condition
from pcg.metrics.estimate import Estimate

RELAXED = ("SSD", "PCG cosine")
ENTROPY = FACTORS[1]


@dataclass(frozen=True)
class Headline:
    """text: one sentence or two. table: the name of the one that it is from."""

    text: str
    table: str


def headlines(results: Results, summaries: Sequence[Summary]) -> list[Headline]:
    """Speed, words, PCG against SSD, the swap, and where acceptance fails."""
    shared, shown = alike(results, most_heard(s for s in summaries if s.condition.swap is None and is_usual(s)))
    found = (
        _speed(shown), _words(shared, shown), _against_ssd(results, summaries), _swap(results, summaries),
        _entropy(results, shown),
    )  # fmt: skip
    return [each for each in found if each]


def _speed(shown: Sequence[Summary]) -> Headline | None:
    timed = [s for s in shown if s.speedup and s.method in ("SD", *RELAXED)]
    fastest = {s.method: s for s in sorted(timed, key=lambda s: s.speedup.value)}
    if not fastest:
        return None
    each = [f"{row.name} {_times(row.speedup)}" for row in sorted(fastest.values(), key=lambda s: s.speedup.value)]
    return Headline(f"Speed of the decoding loop over AR: {', '.join(each)}. SD is exact.", "main")


def _words(results: Results, shown: Sequence[Summary]) -> Headline | None:
    lost = [
        difference(results, row.condition, baseline)
        for row in shown
        if row.method in RELAXED and (baseline := results.baseline(row.condition))
    ]
    measured = [each for each in lost if each.wer]
    if not measured:
        return None
    worst = max(measured, key=lambda each: each.wer.value)
    certain = [each for each in measured if each.wer.low > 0]
    none = f"No relaxed setting loses words that {worst.utterances} utterances could tell"
    what = f"{len(certain)} of {len(measured)} relaxed settings lose words beyond chance" if certain else none
    return Headline(f"{what}; the worst, {worst.condition.name}, loses {points(worst.wer)} over AR.", "differences")


def _against_ssd(results: Results, summaries: Sequence[Summary]) -> Headline | None:
    """By that pair of settings whose work is most alike, of those that were said often enough, if there are any."""

    def beside(heard: Results, point: Condition) -> Matched:
        return matched(heard, WORK, "PCG cosine", curve(heard, "PCG cosine", point), point)

    found = [beside(results, row.condition) for row in summaries if row.method == "SSD" and is_usual(row)]
    pairs = [each for each in found if each.nearest and each.at and each.nearest.condition.settings.method == "pcg"]
    if not pairs:
        return None
    pair = min(pairs, key=lambda each: (each.utterances < ENOUGH, abs(each.nearest_at - each.at.value)))
    others = [f"; by {judge} {_lost(beside(results.heard_by(judge), pair.point).nearest)}" for judge in results.judges]
    names = f"word errors of {pair.nearest.condition.name} less those of {pair.point.name}"
    place = f"{pair.nearest_at:.1f} tokens a call, n = {pair.utterances}"
    return Headline(f"At equal work ({place}), {names}: {_lost(pair.nearest)}{''.join(others)}.", "work")


def _lost(less: Difference) -> str:
    """With the p of a test, if there is one."""
    return points(less.wer) + ("" if less.p is None else f", p = {less.p:.2g}")


def _swap(results: Results, summaries: Sequence[Summary]) -> Headline | None:
    row = interchangeable_row(summaries)
    baseline = results.baseline(row.condition) if row else None
    if not baseline:
        return None
    lost = difference(results, row.condition, baseline)
    share, theta = f"{100 * row.swapped.value:.0f} %", f"{row.condition.swap.theta:g}"
    text = f"Swapping {share} of all tokens within their groups (theta {theta}) costs {points(lost.wer)} of word errors."
    return Headline(text, "swap")


def _entropy(results: Results, shown: Sequence[Summary]) -> Headline | None:
    exact = next((row for row in shown if row.method == "SD"), None)
    levels = acceptance_by(results, exact.condition, ENTROPY) if exact else {}
    if len(levels) < 2:
        return None
    (low, most), (high, least) = next(iter(levels.items())), list(levels.items())[-1]
    shares = f"{most.accepted.value:.0%} where it is {low} nats and {least.accepted.value:.0%} where it is {high}"
    return Headline(f"By the target's entropy, SD accepts of the tokens that it tests {shares}.", "factors")


def _times(value: Estimate) -> str:
    return f"{value.value:.2f}x [{value.low:.2f}, {value.high:.2f}]"
