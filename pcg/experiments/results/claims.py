"""What the papers claim, put to our own records: each claim holds, is contradicted, or is left open by the interval."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pcg.experiments.results import papers
from pcg.experiments.results.analysis import Results, Summary
from pcg.experiments.results.comparisons import SPEED, WORK, Matched, curve, difference, matched, schemes
from pcg.experiments.results.condition_names import CONTROL, knob, method
from pcg.experiments.results.statistics import Sums, estimate, speedup
from pcg.experiments.unit import Condition
from pcg.metrics.estimate import Estimate
from pcg.settings import Settings

HOLDS, CONTRADICTED, OPEN, UNTESTED = "holds", "contradicted", "open", "not comparable"
DISAGREE = "judges disagree"
# A swap that the paper calls a small drop cost it .007; its claim is taken to allow one point of WER.
SMALL_LOSS = 0.01
# With fewer utterances an interval means little, and no claim is decided.
FEWEST = 20
# With fewer, a verdict is named with its number.
ENOUGH = 200
TWISTERS = "twisters"
PCG = "PCG cosine"
# The samplers of MSpoofTTS: each with what it is to be better than. The paper has no plain sampling of EAS's top-p.
COMPARED = (("EAS", "Original"), ("EAS", CONTROL), ("HierEAS", "Original"), ("HierEAS", "EAS"), ("HierRAS", "RAS"))
RIVALS = {"Original": "top-k sampling", CONTROL: "top-p sampling alone"}


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, its number there, ours over `n` utterances, and what follows. others: ours, and what follows, by
    each of the further judges, where that is not the same."""

    text: str
    source: str
    paper: str
    ours: str
    n: int
    verdict: str
    others: tuple[str, ...] = ()

    @property
    def stated(self) -> str:
        """The verdict, with the number of utterances where that is small."""
        if self.verdict == OPEN and self.n < FEWEST:
            return f"{OPEN}, n below {FEWEST}"
        few = self.n < ENOUGH and self.verdict in (HOLDS, CONTRADICTED, DISAGREE)
        return f"{self.verdict}, n below {ENOUGH}" if few else self.verdict


def claims(results: Results, summaries: Sequence[Summary]) -> list[Claim]:
    """The claims for which there are records; one on which the judges of words disagree is called so."""
    found = _claims(results, summaries)
    for judge in results.judges:
        # Of the summaries a claim takes what no judge changes: names, speeds, counts.
        found = [_also(ours, theirs) for ours, theirs in zip(found, _claims(results.heard_by(judge), summaries), strict=True)]
    return found


def _also(claim: Claim, theirs: Claim) -> Claim:
    if theirs.ours == claim.ours:
        return replace(claim, others=(*claim.others, "-"))
    verdict = claim.verdict if claim.verdict == theirs.verdict else DISAGREE
    return replace(claim, verdict=verdict, others=(*claim.others, f"{theirs.verdict}: {theirs.ours}"))


def _claims(results: Results, summaries: Sequence[Summary]) -> list[Claim]:
    makers = (
        _no_gain_of_sd, _beats_ssd, _beats_mel, _interchangeable, _three_are_best, _few_trials, _ssd_keeps_words,
        _laws_keep_words,
    )  # fmt: skip
    found = [claim for make in makers for claim in make(results, summaries)]
    return [replace(c, verdict=OPEN) if c.n < FEWEST and c.verdict in (HOLDS, CONTRADICTED) else c for c in found]


def verdict_below(measured: Estimate | None, limit: float) -> str:
    """Whether a figure lies below `limit`, by its interval."""
    if measured is None:
        return UNTESTED
    return HOLDS if measured.high < limit else CONTRADICTED if measured.low > limit else OPEN


def points(value: Estimate | None) -> str:
    """A difference of rates in percent points."""
    return "-" if value is None else f"{100 * value.value:+.1f} [{100 * value.low:+.1f}, {100 * value.high:+.1f}] points"


