"""The beams of an utterance that spoof detectors searched for, and how one of them sounds. Knows nothing of gradio."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from explorers.spoof.ways import SEARCHED, WAYS
from pcg.decode.beam_search import Hierarchy
from pcg.errors import InputError, PCGError
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take

PLAN = Hierarchy()
NO_TAKE = "There are no beams of {way} yet: generate a text first."


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


def _checked(field_: str, value: object, highest: int) -> int:
    if not highest:
        raise PCGError("This take has no beams to choose from.")
    whole = isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= highest and value == int(value)
    if not whole:
        raise InputError(field_, value, f"a whole number from 1 to {highest}")
    return int(value)
