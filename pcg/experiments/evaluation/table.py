"""A voice before its judges: every method speaks the same sentences, and one table tells words, speaker, sound and speed.

It sees takes and samples only: not how they were decoded, and not who spoke the original recordings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from pcg.errors import InputError
from pcg.experiments.evaluation.checks import nth_seed
from pcg.metrics.estimate import Estimate, bootstrap, share
from pcg.metrics.intelligibility import NORMALISED, Errors, Judge, char_errors, comparable, pooled, word_errors
from pcg.metrics.metric import Sample
from pcg.metrics.quality import DNSMOS, QualitySound, measure
from pcg.metrics.recording import Recording
from pcg.metrics.speaker import Resemblyzer, Similarity, SpeakerEncoder
from pcg.settings import Settings

if TYPE_CHECKING:  # they bring in torch, which only speaking needs
    from pcg.prompts.prompt import Reference
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.takes.take import Take

ORIGINAL = "original"

Original = Callable[[str], np.ndarray]


@dataclass(frozen=True)
class Work:
    """What an utterance cost: its seed, counts and time of its decoding loop, and the wall time from text to audio."""

    seed: int
    tokens: int
    decoding_seconds: float
    wall_seconds: float
    audio_seconds: float
    rounds: int
    drafted: int
    accepted: int
    hit_limit: bool

    @classmethod
    def of(cls, take: "Take") -> "Work":
        accepted = sum(r.accepted for r in take.rounds)
        return cls(
            take.settings.seed,
            len(take.tokens),
            1e-3 * take.decoding_ms,
            take.wall_seconds,
            take.audio_seconds,
            rounds=len(take.rounds),
            drafted=take.drafted,
            accepted=accepted,
            hit_limit=take.hit_limit,
        )


@dataclass(frozen=True)
class Judged:
    """One utterance and every verdict on it. `work` is None for an original recording."""

    method: str
    text: str
    heard: str
    words: Errors
    characters: Errors
    mos: float
    similarity: float
    sound: QualitySound
    work: Work | None

    @property
    def cut_short(self) -> bool:
        """Whether the judge heard fewer than half as many words as there are."""
        return len(comparable(self.heard).split()) < self.words.length / 2


@dataclass(frozen=True)
class Speed:
    """Pooled over utterances, except the medians of tokens/s and of the real-time factor (work / audio seconds).

    speed_up: tokens/s over those of "ar", both pooled; None where "ar" did not speak. acceptance_rate: accepted / drafted
    tokens, None where nothing was drafted. mean_acceptance_length: 1 + accepted / rounds, tokens for each target call.
    """

    tokens_per_second: float
    rtf: float | None
    speed_up: float | None
    acceptance_rate: float | None
    mean_acceptance_length: float
    hit_limit: Estimate


@dataclass(frozen=True)
class MethodRow:
    """One method's figures over `n` utterances; rates and shares are fractions. `clicks` counts them all."""

    method: str
    n: int
    wer: Estimate
    cer: Estimate
    mos: Estimate
    similarity: Estimate
    cut_short: Estimate
    clipped: float
    clicks: int
    leading_silence: float
    trailing_silence: float
    speed: Speed | None


@dataclass(frozen=True)
class Report:
    """Who spoke, who judged, and what came of it. `judges` maps a metric to the name of its judge."""

    voice: str
    settings: Settings
    judges: Mapping[str, str]
    rows: tuple[MethodRow, ...]
    utterances: tuple[Judged, ...]

    def as_dict(self) -> dict[str, object]:
        """Everything, ready for JSON."""
        return asdict(self)

    def table(self) -> str:
        """A markdown table under the names of the judges."""
        knobs = ", ".join(f"{k} {v}" for k, v in self.settings.as_dict().items() if k not in ("method", "seed"))
        head = [f"Voice {self.voice}; {knobs}; seeds {self.settings.seed} and up, one a sentence."]
        head += [f"{metric}: {judge}." for metric, judge in self.judges.items()]
        head += ["Brackets: 95 % interval over utterances. Tokens/s and RTF: medians. Speed-up: ratio of pooled tokens/s.", ""]
        cells = [_cells(row) for row in self.rows]
        titles = list(cells[0])
        lines = [titles, ["---"] + ["---:"] * (len(titles) - 1), *(list(c.values()) for c in cells)]
        return "\n".join(head + ["| " + " | ".join(line) + " |" for line in lines])


