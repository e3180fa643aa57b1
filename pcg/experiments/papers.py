"""The papers' own numbers as printed, and their claims put to our records.

PCG: Yanuka et al., "Principled Coarse-Grained Acceptance for Speculative Decoding in Speech". SSD: Lin et al., "Accelerating
Autoregressive Speech Synthesis Inference With Speech Speculative Decoding" (Interspeech 2025).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pcg.experiments.results import Difference, Results, Summary, at_equal_work, is_usual
from pcg.metrics.estimate import Estimate

Quoted = dict[str, float | tuple[float, float]]
"""A row of a paper's table: rates in percent, speaker similarity as the paper scales it, speed-ups over AR. Of two numbers the
second is the +- behind the first: a standard deviation, over seeds or, of a MOS, ratings."""

PCG_TABLE_1: dict[str, Quoted] = {
    "draft": {"speedup": 5.2, "wer": (52.8, 1.6), "cer": (41.4, 1.8), "similarity": (36.3, 1.1)},
    "SD": {"speedup": 0.98, "wer": (11.1, 0.6), "cer": (5.5, 0.5), "similarity": (43.7, 0.3), "mos": (4.38, 0.88)},
    "SSD": {"speedup": 1.4, "wer": (18.5, 1.9), "cer": (11.6, 1.7), "similarity": (42.5, 0.4), "mos": (3.78, 1.21)},
    "PCG": {"speedup": 1.4, "wer": (13.8, 0.4), "cer": (7.8, 0.3), "similarity": (43.7, 0.1), "mos": (4.09, 1.13)},
}
# By mean group size: percent of the tokens swapped, and the change of WER in points.
PCG_TABLE_2 = {1.0: (0.0, 0.0), 4.5: (75.0, 0.4), 10.3: (91.4, 0.7)}
PCG_SSD_BETA, PCG_MOST_TRIALS = 0.3, 3.0
SSD_TABLE_1: dict[str, Quoted] = {
    "draft": {"wer": 16.13, "mos": 3.95, "similarity": 0.61, "lm_rtf": 0.222},
    "AR": {"wer": 3.67, "mos": 3.96, "similarity": 0.62, "lm_rtf": 0.504},
}
# By beta. The similarity .50 at beta .1 stands so in the paper.
SSD_TABLE_3: dict[float, Quoted] = {
    0.0: {"wer": 6.34, "mos": 3.86, "similarity": 0.62, "lm_rtf": 0.509},
    0.1: {"wer": 5.71, "mos": 3.90, "similarity": 0.50, "lm_rtf": 0.444},
    0.2: {"wer": 6.08, "mos": 3.92, "similarity": 0.62, "lm_rtf": 0.408},
    0.3: {"wer": 6.29, "mos": 3.93, "similarity": 0.62, "lm_rtf": 0.386},
    0.4: {"wer": 5.70, "mos": 3.94, "similarity": 0.63, "lm_rtf": 0.360},
}
SSD_BETA = 0.4

_PCG_SETUP = (
    "Theirs (PCG): LLaSA-8B, a draft of three of its layers, an H100, temperature 0.8, 500 utterances of LibriTTS test-clean, "
    "three seeds; HuBERT-large judges words, WavLM speakers, four people the MOS."
)
_SSD_SETUP = (
    "Theirs (SSD): CosyVoice 2 (0.5B), a draft of eight of its layers, an A100, 500 utterances of LibriTTS test-clean; "
    "Whisper-large V3 judges words, ERes2Net speakers."
)
_OURS = "Ours: the model, sentences and judges of this report: compare directions, not levels."
DIFFERS = {
    "main": f"{_PCG_SETUP} {_OURS} DNSMOS predicts a rating and is none.",
    "equal": "The shares are those of the takes of two settings that together work as much as the rule.",
    "swap": "The paper's Sim-O is to the reference voice; our similarity is to the same utterance before the swap.",
    "ssd": f"{_SSD_SETUP} {_OURS} LM-RTF depends on the machine.",
    "acceptance": "The papers print no rates of acceptance; PCG says that thinning never takes more than 3 trials on average.",
    "claims": f"{_PCG_SETUP} {_SSD_SETUP} {_OURS} A claim holds or is contradicted where its 95 % interval lies wholly on one "
    "side; else, and on fewer than 20 utterances, it is open. No correction is made for asking several questions.",
}

HOLDS, CONTRADICTED, OPEN, UNTESTED = "holds", "contradicted", "open", "not comparable"
DISAGREE = "judges disagree"
# PCG calls a swap that costs .007 a small drop; its claim is taken to allow one point of WER.
SMALL_LOSS = 0.01
# With fewer utterances no claim is decided; below ENOUGH a verdict is named with its number.
FEWEST, ENOUGH = 20, 200


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
        theirs = [*_of_pcg(heard, summaries), *_of_thinning_and_ssd(heard, summaries)]
        theirs = [replace(c, verdict=OPEN) if c.n < FEWEST and c.verdict in (HOLDS, CONTRADICTED) else c for c in theirs]
        ours = [_with_other(*pair) for pair in zip(ours, theirs, strict=True)] if judge else theirs
    return ours


def _with_other(claim: Claim, theirs: Claim) -> Claim:
    if theirs.ours == claim.ours:
        return replace(claim, others=(*claim.others, "-"))
    verdict = claim.verdict if claim.verdict == theirs.verdict else DISAGREE
    return replace(claim, verdict=verdict, others=(*claim.others, f"{theirs.verdict}: {theirs.ours}"))


def _below(measured: Estimate | None, limit: float) -> str:
    if measured is None:
        return UNTESTED
    return HOLDS if measured.high < limit else CONTRADICTED if measured.low > limit else OPEN


def _shown(value: Estimate, unit: str = "") -> str:
    return f"{value.value:.2f}{unit} [{value.low:.2f}, {value.high:.2f}]"


def _less(text: str, source: str, paper: str, lost: Difference, limit: float, before: str = "", after: str = "") -> Claim:
    """Make a claim that the word errors of `lost` are below `limit`. before, after: around our number."""
    wer = lost.wer
    points = f"{100 * wer.value:+.1f} [{100 * wer.low:+.1f}, {100 * wer.high:+.1f}] points" if wer else "-"
    return Claim(text, source, paper, f"{before}{points}{after}", lost.utterances, _below(wer, limit))


def _exact(summaries: Sequence[Summary]) -> Summary | None:
    return next((s for s in summaries if s.method == "SD" and is_usual(s)), None)


def _of_pcg(results: Results, summaries: Sequence[Summary]) -> Iterator[Claim]:
    """Yield PCG's claims on speed, on words at equal work, and on swaps."""
    exact = _exact(summaries)
    if exact and exact.speedup:
        shown, verdict = _shown(exact.speedup, "x"), _below(exact.speedup, 1.0)
        yield Claim("Exact speculative decoding is no faster than AR", "PCG Table 1", "0.98x", shown, exact.timed, verdict)
    for row in (s for s in summaries if s.method == "SSD" and is_usual(s)):
        if lost := at_equal_work(results, "PCG", row.condition):
            beta = row.condition.settings.beta
            text = f"At the work of SSD (beta {beta:g}), PCG makes fewer word errors"
            paper = "13.8 against 18.5 %, p = 0.039, at equal speed" if beta == PCG_SSD_BETA else "-"
            p = "" if lost.p is None else f", p = {lost.p:.2g}"
            yield _less(text, "PCG Table 1", paper, lost, 0.0, f"{lost.name}: ", p)
    # The swap within groups whose share of tokens is nearest to the paper's strongest.
    share, points = PCG_TABLE_2[10.3]
    swapped = [s for s in summaries if s.method == "swap" and s.swapped and results.baseline(s.condition)]
    if swapped:
        row = min(swapped, key=lambda s: abs(100 * s.swapped.value - share))
        lost = Summary(results, row.condition).change
        text = "Members of a group stand for each other: swapping them costs at most one point of WER"
        ours = f", {100 * row.swapped.value:.0f} % swapped"
        yield _less(text, "PCG Table 2", f"{points:+.1f} points, {share:g} % swapped", lost, SMALL_LOSS, after=ours)


