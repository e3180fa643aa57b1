"""The papers' claims put to our records."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pcg.experiments import papers
from pcg.experiments.results import (
    CONTROL,
    Difference,
    Results,
    Summary,
    estimate,
    is_usual,
    lookaheads_by_knob,
    nearest,
    schemes,
    speedup,
)
from pcg.metrics.estimate import Estimate
from pcg.settings import Settings

HOLDS, CONTRADICTED, OPEN, UNTESTED = "holds", "contradicted", "open", "not comparable"
DISAGREE = "judges disagree"
# PCG calls a swap that costs .007 a small drop; its claim is taken to allow one point of WER.
SMALL_LOSS = 0.01
# With fewer utterances no claim is decided; below ENOUGH a verdict is named with its number.
FEWEST, ENOUGH = 20, 200
TWISTERS = "twisters"
PCG = "PCG cosine"
# The samplers of MSpoofTTS, each with what it is compared with.
COMPARED = (("EAS", "Original"), ("EAS", CONTROL), ("HierEAS", "Original"), ("HierEAS", "EAS"), ("HierRAS", "RAS"))


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, its number there, ours over `n` utterances, and the verdict.

    others: verdict and number by each further judge, "-" where it is the same.
    """

    text: str
    source: str
    paper: str
    ours: str
    n: int
    verdict: str
    others: tuple[str, ...] = ()

    @property
    def stated(self) -> str:
        """The verdict, with the number of utterances where it is small."""
        if self.verdict == OPEN and self.n < FEWEST:
            return f"{OPEN}, n below {FEWEST}"
        few = self.n < ENOUGH and self.verdict in (HOLDS, CONTRADICTED, DISAGREE)
        return f"{self.verdict}, n below {ENOUGH}" if few else self.verdict


def claims(results: Results, summaries: Sequence[Summary]) -> list[Claim]:
    """Return the claims for which there are records, with the verdict of every judge."""
    ours: list[Claim] = []
    for judge, heard in results.by_judge().items():
        theirs = [*_of_pcg(heard, summaries), *_best_lookahead(heard, summaries), *_of_others(heard, summaries)]
        theirs = [replace(c, verdict=OPEN) if c.n < FEWEST and c.verdict in (HOLDS, CONTRADICTED) else c for c in theirs]
        ours = [_with_other(*pair) for pair in zip(ours, theirs, strict=True)] if judge else theirs
    return ours


def _with_other(claim: Claim, theirs: Claim) -> Claim:
    if theirs.ours == claim.ours:
        return replace(claim, others=(*claim.others, "-"))
    verdict = claim.verdict if claim.verdict == theirs.verdict else DISAGREE
    return replace(claim, verdict=verdict, others=(*claim.others, f"{theirs.verdict}: {theirs.ours}"))


def verdict_below(measured: Estimate | None, limit: float) -> str:
    if measured is None:
        return UNTESTED
    return HOLDS if measured.high < limit else CONTRADICTED if measured.low > limit else OPEN


def _shown(value: Estimate, unit: str = "") -> str:
    return f"{value.value:.2f}{unit} [{value.low:.2f}, {value.high:.2f}]"


def _less(text: str, source: str, paper: str, lost: Difference, limit: float, before: str = "", after: str = "") -> Claim:
    """Make a claim that the word errors of `lost` are below `limit`. before, after: around our number."""
    wer = lost.wer
    points = f"{100 * wer.value:+.1f} [{100 * wer.low:+.1f}, {100 * wer.high:+.1f}] points" if wer else "-"
    return Claim(text, source, paper, f"{before}{points}{after}", lost.utterances, verdict_below(wer, limit))


