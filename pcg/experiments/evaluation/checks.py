"""How the takes of a voice end, and whether its voices can be told apart: checks that need no judge of words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, product
from typing import TYPE_CHECKING

import numpy as np

from pcg.errors import InputError
from pcg.metrics.estimate import Estimate, share
from pcg.metrics.speaker import Resemblyzer, SpeakerEncoder
from pcg.settings import Settings

if TYPE_CHECKING:  # they bring in torch, which only speaking needs
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.text.prompt import Reference

SAME_VOICE, OTHER_VOICE = 0.75, 0.65


def nth_seed(settings: Settings, index: int) -> Settings:
    return settings.with_(seed=(settings.seed + index) % 2**32)


@dataclass(frozen=True)
class Stopping:
    """How `n` utterances ended: `hit_limit` never came to the end of speech, `cut_short` before half of the expected codes."""

    n: int
    hit_limit: Estimate
    cut_short: Estimate

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def stopping(
    synthesizer: "Synthesizer",
    texts: Sequence[str],
    settings: Settings,
    voices: Sequence[str],
    reference: "Reference | None" = None,
) -> Stopping:
    """Speak `texts`, each with a seed of its own, while `voices` take turns, and count how they end. No judge listens:
    durations tell."""
    reader, limit, short = synthesizer.voice.reader, 0, 0
    for index, (text, voice) in enumerate(zip(texts, cycle(voices), strict=False)):
        take = synthesizer.take(text, nth_seed(settings, index), voice, reference)
        limit += take.hit_limit
        short += len(take.tokens) < reader.tokens_for(text, reference or synthesizer.voice.reference(voice)) / 2
    return Stopping(len(texts), share(limit, len(texts)), share(short, len(texts)))


@dataclass(frozen=True)
class VoiceMatrix:
    """`similarity[i][j]`: mean over pairs of takes of different sentences, one by voice i and the other by voice j."""

    voices: tuple[str, ...]
    similarity: tuple[tuple[float, ...], ...]
    judge: str
    sentences: int

    @property
    def same(self) -> float:
        """Mean over the voices of the similarity to themselves."""
        return float(np.diagonal(self.similarity).mean())

    @property
    def others(self) -> float | None:
        """Mean over pairs of different voices; None for a single voice."""
        apart = [s for i, row in enumerate(self.similarity) for j, s in enumerate(row) if i != j]
        return float(np.mean(apart)) if apart else None

    @property
    def reaches_goal(self) -> bool:
        return self.same >= SAME_VOICE and (self.others is None or self.others <= OTHER_VOICE)

    def as_dict(self) -> dict[str, object]:
        goal = {"same": self.same, "others": self.others, "reaches_goal": self.reaches_goal}
        return asdict(self) | goal

    def table(self) -> str:
        others = "-" if self.others is None else f"{self.others:.3f}"
        same = f"Same voice {self.same:.3f} (goal: at least {SAME_VOICE})"
        head = f"{same}, other voices {others} (goal: at most {OTHER_VOICE}); {self.judge}, {self.sentences} sentences a voice."
        lines = [["voice", *self.voices], ["---"] + ["---:"] * len(self.voices)]
        lines += [[v, *(f"{s:.3f}" for s in row)] for v, row in zip(self.voices, self.similarity, strict=True)]
        return "\n".join([head, "", *("| " + " | ".join(line) + " |" for line in lines)])


def voice_matrix(
    synthesizer: "Synthesizer",
    sentences: Sequence[str],
    settings: Settings,
    voices: Sequence[str] | None = None,
    speaker: SpeakerEncoder | None = None,
) -> VoiceMatrix:
    """How alike the takes of one voice are, and how unlike those of another, by the speaker judge.

    Pairs of one sentence are left out everywhere, since equal words alone make two speakers more alike.
    """
    if len(sentences) < 2:
        raise InputError("sentences", len(sentences), "at least two, to compare a voice with itself")
    names = tuple(voices or synthesizer.voice.references)
    ear, rate = speaker or Resemblyzer(), synthesizer.voice.codec.sample_rate
    takes = [[synthesizer.take(s, nth_seed(settings, i), v).audio for i, s in enumerate(sentences)] for v in names]
    embedded = [np.stack([ear.embed(audio, rate) for audio in row]) for row in takes]
    different = ~np.eye(len(sentences), dtype=bool)
    values = [float((a @ b.T)[different].mean()) for a, b in product(embedded, embedded)]
    rows = tuple(tuple(values[i : i + len(names)]) for i in range(0, len(values), len(names)))
    return VoiceMatrix(names, rows, ear.name, len(sentences))