def evaluate(
    synthesizer: "Synthesizer",
    sentences: Sequence[str],
    methods: Sequence[str],
    voice: str,
    settings: Settings,
    judge: Judge,
    original: Original | None = None,
    progress: Callable[[int, int], None] | None = None,
    reference: "Reference | None" = None,
    speaker: SpeakerEncoder | None = None,
) -> Report:
    """Speak each of `sentences` by each of `methods` with `settings`, and let the judges hear it.

    Sentence i has the seed `settings.seed + i` in every method. original: text -> samples of the synthesizer whose voice was
    learned, at the codec's rate; it is judged like a method, and its reading of the voice's reference text is what
    speakers are compared with (without it, the codec's rendering of the reference codes is). progress(done, of all).
    reference: speech in place of a known `voice`. speaker: who compares speakers (Resemblyzer by default).
    """
    if not sentences or not methods:
        raise InputError("sentences and methods", f"{len(sentences)} and {len(methods)}", "at least one of each")
    heard_before = reference or synthesizer.voice.reference(voice)
    panel = _Panel(synthesizer, heard_before, judge, original, speaker or Resemblyzer())
    for method in methods:  # the first take of a method pays for caches that later ones find filled
        synthesizer.take(min(sentences, key=len), settings.for_method(method), voice, reference)
    judged: list[Judged] = []
    for index, text in enumerate(sentences):
        # Methods take turns, so that a machine that slows down half-way slows them all.
        takes = [synthesizer.take(text, nth_seed(settings.for_method(method), index), voice, reference) for method in methods]
        spoken = [_Spoken(m, take.audio, Work.of(take)) for m, take in zip(methods, takes, strict=True)]
        if original:
            spoken.append(_Spoken(ORIGINAL, original(text), None))
        judged += panel.hear(text, spoken)
        if progress:
            progress(index + 1, len(sentences))
    by_method = {m: [j for j in judged if j.method == m] for m in ([ORIGINAL] if original else []) + list(methods)}
    baseline = _pooled_speed(by_method["ar"]) if "ar" in by_method else None
    rows = tuple(_row(m, utterances, baseline) for m, utterances in by_method.items())
    return Report(voice, settings, panel.names, rows, tuple(judged))


@dataclass(frozen=True, eq=False)
class _Spoken:
    method: str
    samples: np.ndarray
    work: Work | None


class _Panel:
    """The judges, and the speaker whom they compare with."""

    def __init__(
        self,
        synthesizer: "Synthesizer",
        reference: "Reference",
        judge: Judge,
        original: Original | None,
        speaker: SpeakerEncoder,
    ) -> None:
        self._words, self._speaker, self._mos = judge, Similarity(speaker), DNSMOS()
        self._rate = synthesizer.voice.codec.sample_rate
        rendered = synthesizer.voice.codec.decode(reference.codes).numpy() if original is None else original(reference.text)
        self._reference = Recording(rendered, self._rate)
        against = "the codec's rendering of the reference" if original is None else "the original recording of the reference"
        self.names = {
            "WER, CER": f"{judge.name}; {NORMALISED}",
            "DNSMOS": self._mos.name,
            "Speaker": f"{self._speaker.name} to {against}",
        }

    def hear(self, text: str, spoken: Sequence[_Spoken]) -> list[Judged]:
        """What the judges say of one sentence, spoken by every method."""
        batch = [Sample(s.samples, self._rate, text, self._reference) for s in spoken]
        heard = self._words.transcribe([s.samples for s in spoken], self._rate)
        verdicts = zip(spoken, heard, self._mos.measure(batch), self._speaker.measure(batch), strict=True)
        return [
            Judged(
                one.method,
                text,
                said,
                words=word_errors(text, said),
                characters=char_errors(text, said),
                mos=mos,
                similarity=similarity,
                sound=measure(one.samples, self._rate),
                work=one.work,
            )
            for one, said, mos, similarity in verdicts
        ]


def _row(method: str, utterances: Sequence[Judged], baseline: float | None) -> MethodRow:
    sounds = [u.sound for u in utterances]
    return MethodRow(
        method,
        len(utterances),
        wer=pooled([u.words for u in utterances]),
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


def _speed(utterances: Sequence[Judged], baseline: float | None) -> Speed:
    works = [u.work for u in utterances if u.work]
    drafted, accepted = sum(w.drafted for w in works), sum(w.accepted for w in works)
    factors = [w.wall_seconds / w.audio_seconds for w in works if w.audio_seconds]
    return Speed(
        tokens_per_second=float(np.median([w.tokens / w.decoding_seconds for w in works])),
        rtf=float(np.median(factors)) if factors else None,
        speed_up=_pooled_speed(utterances) / baseline if baseline else None,
        acceptance_rate=accepted / drafted if drafted else None,
        mean_acceptance_length=1 + accepted / sum(w.rounds for w in works),
        hit_limit=share(sum(w.hit_limit for w in works), len(works)),
    )


def _pooled_speed(utterances: Sequence[Judged]) -> float:
    works = [u.work for u in utterances if u.work]
    return sum(w.tokens for w in works) / sum(w.decoding_seconds for w in works)


def _cells(row: MethodRow) -> dict[str, str]:
    """One line of the table, by column title."""
    cells = {
        "method": row.method,
        "n": str(row.n),
        "WER %": _spread(row.wer, 100, 1),
        "CER %": _spread(row.cer, 100, 1),
        "DNSMOS": _spread(row.mos, 1, 2),
        "speaker": _spread(row.similarity, 1, 3),
    }
    speed = row.speed
    cells["tokens/s"] = f"{speed.tokens_per_second:.0f}" if speed else "-"
    cells["RTF"] = f"{speed.rtf:.3f}" if speed and speed.rtf is not None else "-"
    cells["accepted"] = f"{speed.acceptance_rate:.1%}" if speed and speed.acceptance_rate is not None else "-"
    cells["tokens/call"] = f"{speed.mean_acceptance_length:.2f}" if speed else "-"
    cells["speed-up"] = f"{speed.speed_up:.2f}x" if speed and speed.speed_up is not None else "-"
    cells["at limit"] = f"{speed.hit_limit.value:.1%}" if speed else "-"
    cells["cut short"] = f"{row.cut_short.value:.1%}"
    cells["clipped"] = f"{row.clipped:.3%}"
    cells["clicks"] = str(row.clicks)
    return cells


def _spread(estimate: Estimate, scale: float, digits: int) -> str:
    value, low, high = (f"{scale * x:.{digits}f}" for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"
