"""A record's figures as columns that add up over utterances, and the statistics of them.

Every figure is a quotient of sums over utterances, so one resampling of the sums serves all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pcg.experiments.unit import Record, Result
from pcg.metrics.estimate import Estimate, between, resampled

# A record's figures that add up over utterances; "count" makes means of the others.
COLUMNS: dict[str, Callable[[Record], float | None]] = {
    "count": lambda r: 1,
    "word_errors": lambda r: r.result.words[0],
    "words": lambda r: r.result.words[1],
    "character_errors": lambda r: r.result.characters[0],
    "characters": lambda r: r.result.characters[1],
    "similarity": lambda r: r.result.similarity,
    "dnsmos": lambda r: r.result.dnsmos,
    "tokens": lambda r: len(r.result.tokens),
    "rounds": lambda r: r.result.rounds,
    "drafted": lambda r: r.result.drafted,
    "accepted": lambda r: r.result.accepted,
    "rejections": lambda r: sum(r.result.tested) - sum(r.result.accepted_at),
    "trials": lambda r: r.result.trials,
    "swapped": lambda r: r.result.swapped,
    "mel_distance": lambda r: r.result.mel_distance,
    "audio": lambda r: r.result.audio_seconds,
    "decoding": lambda r: r.result.decoding_seconds,
    "wall": lambda r: r.result.wall_seconds,
    "computed": lambda r: _computed(r.result),
    # Short utterances have no spoof, and must not take that of the others away.
    "spoof": lambda r: r.result.spoof or 0.0,
    "spoofed": lambda r: r.result.spoof is not None,
}
_PLACES = {name: place for place, name in enumerate(COLUMNS)}


@dataclass(frozen=True, eq=False)
class Sums:
    """`columns [..., K]`, one for each of COLUMNS: of single utterances, their totals, or the totals of many resamplings."""

    columns: np.ndarray

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[..., _PLACES[name]]

    @property
    def total(self) -> "Sums":
        return Sums(self.columns.sum(0))

    @cached_property
    def resampled(self) -> "Sums":
        return Sums(resampled(self.columns))

    def ratio(self, above: str, below: str) -> np.ndarray:
        """One column over another; not a number where there is nothing to divide by."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self[below] > 0, self[above] / self[below], np.nan)


Statistic = Callable[..., np.ndarray]


def columns_of(record: Record) -> list[float]:
    """One figure for each of COLUMNS; not a number where the record has none."""
    values = (read(record) for read in COLUMNS.values())
    return [np.nan if value is None else float(value) for value in values]


def wer(sums: Sums) -> np.ndarray:
    return sums.ratio("word_errors", "words")


def cer(sums: Sums) -> np.ndarray:
    return sums.ratio("character_errors", "characters")


def mean(column: str) -> Statistic:
    return lambda sums: sums.ratio(column, "count")


def spoof(sums: Sums) -> np.ndarray:
    """The mean over those utterances that are long enough for the detector."""
    return sums.ratio("spoof", "spoofed")


def speedup(sums: Sums, baseline: Sums) -> np.ndarray:
    """Tokens per second of the decoding loop over those of the baseline, both pooled (PCG section 3.1)."""
    return sums.ratio("tokens", "decoding") / baseline.ratio("tokens", "decoding")


def tokens_per_call(sums: Sums, *_: Sums) -> np.ndarray:
    """Tokens for each call of the target: free of the clock, and of the machine."""
    return 1 + sums.ratio("accepted", "rounds")


def wall_speedup(sums: Sums, baseline: Sums) -> np.ndarray:
    """The same from text to audio, codec and prompt included."""
    return sums.ratio("tokens", "wall") / baseline.ratio("tokens", "wall")


def estimate(statistic: Statistic, *sums: Sums) -> Estimate | None:
    """`statistic` of the totals of `sums` (by utterance, the same utterances in each), with its 95 % bootstrap interval.

    None without utterances, or where it is no number, as a rate of acceptance is without drafts.
    """
    if not len(sums[0]):
        return None
    value = float(statistic(*(s.total for s in sums)))
    return None if np.isnan(value) else between(value, statistic(*(s.resampled for s in sums)))


def _computed(result: Result) -> int:
    """Results of before it was kept have no pruned beams: each round read what was drafted, and one token more."""
    return result.rounds + result.drafted if result.computed is None else result.computed
