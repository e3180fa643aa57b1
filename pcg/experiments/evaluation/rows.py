"""The figures of each method over what the judges heard, and how they stand in a line of the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pcg.experiments.evaluation.panel import Judged
from pcg.metrics.estimate import Estimate, bootstrap, share
from pcg.metrics.intelligibility import pooled
from pcg.takes.told import accepted_in_columns

ORIGINAL = "original"


@dataclass(frozen=True)
class Speed:
    """Pooled over utterances, except the medians of tokens/s and of the real-time factor (work / audio seconds).

    speed_up: tokens/s over those of "ar", both pooled; None where "ar" did not speak. acceptance_rate: accepted / drafted
    tokens, acceptance_of_tested: accepted / tested ones, None where nothing was drafted. acceptance_by_position: the share of
    rounds in which the token there stood. mean_acceptance_length: 1 + accepted / rounds, tokens for each target call.
    """

    tokens_per_second: float
    rtf: float | None
    speed_up: float | None
    acceptance_rate: float | None
    acceptance_of_tested: float | None
    acceptance_by_position: tuple[float, ...]
    mean_acceptance_length: float
    hit_limit: Estimate


@dataclass(frozen=True)
class MethodRow:
    """One method's figures over `n` utterances; rates and shares are fractions. wer: by the first judge; wer_by: by each, by
    name. `clicks` counts them all."""

    method: str
    n: int
    wer: Estimate
    wer_by: Mapping[str, Estimate]
    cer: Estimate
    mos: Estimate
    similarity: Estimate
    cut_short: Estimate
    clipped: float
    clicks: int
    leading_silence: float
    trailing_silence: float
    speed: Speed | None

    @classmethod
    def of(cls, method: str, utterances: Sequence[Judged], judges: Sequence[str], baseline: float | None) -> "MethodRow":
        """baseline: AR's tokens/s, pooled."""
        sounds = [u.sound for u in utterances]
        return cls(
            method,
            len(utterances),
            wer=pooled([u.words for u in utterances]),
            wer_by={judge: pooled([u.words_by(judge) for u in utterances]) for judge in judges},
            cer=pooled([u.characters for u in utterances]),
            mos=bootstrap([u.mos for u in utterances]),
            similarity=bootstrap([u.similarity for u in utterances]),
            cut_short=share(sum(u.cut_short for u in utterances), len(utterances)),
            clipped=float(np.mean([s.clipped for s in sounds])),
            clicks=sum(s.clicks for s in sounds),
            leading_silence=float(np.mean([s.leading_silence for s in sounds])),
            trailing_silence=float(np.mean([s.trailing_silence for s in sounds])),
            speed=None if method == ORIGINAL else _speed(utterances, baseline),
        )

    def cells(self) -> dict[str, str]:
        """One line of the table, by column title; a column of words for each judge."""
        words = {f"WER %, {judge}": _spread(wer, 100, 1) for judge, wer in self.wer_by.items()}
        return {
            "method": self.method,
            "n": str(self.n),
            **(words if len(words) > 1 else {"WER %": _spread(self.wer, 100, 1)}),
            "CER %": _spread(self.cer, 100, 1),
            "DNSMOS": _spread(self.mos, 1, 2),
            "speaker": _spread(self.similarity, 1, 3),
            **_speed_cells(self.speed),
            "cut short": f"{self.cut_short.value:.1%}",
            "clipped": f"{self.clipped:.3%}",
            "clicks": str(self.clicks),
        }


def pooled_speed(utterances: Sequence[Judged]) -> float:
    """Tokens per second of the decoding loop."""
    works = [u.work for u in utterances if u.work]
    return sum(w.tokens for w in works) / sum(w.decoding_seconds for w in works)


def _speed(utterances: Sequence[Judged], baseline: float | None) -> Speed:
    works = [u.work for u in utterances if u.work]
    drafted, accepted = sum(w.drafted for w in works), sum(w.accepted for w in works)
    tested, stood = (np.sum([getattr(w, name) for w in works], axis=0) for name in ("tested", "accepted_at"))
    factors = [w.wall_seconds / w.audio_seconds for w in works if w.audio_seconds]
    return Speed(
        tokens_per_second=float(np.median([w.tokens / w.decoding_seconds for w in works])),
        rtf=float(np.median(factors)) if factors else None,
        speed_up=pooled_speed(utterances) / baseline if baseline else None,
        acceptance_rate=accepted / drafted if drafted else None,
        acceptance_of_tested=float(stood.sum() / tested.sum()) if tested.any() else None,
        acceptance_by_position=tuple((stood / tested[0]).tolist()) if tested.any() else (),
        mean_acceptance_length=1 + accepted / sum(w.rounds for w in works),
        hit_limit=share(sum(w.hit_limit for w in works), len(works)),
    )


def _speed_cells(speed: Speed | None) -> dict[str, str]:
    if speed is None:
        none = ("tokens/s", "RTF", *accepted_in_columns(None, None, ()), "tokens/call", "speed-up", "at limit")
        return dict.fromkeys(none, "-")
    return {
        "tokens/s": f"{speed.tokens_per_second:.0f}",
        "RTF": "-" if speed.rtf is None else f"{speed.rtf:.3f}",
        **accepted_in_columns(speed.acceptance_rate, speed.acceptance_of_tested, speed.acceptance_by_position),
        "tokens/call": f"{speed.mean_acceptance_length:.2f}",
        "speed-up": "-" if speed.speed_up is None else f"{speed.speed_up:.2f}x",
        "at limit": f"{speed.hit_limit.value:.1%}",
    }


def _spread(estimate: Estimate, scale: float, digits: int) -> str:
    value, low, high = (f"{scale * x:.{digits}f}" for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"
