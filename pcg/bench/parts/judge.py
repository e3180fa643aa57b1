"""The embedded recogniser on speech that no training heard: its modes against one another, and against an independent judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from pcg.asr.judges import WORDS
from pcg.asr.lexicon import load_lexicon
from pcg.asr.recogniser import Recogniser
from pcg.asr.self_speculative import PRESETS, Thresholds, Transcript
from pcg.asr.word_search import Way, write_down
from pcg.bench.timing import medians
from pcg.metrics.estimate import Estimate
from pcg.metrics.intelligibility import PocketSphinx, homophone_errors, pooled, word_errors
from pcg.metrics.recording import JUDGE_RATE

# The paper's Figure 4: with the first step alone, and with the second alone.
ABLATIONS = {"ctc only": Thresholds(float("inf"), None), "lm only": Thresholds(None, 0.2)}
BY_THRESHOLDS: Mapping[str, Thresholds] = {name: PRESETS[name] for name in ("ar", "accurate", "fast")} | ABLATIONS


@dataclass(frozen=True, eq=False)
class HeldOut:
    """An utterance `samples [N]` at 16 kHz, and what it says."""

    text: str
    samples: np.ndarray


@dataclass(frozen=True)
class ModeFigures:
    """One mode over n utterances. rtfx: seconds of speech in a second of work, the median over runs in turns; ctc_accepted and
    slm_accepted: the shares of utterances whose text came from the CTC gate and from the language model's one pass."""

    wer: Estimate
    rtfx: float
    ctc_accepted: float
    slm_accepted: float
    n: int

    def as_dict(self) -> dict[str, object]:
        return {
            "wer": round(self.wer.value, 4),
            "rtfx": round(self.rtfx, 2),
            "ctc_accepted": round(self.ctc_accepted, 4),
            "slm_accepted": round(self.slm_accepted, 4),
            "n": self.n,
        }


def bench_judge(recogniser: Recogniser, spoken: Mapping[str, Sequence[HeldOut]], repeats: int) -> dict[str, object]:
    """Print the modes as the paper's Table 1 does, the rates of the judge, which writes in listed words, and those of the other
    one; return all under their contract's names. spoken: by split of the corpus."""
    every = [utterance for those in spoken.values() for utterance in those]
    counts = ", ".join(f"{len(those)} of {split}" for split, those in spoken.items())
    print(f"judge: {recogniser.name}; {counts}; {torch.get_num_threads()} threads")
    ways: dict[str, Way] = {**BY_THRESHOLDS, WORDS: load_lexicon()}
    works = {name: partial(write_down, recogniser, _samples(every), way) for name, way in ways.items()}
    found = {name: work() for name, work in works.items()}
    spent = medians(works, repeats)
    modes = {name: figures_of(every, found[name], spent[name]) for name in ways}
    print(f"{'mode':10}{'%C':>7}{'%L':>7}{'WER %':>20}{'RTFx':>8}{'to AR':>8}")
    for name, figures in modes.items():
        print(f"{name:10}{_row(figures)}{spent['ar'] / spent[name]:7.2f}x")
    # "sentences" for held_out_sentences, "words" for held_out_words.
    short = {split: split.removeprefix("held_out_") for split in spoken}
    heard = iter(_texts(found[WORDS]))
    texts = {split: [next(heard) for _ in spoken[split]] for split in spoken}
    ours = {f"wer_{short[split]}": _wer(spoken[split], texts[split]) for split in spoken}
    alike = {f"homophones_{short[split]}": _homophones(spoken[split], texts[split]) for split in spoken}
    sphinx = PocketSphinx()
    theirs = {
        f"wer_pocketsphinx_{short[s]}": _wer(spoken[s], sphinx.transcribe([u.samples for u in spoken[s]], JUDGE_RATE))
        for s in spoken
    }
    for name, rate in (ours | theirs).items():
        print(f"{name}: {100 * rate.value:.1f} % [{100 * rate.low:.1f}, {100 * rate.high:.1f}]")
    for name, share in alike.items():
        print(f"{name}: {100 * share:.1f} % of the words, a part of the errors above")
    return {
        "judge": recogniser.name,
        **{name: round(rate.value, 4) for name, rate in (ours | theirs).items()},
        **{name: round(share, 4) for name, share in alike.items()},
        "n": {short[split]: len(spoken[split]) for split in spoken},
        "modes": {name: figures.as_dict() for name, figures in modes.items()},
        "threads": torch.get_num_threads(),
    }


def figures_of(spoken: Sequence[HeldOut], found: Sequence[Transcript], milliseconds: float) -> ModeFigures:
    """What was `found` in `spoken`, in so many milliseconds."""
    seconds = sum(len(u.samples) for u in spoken) / JUDGE_RATE
    shares = [sum(t.stage == stage for t in found) / len(found) for stage in ("ctc", "lm")]
    return ModeFigures(_wer(spoken, _texts(found)), 1e3 * seconds / milliseconds, *shares, len(found))


def _row(figures: ModeFigures) -> str:
    wer = figures.wer
    interval = f"{100 * wer.value:.1f} [{100 * wer.low:.1f}, {100 * wer.high:.1f}]"
    return f"{100 * figures.ctc_accepted:7.1f}{100 * figures.slm_accepted:7.1f}{interval:>20}{figures.rtfx:8.1f}"


def _samples(spoken: Sequence[HeldOut]) -> list[torch.Tensor]:
    return [torch.from_numpy(utterance.samples) for utterance in spoken]


def _texts(found: Sequence[Transcript]) -> list[str]:
    return [transcript.text for transcript in found]


def _homophones(spoken: Sequence[HeldOut], heard: Sequence[str]) -> float:
    """The share of words that were written as others that sound alike."""
    words = sum(word_errors(u.text, text).length for u, text in zip(spoken, heard, strict=True))
    return sum(homophone_errors(u.text, text) for u, text in zip(spoken, heard, strict=True)) / words


def _wer(spoken: Sequence[HeldOut], heard: Sequence[str]) -> Estimate:
    return pooled([word_errors(u.text, text) for u, text in zip(spoken, heard, strict=True)])
