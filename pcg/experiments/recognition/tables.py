"""Table 1 and Figures 3 and 4 of the CTC paper (arXiv:2603.11243) from our records, and what they say to its claims."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import erfc, sqrt
from statistics import median

import numpy as np

from pcg.asr.self_speculative import Thresholds
from pcg.experiments.recognition.study import ACCURATE, AR, FAST, SWEPT_CTC, SWEPT_LM, Heard, RecognitionStudy, setting_name
from pcg.experiments.results.claims import CONTRADICTED, HOLDS, OPEN, Claim, points
from pcg.experiments.results.tables.table import WER, WER_CHANGE, Cell, Column, N, P, Table
from pcg.metrics.estimate import Estimate, between, resampled
from pcg.metrics.intelligibility import Errors, pooled

RUN = "python -m pcg experiment recognition"
SOURCE = "arXiv:2603.11243"
# The averages of Table 1, English Open ASR: WER %, RTFx, %C, %L.
PAPER = {AR: (5.75, 564.0, None, None), ACCURATE: (5.58, 548.0, 14.0, 47.0), FAST: (6.56, 2491.0, None, None)}
MODES = {AR: "AR", ACCURATE: "high accuracy", FAST: "high RTFx"}
BOTH = [setting_name(Thresholds(ctc, lm)) for ctc, lm in product(SWEPT_CTC, SWEPT_LM)]
ALONE = [setting_name(Thresholds(ctc, None)) for ctc in SWEPT_CTC] + [setting_name(Thresholds(None, lm)) for lm in SWEPT_LM]
BY_CTC, BY_LM = Column("%C", 0, 100), Column("%L", 0, 100)
RTFX, OVER_AR = Column("RTFx", 0), Column("over AR", 2, suffix="x")
NOTE = "Brackets: 95 % bootstrap interval over utterances. RTFx: seconds of speech in a second of work, median of {} passes."

CLAIMS_NOTE = "Over all sets together where no set is named. Verdicts on one set compare its settings, without intervals."


def recognition_tables(study: RecognitionStudy) -> list[Table]:
    """The claims, Table 1, and the sweep of the set that has one."""
    return [
        claim_table(study),
        modes_table(study),
        *(sweep_table(study, name) for name in study.heard if is_swept(study, name)),
    ]


def modes_table(study: RecognitionStudy) -> Table:
    """Table 1: each set in the three modes, and all sets together."""
    columns = (
        Column("set"), Column("mode", words=True), N, WER, WER_CHANGE, P, BY_CTC, BY_LM, RTFX, OVER_AR,
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for name, heard in [*study.heard.items(), ("all sets", together(study))]:
        for setting, mode in MODES.items():
            at, ar = heard[setting], heard[AR]
            changed = (None, None) if at is ar else (difference(at, ar), two_proportions(at, ar))
            speech = study.seconds[name] if name in study.seconds else sum(study.seconds.values())
            speed = (rtfx(at, speech), None if at is ar else over(at, ar))
            rows.append((name, mode, len(at.words), wer(at), *changed, stage(at, "ctc"), stage(at, "lm"), *speed))
    for setting, (rate, speed, ctc, lm) in PAPER.items():
        shares = [share and share / 100 for share in (ctc, lm)]
        faster = speed / PAPER[AR][1] if setting != AR else None
        lost = None if setting == AR else (rate - PAPER[AR][0]) / 100
        rows.append(("the paper, average", MODES[setting], None, rate / 100, lost, None, *shares, speed, faster))
    note = f"{NOTE.format(_passes(study))} p: two-proportion z-test against AR. The paper: a 1B model on one H100."
    return Table("recognition", "Self-speculative recognition (CTC Table 1)", columns, tuple(rows), note, RUN)


def sweep_table(study: RecognitionStudy, name: str) -> Table:
    """Figures 3 and 4: every setting of both steps, and either alone, on one set."""
    heard = study.heard[name]
    front = best(heard)
    columns = (
        Column("setting"), N, WER, BY_CTC, BY_LM, RTFX, OVER_AR, Column("best here", words=True),
    )  # fmt: skip
    rows = []
    for setting in sorted(heard, key=lambda at: over(heard[at], heard[AR])):
        at = heard[setting]
        speed = rtfx(at, study.seconds[name]), over(at, heard[AR])
        said = "best" if setting in front else ""
        rows.append((setting, len(at.words), wer(at), stage(at, "ctc"), stage(at, "lm"), *speed, said))
    note = (
        f"{NOTE.format(_passes(study))} The set: {name}. Best: no other setting is at least as fast with as few errors. A "
        "setting that names ctc or lm alone leaves the other step out."
    )
    return Table("thresholds", "Thresholds and steps (CTC Figures 3 and 4)", columns, tuple(rows), note, RUN)


def claim_table(study: RecognitionStudy) -> Table:
    columns = tuple(Column(title, words=True) for title in ("claim", "verdict", "ours", "the paper", "where"))
    rows = tuple((c.text, c.stated, c.ours, c.paper, c.source, c.n) for c in recognition_claims(study))
    return Table("recognition-claims", "The CTC paper's claims", (*columns, N), rows, CLAIMS_NOTE, RUN)


def recognition_claims(study: RecognitionStudy) -> list[Claim]:
    """What Table 1 and Figures 3 and 4 say, put to `study`."""
    heard = together(study)
    lost = difference(heard[ACCURATE], heard[AR])
    found = [
        Claim(
            "In the accurate mode both steps together lose no words to AR", f"{SOURCE}, Table 1", "5.58 against 5.75 %",
            points(lost), len(heard[AR].words), HOLDS if lost.high <= 0.001 else CONTRADICTED if lost.low > 0 else OPEN,
        ),
        _fast(heard),
    ]  # fmt: skip
    for name in study.heard:
        if is_swept(study, name):
            found += [_ctc_matters_more(name, study.heard[name]), _both_steps_win(name, study.heard[name])]
    return found


def _fast(heard: Mapping[str, Heard]) -> Claim:
    speed, relative = over(heard[FAST], heard[AR]), relative_errors(heard[FAST], heard[AR])
    said = f"{speed:.1f}x at {100 * relative.value:+.0f} % [{100 * relative.low:+.0f}, {100 * relative.high:+.0f}] of AR's WER"
    verdict = CONTRADICTED if speed < 4 or relative.low > 0.15 else HOLDS if relative.high <= 0.15 else OPEN
    text = "In the fast mode recognition is four times as fast, at some 14 % more word errors"
    return Claim(text, f"{SOURCE}, Table 1", "4.4x at +14 %", said, len(heard[AR].words), verdict)


def _ctc_matters_more(name: str, heard: Mapping[str, Heard]) -> Claim:
    def spread(settings: Sequence[str]) -> float:
        speeds = [over(heard[at], heard[AR]) for at in settings]
        return max(speeds) / min(speeds)

    by_ctc = median(spread([setting_name(Thresholds(ctc, lm)) for ctc in SWEPT_CTC]) for lm in SWEPT_LM)
    by_lm = median(spread([setting_name(Thresholds(ctc, lm)) for lm in SWEPT_LM]) for ctc in SWEPT_CTC)
    said = f"{name}: speeds differ {by_ctc:.2f}-fold along tau CTC, {by_lm:.2f}-fold along tau SLM"
    text = "The threshold of the CTC step moves the operating point more than that of the language model"
    return Claim(text, f"{SOURCE}, Figure 3", "a figure", said, len(heard[AR].words), HOLDS if by_ctc > by_lm else CONTRADICTED)


def _both_steps_win(name: str, heard: Mapping[str, Heard]) -> Claim:
    front = [at for at in best(heard) if at != AR]
    of_both = sum(at in BOTH or at in (ACCURATE, FAST) for at in front)
    said = f"{name}: {of_both} of the {len(front)} best settings use both steps"
    verdict = HOLDS if of_both > len(front) / 2 else CONTRADICTED
    return Claim(
        "Both steps together have the best trade-off", f"{SOURCE}, Figure 4", "a figure", said, len(heard[AR].words), verdict
    )


def is_swept(study: RecognitionStudy, name: str) -> bool:
    return all(at in study.heard[name] for at in (*BOTH, *ALONE))


def together(study: RecognitionStudy) -> dict[str, Heard]:
    """All sets as one, at the settings of Table 1."""

    def joined(setting: str) -> Heard:
        parts = [heard[setting] for heard in study.heard.values()]
        passes = tuple(map(sum, zip(*(part.milliseconds for part in parts), strict=False)))
        return Heard(sum((p.words for p in parts), ()), sum((p.stages for p in parts), ()), passes)

    return {setting: joined(setting) for setting in MODES}


def best(heard: Mapping[str, Heard]) -> list[str]:
    """The settings for which no other is at least as fast with as few errors, the slowest first."""
    ranked = sorted(heard, key=lambda at: (-over(heard[at], heard[AR]), wer(heard[at]).value))
    front: list[str] = []
    for at in ranked:
        if not front or wer(heard[at]).value < wer(heard[front[-1]]).value:
            front.append(at)
    return front[::-1]


def wer(heard: Heard) -> Estimate:
    return pooled([Errors(*words) for words in heard.words])


def difference(ours: Heard, theirs: Heard) -> Estimate:
    """Of the error rates, utterance by utterance."""
    total, draws = _paired(ours, theirs)
    return between(total[0] / total[1] - total[2] / total[3], draws[:, 0] / draws[:, 1] - draws[:, 2] / draws[:, 3])


def relative_errors(ours: Heard, theirs: Heard) -> Estimate:
    """How many more errors, as a share of `theirs`."""
    total, draws = _paired(ours, theirs)
    return between(total[0] / max(1, total[2]) - 1, draws[:, 0] / np.maximum(1, draws[:, 2]) - 1)


def _paired(ours: Heard, theirs: Heard) -> tuple[np.ndarray, np.ndarray]:
    both = np.concatenate([np.array(ours.words, float), np.array(theirs.words, float)], axis=1)
    return both.sum(0), resampled(both)


def two_proportions(ours: Heard, theirs: Heard) -> float:
    """p of the two-proportion z-test on the word errors, two-sided: the paper's test."""
    (e1, n1), (e2, n2) = (np.array(each.words, float).sum(0) for each in (ours, theirs))
    rate = (e1 + e2) / (n1 + n2)
    spread = sqrt(rate * (1 - rate) * (1 / n1 + 1 / n2)) if 0 < rate < 1 else 0.0
    return erfc(abs(e1 / n1 - e2 / n2) / spread / sqrt(2)) if spread else 1.0


def stage(heard: Heard, name: str) -> float:
    """The share of utterances that a step accepted."""
    return sum(each == name for each in heard.stages) / len(heard.stages)


def rtfx(heard: Heard, seconds: float) -> float:
    return 1e3 * seconds / median(heard.milliseconds)


def over(ours: Heard, theirs: Heard) -> float:
    """How many times as fast."""
    return median(theirs.milliseconds) / median(ours.milliseconds)


def _passes(study: RecognitionStudy) -> int:
    return min(len(of.milliseconds) for by_setting in study.heard.values() for of in by_setting.values())