def _of_pcg(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    exact = next((s for s in summaries if s.method == "SD" and is_usual(s)), None)
    if exact and exact.speedup:
        text, verdict = "Exact speculative decoding is no faster than AR", verdict_below(exact.speedup, 1.0)
        yield Claim(text, "PCG Table 1", "0.98x", _shown(exact.speedup, "x"), exact.timed, verdict)
    for row in (s for s in summaries if s.method in ("SSD", "PCG Mel") and is_usual(s)):
        if (lost := nearest(results, PCG, row.condition)) is None:
            continue
        beta, theta = row.condition.settings.beta, row.condition.settings.theta
        text = f"At the work of Mel groups (theta {theta:.3g}), cosine groups make fewer word errors"
        source, paper = "PCG Table 3", "12.6 against 13.9 %, at equal speed"
        if row.method == "SSD":
            text, source = f"At the work of SSD (beta {beta:g}), PCG makes fewer word errors", "PCG Table 1"
            paper = "13.8 against 18.5 %, p = 0.039, at equal speed" if beta == papers.PCG_SSD_BETA else "-"
        p = "" if lost.p is None else f", p = {lost.p:.2g}"
        yield _less(text, source, paper, lost, 0.0, f"{lost.condition.name}: ", p)
    # The swap within groups whose share of tokens is nearest to the paper's strongest.
    most = papers.PCG_TABLE_2[-1]
    swapped = [s for s in summaries if s.method == "swap cosine" and s.swapped and results.baseline(s.condition)]
    if swapped:
        row = min(swapped, key=lambda s: abs(100 * s.swapped.value - most.values["swapped"]))
        lost = Difference(results, row.condition, results.baseline(row.condition))
        text = "Members of a group stand for each other: swapping them costs at most one point of WER"
        paper = f"{100 * most.values['wer']:+.1f} points, {most.values['swapped']:g} % swapped"
        yield _less(text, "PCG Table 2", paper, lost, SMALL_LOSS, after=f", {100 * row.swapped.value:.0f} % swapped")


def _best_lookahead(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    best = papers.PCG_BEST_LOOKAHEAD
    families = [rows for rows in lookaheads_by_knob(summaries, PCG) if best in rows and len(rows) > 1]
    if not families:
        return
    usual = [rows for rows in families if rows[best].condition.settings.theta == Settings().theta]
    rows = (usual or [max(families, key=len)])[0]
    ours, ratios = rows[best].condition, {}
    for at, rival in rows.items():
        pair = results.sums(ours, rival.condition, timed=True)
        if at != best and (ratio := estimate(speedup, *pair)):
            ratios[at] = ratio, len(pair[0])
    if ratios:
        closest = min(ratios, key=lambda at: ratios[at][0].value)
        ratio, n = ratios[closest]
        beaten, wins = any(r.high < 1 for r, _ in ratios.values()), all(r.low > 1 for r, _ in ratios.values())
        text = f"A lookahead of 3 tokens is the fastest for PCG (theta {ours.settings.theta:g})"
        shown = f"{_shown(ratio, 'x')} the speed of {closest}"
        yield Claim(text, "PCG Fig. 4", "3 tokens", shown, n, HOLDS if wins else CONTRADICTED if beaten else OPEN)


def _of_others(results: Results, summaries: Sequence[Summary]) -> Iterable[Claim]:
    exact = next((s for s in summaries if s.method == "SD" and is_usual(s)), None)
    tried = [s for s in summaries if s.method == PCG and s.trials_per_rejection]
    if tried:
        row = max(tried, key=lambda s: s.trials_per_rejection.value)
        ours = f"{_shown(row.trials_per_rejection)} ({row.name})"
        if exact and exact.acceptance_of_tested is not None:
            share = f"{exact.acceptance_of_tested:.0%}"
            ours += f", with a draft of whose tested tokens SD accepts {share}: it depends on the draft"
        text, verdict = (
            "Thinning takes at most 3 trials on average",
            verdict_below(row.trials_per_rejection, papers.PCG_MOST_TRIALS),
        )
        yield Claim(text, "PCG section 2.2", "at most 3", ours, row.n, verdict)
    for row in (s for s in summaries if s.method == "SSD" and is_usual(s)):
        if exact and row.condition.settings.beta == papers.SSD_BETA:
            lost = Difference(results, row.condition, exact.condition)
            text = "SSD's tolerance (beta 0.4 against 0) costs at most a point of WER"
            yield _less(text, "SSD Table 3", "5.70 against 6.34 %", lost, SMALL_LOSS)
    # Samplers on tongue twisters apart from all other sentences, as their paper does.
    by_scheme = schemes(results)
    for source, theirs, where, twisters in (
        ("MSpoofTTS Table 1", papers.MSPOOF_TABLE_1_LIBRISPEECH, "", False),
        ("MSpoofTTS Table 2", papers.MSPOOF_TABLE_2, ", in tongue twisters", True),
    ):
        inside = results.where(lambda unit, twisters=twisters: (unit.utterance.section == TWISTERS) == twisters)
        for name, rival in COMPARED:
            pair = [by_scheme[each] for each in (name, rival) if each in by_scheme and inside.of(by_scheme[each])]
            if len(pair) == 2:
                quoted = [f"{theirs[each].values['wer']:g}" for each in (name, rival) if each in theirs]
                paper = f"{' against '.join(quoted)} %" if len(quoted) > 1 else "-"
                text = f"{name} makes fewer word errors than {rival}{where}"
                yield _less(text, source, paper, Difference(inside, *pair), 0.0)