def _of_thinning_and_ssd(results: Results, summaries: Sequence[Summary]) -> Iterator[Claim]:
    """Yield the claim on the trials of thinning, and that on SSD's tolerance."""
    exact, tried = _exact(summaries), [s for s in summaries if s.method == "PCG" and s.trials_per_rejection]
    if tried:
        row = max(tried, key=lambda s: s.trials_per_rejection.value)
        ours = f"{_shown(row.trials_per_rejection)} ({row.name})"
        if exact and exact.acceptance_of_tested is not None:
            share = f"{exact.acceptance_of_tested:.0%}"
            ours += f", with a draft of whose tested tokens SD accepts {share}: it depends on the draft"
        verdict = _below(row.trials_per_rejection, PCG_MOST_TRIALS)
        yield Claim("Thinning takes at most 3 trials on average", "PCG section 2.2", "at most 3", ours, row.n, verdict)
    for row in (s for s in summaries if s.method == "SSD" and is_usual(s)):
        if exact and row.condition.settings.beta == SSD_BETA:
            lost = Difference(row.name, *results.sums(row.condition, exact.condition))
            text = "SSD's tolerance (beta 0.4 against 0) costs at most a point of WER"
            yield _less(text, "SSD Table 3", "5.70 against 6.34 %", lost, SMALL_LOSS)
