"""What the Spoof panel does: one text by the five sampling schemes of MSpoofTTS (Zhao et al., arXiv 2603.05373) and a control,
the spoof probabilities of each, and the beams of the search. Knows nothing of gradio."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from time import perf_counter

import numpy as np

from explorers.compare.actions import token_rate
from explorers.compare.turns import PROGRESS_SECONDS
from pcg.decoding.beam_search import Hierarchy
from pcg.errors import InputError, PCGError
from pcg.prompts.text import check_text
from pcg.settings import Settings
from pcg.spoof.detector import RESOLUTIONS
from pcg.spoof.detectors import STEP
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Round, Speak, Take

PLAN = Hierarchy()
NOTE = "One text and one seed (n = 1): no interval can be given, and nothing follows for the schemes in general."
NO_TAKE = "There are no beams of {way} yet: generate a text first."


@dataclass(frozen=True)
class Way:
    """A sampling scheme by the paper's settings (section 3.2); method, temperature and seed are a request's."""

    key: str
    name: str
    note: str
    settings: Settings


def _way(key: str, name: str, note: str, **sampling: object) -> Way:
    return Way(key, name, note, Settings("ar", temperature=1.0, top_k=50, **sampling))


WAYS = {
    way.key: way
    for way in (
        _way("original", "Original", "Plain sampling, the 50 likeliest tokens."),
        _way("top_p", "top-p", "A control: Original with the top-p of RAS and EAS, and nothing else of theirs.", top_p=0.8),
        _way("ras", "RAS", "Repetition-aware: a token too frequent recently is drawn again.", sampler="ras", top_p=0.8),
        _way("eas", "EAS", "Entropy-aware: tokens recently ranked high or chosen get a penalty.", sampler="eas", top_p=0.8),
        _way(
            "hierras", "HierRAS", "RAS in beams, pruned by the spoof detectors.",
            sampler="ras", top_p=0.8, hierarchical=True,
        ),
        _way(
            "hiereas", "HierEAS", "EAS in beams, pruned by the spoof detectors: the paper's MSpoofTTS.",
            sampler="eas", top_p=0.8, hierarchical=True,
        ),
    )
}  # fmt: skip
SEARCHED = tuple(key for key, way in WAYS.items() if way.settings.hierarchical)


@dataclass(frozen=True)
class SpoofRequest:
    """The values of the controls, in their order. method: the decoding method of all schemes; the paper's is "ar"."""

    text: str
    voice: str
    method: str = "ar"
    temperature: float = 1.0
    seed: int = 0

    def settings(self, way: Way) -> Settings:
        return way.settings.with_(method=self.method, temperature=self.temperature, seed=self.seed)


@dataclass(frozen=True)
class ShownBeam:
    """One branch, numbered from 1: its tokens, P(real) of each detector that scored it, after how many stages it
    was pruned (3: not before the choice), and its weighted rank among the last (lower is better)."""

    number: int
    tokens: tuple[int, ...]
    scores: Mapping[str, float]
    stages: int
    rank: float | None

    def record(self) -> dict[str, object]:
        real = {name: round(score, 4) for name, score in self.scores.items()}
        return {"beam": self.number, "stages": self.stages, "real": real, "rank": self.rank}

    @property
    def lengths(self) -> tuple[int, ...]:
        """Its tokens at the end of each stage that it reached; a beam may say its end, or the end of a round, in between."""
        count = len(self.tokens)
        return (*(min(stage, count) for stage in PLAN.stages[: self.stages - 1]), count)


@dataclass(frozen=True)
class Fan:
    """All beams that go on from token `start` of the utterance, in the piece of its text whose first token is `piece`; `chosen`
    is the number of the beam that stayed. One beam alone is a warm-up."""

    start: int
    piece: int
    beams: tuple[ShownBeam, ...]
    chosen: int

    @property
    def kept(self) -> ShownBeam:
        return self.beams[self.chosen - 1]

    def place(self, beam: ShownBeam, resolution: str) -> tuple[int, int]:
        """Where `beam` stands among the beams that a detector saw, 1 being the most real, and how many those are."""
        seen = [each.scores[resolution] for each in self.beams if resolution in each.scores]
        return 1 + sum(score > beam.scores[resolution] for score in seen), len(seen)


