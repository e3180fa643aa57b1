"""What the Spoof panel does: one text by the five sampling schemes of MSpoofTTS (Zhao et al., arXiv 2603.05373) and a control,
the spoof probabilities of each, and the beams of the search. Knows nothing of gradio."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from operator import methodcaller
from time import perf_counter

import numpy as np

from explorers.listen.actions import PROGRESS_SECONDS, Keep, token_rate
from explorers.session import Session, ShownTake, TakeView
from explorers.shared.waiting import while_waiting
from explorers.spoof.beams import Tree
from explorers.spoof.ways import WAYS, Way
from explorers.turn import Turn
from pcg.errors import InputError
from pcg.settings import Settings
from pcg.spoof.detectors import RESOLUTIONS, STEP
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Round, Speak, Take, pack_take
from pcg.text.reading import check_text

NOTE = "One text and one seed (n = 1): no interval can be given, and nothing follows for the schemes in general."


@dataclass(frozen=True)
class SpoofRequest:
    """The values of the controls, in their order. method: the decoding method of all schemes; the paper's is "ar", which reads
    neither `theta` nor what follows it."""

    text: str
    voice: str
    method: str = "ar"
    temperature: float = 1.0
    seed: int = 0
    theta: float = Settings().theta
    similarity: str = Settings().similarity
    lookahead: int = Settings().lookahead
    beta: float = Settings().beta

    def settings(self, way: Way) -> Settings:
        asked = {name: value for name, value in vars(self).items() if name not in ("text", "voice")}
        return way.settings.with_(**asked)


@dataclass(frozen=True, eq=False)
class SpoofTake:
    """The take of one scheme. `curves`: the spoof probability of each token at each resolution, `[T]`, NaN throughout where the
    utterance is shorter than the detector's span; `tree`: None where nothing was searched."""

    way: str
    take: Take = field(repr=False)
    curves: Mapping[str, np.ndarray] = field(repr=False)
    tree: Tree | None = field(repr=False)

    @property
    def spoof(self) -> dict[str, float | None]:
        """The mean spoof probability, 1 - P(real), at each resolution."""
        return {name: _number(curve.mean()) if len(curve) else None for name, curve in self.curves.items()}

    def record(self) -> dict[str, object]:
        """Ready for JSON. Of the curves every `STEP`-th token."""
        take = self.take
        return {
            "settings": take.settings.as_dict(),
            "tokens": len(take.tokens),
            "audio_seconds": round(take.audio_seconds, 4),
            "hit_limit": take.hit_limit,
            "computed_per_token": round(take.computed_per_token, 4),
            "rtf": round(take.rtf, 4) if len(take.audio) else None,
            "spoof": self.spoof,
            "curves": {name: [_number(value) for value in curve[::STEP]] for name, curve in self.curves.items()},
            "curve_step_tokens": STEP,
            "cycles": self.tree.record() if self.tree else [],
        }


@dataclass(frozen=True)
class SpoofStep:
    """The progress of a run: the current scheme, the number of its tokens, and its take once it is finished. waits: what to
    tell a visitor whose take waits for those of others, "" while it is decoded."""

    now: str
    tokens: int = 0
    done: SpoofTake | None = None
    waits: str = ""


def can_judge(synthesizer: Synthesizer) -> bool:
    """Whether there are spoof detectors for the codes of this voice."""
    return synthesizer.decoder.detectors is not None


def generate_all(synthesizer: Synthesizer, request: SpoofRequest, speak: Speak | None = None) -> Iterator[SpoofStep]:
    """Generate the text with all schemes, one after the other, at the same seed. Closing the generator stops it. speak: that of
    the synthesizer, or of a service that others speak by, too."""
    text, rate = check_text(request.text), token_rate(synthesizer)
    synthesizer.voice.reference(request.voice)
    if not can_judge(synthesizer):
        raise InputError("voice", synthesizer.voice.name, "one whose codes the spoof detectors know")
    asked = {key: request.settings(way) for key, way in WAYS.items()}  # wrong values are refused before anything is generated
    for way in WAYS.values():
        yield SpoofStep(way.key)
        with closing((speak or synthesizer.speak)(text, asked[way.key], request.voice)) as events:
            for queued in while_waiting(events, synthesizer):
                yield SpoofStep(way.key, waits=queued)
            take = yield from _progress(events, way.key)
        judged = synthesizer.decoder.detectors.curves(take.tokens)
        curves = {name: curve.numpy() for name, curve in judged.items()}
        tree = Tree.of(way.key, take, rate) if way.settings.hierarchical else None
        yield SpoofStep(way.key, len(take.tokens), SpoofTake(way.key, take, curves, tree))


def as_record(request: SpoofRequest, said: Sequence[SpoofTake]) -> dict[str, object]:
    """The takes so far, ready for JSON."""
    ways = {each.way: each.record() for each in said}
    return {**asdict(request), "n": 1, "note": NOTE, "resolutions": [r.name for r in RESOLUTIONS], "ways": ways}


def remembered(session: Session, said: Sequence[SpoofTake], keep: Keep, turn: Turn) -> Session:
    """The session with these takes in its history, each by the name of its scheme, as that of the run of `turn` will be."""
    for each in said:
        sound = keep(each.take, None, False) if len(each.take.audio) else None
        shown = ShownTake(TakeView.of(each.take), sound, packed=pack_take(each.take), streamed=False)
        remember = methodcaller("remembering", shown, each.way, WAYS[each.way].name)
        session = remember(session)
        turn.change(remember)
    return session


def _progress(events: Iterator[Round | Take], way: str) -> Generator[SpoofStep, None, Take]:
    """Report rounds now and then, and return the take."""
    count, reported = 0, perf_counter()
    for event in events:
        if isinstance(event, Take):
            return event
        count += len(event.tokens)
        if perf_counter() - reported >= PROGRESS_SECONDS:
            yield SpoofStep(way, count)
            reported = perf_counter()
    raise AssertionError("a synthesizer ends with a take")


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if np.isnan(value) else round(float(value), 4)
