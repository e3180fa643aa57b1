"""A voice before its judges: every method speaks the same sentences, and one table tells words, speaker, sound and speed.

It sees takes and samples only: not how they were decoded, and not who spoke the original recordings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING

from pcg.errors import InputError
from pcg.experiments.evaluation.checks import nth_seed
from pcg.experiments.evaluation.panel import Judged, Original, Panel, Spoken, Work
from pcg.experiments.evaluation.rows import ORIGINAL, MethodRow, pooled_speed
from pcg.metrics.intelligibility import Judge
from pcg.metrics.speaker import Resemblyzer, SpeakerEncoder
from pcg.settings import Settings

if TYPE_CHECKING:  # they bring in torch, which only speaking needs
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.text.prompt import Reference


@dataclass(frozen=True)
class Report:
    """Who spoke, who judged, and what came of it. `voice`: several with commas between. `judges` maps a metric to the name of
    its judge."""

    voice: str
    settings: Settings
    judges: Mapping[str, str]
    rows: tuple[MethodRow, ...]
    utterances: tuple[Judged, ...]

    def as_dict(self) -> dict[str, object]:
        """Everything, ready for JSON."""
        return asdict(self) | {"settings": self.settings.as_dict()}

    def table(self) -> str:
        """A markdown table under the names of the judges."""
        knobs = ", ".join(f"{k} {v}" for k, v in self.settings.as_dict().items() if k not in ("method", "seed"))
        head = [f"Voice {self.voice}; {knobs}; seeds {self.settings.seed} and up, one an utterance."]
        head += [f"{metric}: {judge}." for metric, judge in self.judges.items()]
        head += ["Brackets: 95 % interval over utterances. Tokens/s and RTF: medians. Speed-up: ratio of pooled tokens/s."]
        head += ["Accepted of drafted and of tested tokens; by position: share of rounds in which the token there stood.", ""]
        cells = [row.cells() for row in self.rows]
        titles = list(cells[0])
        lines = [titles, ["---"] + ["---:"] * (len(titles) - 1), *(list(c.values()) for c in cells)]
        return "\n".join(head + ["| " + " | ".join(line) + " |" for line in lines])


def evaluate(
    synthesizer: "Synthesizer",
    sentences: Sequence[str],
    methods: Sequence[str],
    voices: Sequence[str],
    settings: Settings,
    judges: Mapping[str, Judge],
    original: Original | None = None,
    progress: Callable[[int, int], None] | None = None,
    reference: "Reference | None" = None,
    speaker: SpeakerEncoder | None = None,
) -> Report:
    """Speak each of `sentences` in each of `voices` by each of `methods` with `settings`, and let the judges hear it.

    Utterance i, a sentence in a voice, has the seed `settings.seed + i` in every method. judges: of words, by name; the first
    is the one whose characters and endings count. original: (voice, text) -> samples of the synthesizer whose voices were
    learned, at the codec's rate; it is judged like a method, and its reading of a voice's reference text is what speakers are
    compared with (without it, the codec's rendering of the reference codes is). progress(done, of all). reference: speech in
    place of the one known voice. speaker: who compares speakers (Resemblyzer by default).
    """
    given = {"sentences": sentences, "methods": methods, "voices": voices, "judges": judges}
    if empty := [name for name, those in given.items() if not those]:
        raise InputError(empty[0], "empty", "at least one")
    references = {voice: reference or synthesizer.voice.reference(voice) for voice in voices}
    panel = Panel(synthesizer.voice.codec, references, judges, original, speaker or Resemblyzer())
    for method in methods:  # the first take of a method pays for caches that later ones find filled
        synthesizer.take(min(sentences, key=len), settings.for_method(method), voices[0], reference)
    judged: list[Judged] = []
    utterances = list(product(sentences, voices))
    for index, (text, voice) in enumerate(utterances):
        # Methods take turns, so that a machine that slows down half-way slows them all.
        takes = [synthesizer.take(text, nth_seed(settings.for_method(method), index), voice, reference) for method in methods]
        spoken = [Spoken(m, take.audio, Work.of(take)) for m, take in zip(methods, takes, strict=True)]
        if original:
            spoken.append(Spoken(ORIGINAL, original(voice, text), None))
        judged += panel.hear(voice, text, spoken)
        if progress:
            progress(index + 1, len(utterances))
    by_method = {m: [j for j in judged if j.method == m] for m in ([ORIGINAL] if original else []) + list(methods)}
    baseline = pooled_speed(by_method["ar"]) if "ar" in by_method else None
    rows = tuple(MethodRow.of(m, those, list(judges), baseline) for m, those in by_method.items())
    return Report(", ".join(voices), settings, panel.names, rows, tuple(judged))