@dataclass(frozen=True)
class Tree:
    """The beams of one utterance, `rate` tokens a second."""

    way: str
    voice: str
    rate: float
    fans: tuple[Fan, ...]

    @classmethod
    def of(cls, way: str, take: Take, rate: float) -> "Tree":
        """The engine counts a cycle's tokens from the beginning of its piece of the text."""
        fans: list[Fan] = []
        said = piece = 0
        for cycle in take.cycles:
            piece = said if cycle.start == 0 else piece
            beams = tuple(ShownBeam(b.number + 1, b.tokens, dict(b.scores), b.stages, b.rank) for b in cycle.branches)
            fans.append(Fan(said, piece, beams, cycle.chosen + 1))
            said += len(fans[-1].kept.tokens)
        return cls(way, take.voice, rate, tuple(fans))

    @property
    def cycles(self) -> tuple[Fan, ...]:
        """The fans in which there was a choice; the page and the endpoints count them from 1."""
        return tuple(fan for fan in self.fans if len(fan.beams) > 1)

    def find(self, cycle: object, beam: object) -> tuple[Fan, ShownBeam]:
        fan = self.cycles[_checked("cycle", cycle, len(self.cycles)) - 1]
        return fan, fan.beams[_checked("beam", beam, len(fan.beams)) - 1]

    def pieces(self, fan: Fan, beam: ShownBeam) -> list[list[int]]:
        """The tokens of each piece of the text up to the end of `beam`, which stands in the place of the chosen one."""
        pieces: dict[int, list[int]] = {}
        for each in self.fans[: self.fans.index(fan)]:
            pieces.setdefault(each.piece, []).extend(each.kept.tokens)
        pieces.setdefault(fan.piece, []).extend(beam.tokens)
        return list(pieces.values())

    def record(self) -> list[dict[str, object]]:
        """The cycles, ready for JSON."""
        return [
            {
                "start_seconds": round(fan.start / self.rate, 4),
                "chosen": fan.chosen,
                "beams": [beam.record() | {"tokens": len(beam.tokens)} for beam in fan.beams],
            }
            for fan in self.cycles
        ]


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
            "settings": asdict(take.settings),
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
    """The progress of a run: the current scheme, the number of its tokens, and its take once it is finished."""

    now: str
    tokens: int = 0
    done: SpoofTake | None = None


@dataclass(frozen=True, eq=False)
class HeardBranch:
    """An utterance up to the end of one beam: its sound `[N]`, and the second at which the beam begins."""

    way: str
    cycle: int
    fan: Fan
    beam: ShownBeam
    samples: np.ndarray = field(repr=False)
    sample_rate: int
    from_seconds: float

    def record(self) -> dict[str, object]:
        return {
            "way": self.way,
            "cycle": self.cycle,
            **self.beam.record(),
            "chosen": self.beam.number == self.fan.chosen,
            "from_seconds": round(self.from_seconds, 4),
            "audio_seconds": round(len(self.samples) / self.sample_rate, 4),
        }


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
            take = yield from _progress(events, way.key)
        judged = synthesizer.decoder.detectors.curves(take.tokens)
        curves = {name: curve.numpy() for name, curve in judged.items()}
        tree = Tree.of(way.key, take, rate) if way.settings.hierarchical else None
        yield SpoofStep(way.key, len(take.tokens), SpoofTake(way.key, take, curves, tree))


def hear_branch(synthesizer: Synthesizer, trees: Mapping[str, Tree], way: str, cycle: int, beam: int) -> HeardBranch:
    """Decode the utterance up to the end of a beam, chosen or pruned, with that beam in the place of the chosen one.

    cycle and beam count from 1. Raises InputError for those that are not there, PCGError where that scheme has not run.
    """
    if way not in SEARCHED:
        raise InputError("way", way, "one of " + ", ".join(SEARCHED))
    if way not in trees:
        raise PCGError(NO_TAKE.format(way=WAYS[way].name))
    tree = trees[way]
    fan, chosen = tree.find(cycle, beam)
    speaker, codec = synthesizer.voice.reference(tree.voice), synthesizer.voice.codec
    pieces = tree.pieces(fan, chosen)
    samples = np.concatenate([synthesizer.decode(piece, speaker) for piece in pieces])
    from_seconds = len(samples) / codec.sample_rate - len(chosen.tokens) / tree.rate
    return HeardBranch(way, int(cycle), fan, chosen, samples, codec.sample_rate, from_seconds)


def as_record(request: SpoofRequest, said: Sequence[SpoofTake]) -> dict[str, object]:
    """The takes so far, ready for JSON."""
    ways = {each.way: each.record() for each in said}
    return {**asdict(request), "n": 1, "note": NOTE, "resolutions": [r.name for r in RESOLUTIONS], "ways": ways}


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


def _checked(field_: str, value: object, highest: int) -> int:
    whole = isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= highest and value == int(value)
    if not whole:
        raise InputError(field_, value, f"a whole number from 1 to {highest}" if highest else "left alone, as there are none")
    return int(value)


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if np.isnan(value) else round(float(value), 4)