def _no_gain_of_sd(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    row = _usual(summaries, "SD")
    if row and row.speedup:
        said = f"{row.speedup.value:.2f}x [{row.speedup.low:.2f}, {row.speedup.high:.2f}]"
        text = "Exact speculative decoding is no faster than AR"
        yield Claim(text, "PCG Table 1", "0.98x", said, row.timed, verdict_below(row.speedup, 1.0))


def _beats_ssd(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    for row in summaries:
        theirs = row.condition.settings.beta == papers.PCG_SSD_BETA
        if row.method == "SSD" and _is_usual(row) and (theirs or row.n >= ENOUGH):
            quoted = "13.8 against 18.5 %, p = 0.039" if theirs else "-"
            for axis in (SPEED, WORK):
                compared = matched(results, axis, PCG, curve(results, PCG, row.condition), row.condition)
                text = f"At the {axis.name} of SSD (beta {row.condition.settings.beta:g}), PCG makes fewer word errors"
                yield _lower_wer(text, "PCG Table 1", quoted, compared)


def _beats_mel(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    for row in summaries:
        if row.method == "PCG Mel" and _is_usual(row):
            compared = matched(results, SPEED, PCG, curve(results, PCG, row.condition), row.condition)
            text = (
                f"At the speed of Mel groups (theta {row.condition.settings.theta:.3g}), cosine groups make fewer word errors"
            )
            yield _lower_wer(text, "PCG Table 3", "12.6 against 13.9 %", compared)


def interchangeable_row(summaries: Sequence[Summary]) -> Summary | None:
    """The swap within groups that swaps most nearly as many tokens as the paper's strongest."""
    swapped = [s for s in summaries if s.method == "swap cosine" and s.swapped]
    wanted = papers.PCG_TABLE_2[-1].values["swapped"]
    return min(swapped, key=lambda s: abs(100 * s.swapped.value - wanted), default=None)


def _interchangeable(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    row, most = interchangeable_row(summaries), papers.PCG_TABLE_2[-1]
    baseline = results.baseline(row.condition) if row else None
    if baseline:
        lost = difference(results, row.condition, baseline)
        text = "Members of a group stand for each other: swapping them costs at most one point of WER"
        paper = f"{100 * most.values['wer']:+.1f} points, {most.values['swapped']:g} % swapped"
        ours = f"{points(lost.wer)}, {100 * row.swapped.value:.0f} % swapped"
        yield Claim(text, "PCG Table 2", paper, ours, lost.utterances, verdict_below(lost.wer, SMALL_LOSS))


def _three_are_best(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    best = papers.PCG_BEST_LOOKAHEAD
    by_theta = {each[best].condition.settings.theta: each for each in lookaheads_by_knob(summaries, PCG) if best in each}
    measured = {theta: each for theta, each in by_theta.items() if len(each) > 1}
    if not measured:
        return
    by_lookahead = measured.get(Settings().theta) or max(measured.values(), key=len)
    theta = by_lookahead[best].condition.settings.theta
    ours = by_lookahead.pop(best).condition
    found = {at: _faster(results, ours, rival.condition) for at, rival in by_lookahead.items()}
    ratios = {at: ratio for at, (ratio, _) in found.items() if ratio}
    if ratios:
        closest = min(ratios, key=lambda at: ratios[at].value)
        ratio, n = found[closest]
        beaten = any(ratio.high < 1 for ratio in ratios.values())
        verdict = HOLDS if all(ratio.low > 1 for ratio in ratios.values()) else CONTRADICTED if beaten else OPEN
        said = f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] times the speed of {closest}"
        text = f"A lookahead of 3 tokens is the fastest for PCG (theta {theta:g})"
        yield Claim(text, "PCG Fig. 4", "3 tokens", said, n, verdict)


def _few_trials(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    tried = [s for s in summaries if s.method == PCG and s.trials_per_rejection]
    if tried:
        row = max(tried, key=lambda s: s.trials_per_rejection.value)
        most = row.trials_per_rejection
        ours = f"{most.value:.2f} [{most.low:.2f}, {most.high:.2f}] ({row.name}){_of_this_draft(summaries)}"
        text = "Thinning takes at most 3 trials on average"
        verdict = verdict_below(most, papers.PCG_MOST_TRIALS)
        yield Claim(text, "PCG section 2.2", "at most 3", ours, row.n, verdict)


def _of_this_draft(summaries: Sequence[Summary]) -> str:
    """A better draft leaves the target's mass less to correct in a round, and thinning more trials in those that are left."""
    exact = _usual(summaries, "SD")
    if not exact or exact.acceptance_of_tested is None:
        return ""
    return f", with a draft of whose tested tokens SD accepts {exact.acceptance_of_tested:.0%}: it depends on the draft"


def _ssd_keeps_words(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    exact = _usual(summaries, "SD")
    for row in summaries:
        if exact and row.method == "SSD" and row.condition.settings.beta == papers.SSD_BETA and _is_usual(row):
            lost = difference(results, row.condition, exact.condition)
            text = "SSD's tolerance (beta 0.4 against 0) makes no difference in WER worth a point"
            verdict = verdict_below(lost.wer, SMALL_LOSS)
            yield Claim(text, "SSD Table 3", "5.70 against 6.34 %", points(lost.wer), lost.utterances, verdict)


def _laws_keep_words(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    """Tongue twisters apart from all other sentences, as the paper has them."""
    plain = [section for section in results.sections if section != TWISTERS]
    yield from _schemes_within(results, plain, "MSpoofTTS Table 1", papers.MSPOOF_TABLE_1_LIBRISPEECH, "")
    yield from _schemes_within(results, [TWISTERS], "MSpoofTTS Table 2", papers.MSPOOF_TABLE_2, ", in tongue twisters")


def _schemes_within(
    results: Results, sections: Sequence[str], source: str, theirs: Mapping[str, papers.Quoted], where: str
) -> Iterable[Claim]:
    by_scheme = schemes(results)
    results = results.within(by_scheme.values(), sections)
    by_scheme = {name: condition for name, condition in by_scheme.items() if condition in results}
    for name, rival in COMPARED:
        if name in by_scheme and rival in by_scheme:
            lost = difference(results, by_scheme[name], by_scheme[rival])
            quoted = [f"{theirs[each].values['wer']:g}" for each in (name, rival) if each in theirs]
            paper = f"{' against '.join(quoted)} %" if len(quoted) > 1 else "-"
            text = f"{name} makes fewer word errors than {RIVALS.get(rival, rival)}{where}"
            verdict = verdict_below(lost.wer, 0.0)
            yield Claim(text, source, paper, points(lost.wer), lost.utterances, verdict)


def lookaheads(summaries: Sequence[Summary], name: str) -> dict[int, Summary]:
    """The summaries of one method by lookahead, at that knob for which most lookaheads were measured."""
    return max(lookaheads_by_knob(summaries, name), key=len, default={})


def lookaheads_by_knob(summaries: Sequence[Summary], name: str) -> list[dict[int, Summary]]:
    """The summaries of one method by lookahead: a dict for each of its knobs, the strictest first."""
    by_knob: dict[Condition, dict[int, Summary]] = {}
    for row in summaries:
        if row.method == name and row.speedup:
            settings = row.condition.settings
            family = Condition("", settings.with_(lookahead=1, seed=0), row.condition.model, row.condition.rule)
            by_knob.setdefault(family, {})[settings.lookahead] = row
    strictest_first = sorted(by_knob, key=knob)
    return [dict(sorted(by_knob[family].items())) for family in strictest_first]


def _faster(results: Results, condition: Condition, rival: Condition) -> tuple[Estimate | None, int]:
    """The ratio of two decoding speeds over the same utterances, and how many these are."""
    pair: tuple[Sums, ...] = results.sums(condition, rival, timed=True)
    return estimate(speedup, *pair), len(pair[0])


def _lower_wer(text: str, source: str, paper: str, compared: Matched) -> Claim:
    near = compared.nearest
    pair = f"; {near.condition.name} alone {points(near.wer)}, p = {near.p:.2g}" if near and near.p is not None else ""
    if compared.difference is None:
        return Claim(text, source, paper, compared.reason + pair, compared.utterances, UNTESTED)
    verdict = verdict_below(compared.difference, 0.0)
    return Claim(text, source, paper, points(compared.difference) + pair, compared.utterances, verdict)


def _is_usual(row: Summary) -> bool:
    """Whether it was said with the papers' lookahead."""
    return row.condition.settings.lookahead == papers.PCG_BEST_LOOKAHEAD


def _usual(summaries: Sequence[Summary], name: str) -> Summary | None:
    return next((s for s in summaries if method(s.condition) == name and _is_usual(s)), None)
