"""What was said, what that cost, and every verdict on it: a panel of judges hears each sentence by every method."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pcg.metrics.intelligibility import NORMALISED, Errors, Judge, char_errors, comparable, word_errors
from pcg.metrics.metric import Sample
from pcg.metrics.quality import DNSMOS, QualitySound, measure
from pcg.metrics.recording import Recording
from pcg.metrics.speaker import Similarity, SpeakerEncoder

if TYPE_CHECKING:  # they bring in torch, which only speaking needs
    from pcg.codec.codec import Codec
    from pcg.takes.take import Take
    from pcg.text.prompt import Reference

Original = Callable[[str, str], np.ndarray]
"""(voice, text) -> samples."""


@dataclass(frozen=True)
class Work:
    """What an utterance cost: its seed, counts and time of its decoding loop, and the wall time from text to audio. tested,
    accepted_at: how many drafted tokens were tested, and how many of these accepted, at each position of a round."""

    seed: int
    tokens: int
    decoding_seconds: float
    wall_seconds: float
    audio_seconds: float
    rounds: int
    drafted: int
    accepted: int
    tested: tuple[int, ...]
    accepted_at: tuple[int, ...]
    hit_limit: bool

    @classmethod
    def of(cls, take: "Take") -> "Work":
        tested, accepted_at = take.counts_by_position
        return cls(
            take.settings.seed,
            len(take.tokens),
            1e-3 * take.decoding_ms,
            take.wall_seconds,
            take.audio_seconds,
            rounds=len(take.rounds),
            drafted=take.drafted,
            accepted=sum(r.accepted for r in take.rounds),
            tested=tested,
            accepted_at=accepted_at,
            hit_limit=take.hit_limit,
        )


@dataclass(frozen=True)
class Hearing:
    """What one judge heard, and its errors in words."""

    heard: str
    words: Errors


@dataclass(frozen=True)
class Judged:
    """One utterance and every verdict on it. heard, words, characters: of the first judge; others: of those beside it, by
    name. `work` is None for an original recording."""

    method: str
    voice: str
    text: str
    heard: str
    words: Errors
    characters: Errors
    others: Mapping[str, Hearing]
    mos: float
    similarity: float
    sound: QualitySound
    work: Work | None

    @property
    def cut_short(self) -> bool:
        """Whether the first judge heard fewer than half as many words as there are."""
        return len(comparable(self.heard).split()) < self.words.length / 2

    def words_by(self, judge: str) -> Errors:
        """The errors in words by the judge of that name."""
        return self.others[judge].words if judge in self.others else self.words


@dataclass(frozen=True, eq=False)
class Spoken:
    """A sentence in a voice, by a method or as an original."""

    method: str
    samples: np.ndarray
    work: Work | None


class Panel:
    """The judges of words by name, the first of whom is the main one, and the speakers whom they compare with."""

    def __init__(
        self,
        codec: "Codec",
        references: "Mapping[str, Reference]",
        judges: Mapping[str, Judge],
        original: Original | None,
        speaker: SpeakerEncoder,
    ) -> None:
        self._judges, self._speaker, self._mos, self._rate = judges, Similarity(speaker), DNSMOS(), codec.sample_rate
        self._references = {
            voice: Recording(codec.decode(r.codes).numpy() if original is None else original(voice, r.text), self._rate)
            for voice, r in references.items()
        }
        against = "the codec's rendering of the reference" if original is None else "the original recording of the reference"
        first, *others = judges
        self.names = {
            "WER, CER": f"{judges[first].name}; {NORMALISED}",
            **{f"WER, {name}": judges[name].name for name in others},
            "DNSMOS": self._mos.name,
            "Speaker": f"{self._speaker.name} to {against}",
        }

    def hear(self, voice: str, text: str, spoken: Sequence[Spoken]) -> list[Judged]:
        """What the judges say of one sentence in one voice, by every method."""
        batch = [Sample(s.samples, self._rate, text, self._references[voice]) for s in spoken]
        sounds = [s.samples for s in spoken]
        heard, *others = [judge.transcribe(sounds, self._rate) for judge in self._judges.values()]
        names = list(self._judges)[1:]
        alike, mos = self._speaker.measure(batch), self._mos.measure(batch)
        return [
            Judged(
                one.method,
                voice,
                text,
                heard[i],
                words=word_errors(text, heard[i]),
                characters=char_errors(text, heard[i]),
                others={n: Hearing(said[i], word_errors(text, said[i])) for n, said in zip(names, others, strict=True)},
                mos=mos[i],
                similarity=alike[i],
                sound=measure(one.samples, self._rate),
                work=one.work,
            )
            for i, one in enumerate(spoken)
        ]
