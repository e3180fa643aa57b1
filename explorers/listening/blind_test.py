"""A blind test and its state: the plan, the takes, the votes, and what is measured on them. Knows nothing of gradio."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from explorers.judging import JudgedTake
from explorers.session import TakeView
from explorers.shared.readout import KNOBS
from pcg.errors import PCGError
from pcg.experiments.listening_tests import Outcome, Plan, Vote, as_dict, outcome
from pcg.metrics.estimate import Estimate, bootstrap
from pcg.metrics.intelligibility import pooled
from pcg.settings import SAMPLING, Settings

NOT_OVER = "The test is not over: give the remaining votes, or end it here."


@dataclass(frozen=True)
class Judgement:
    """A system's figures over its `n` takes. wer, cer: pooled, fractions; similarity: of the speaker to the voice's reference,
    a cosine; dnsmos: from 1 to 5."""

    n: int
    wer: Estimate
    cer: Estimate
    similarity: Estimate
    dnsmos: Estimate

    @classmethod
    def of(cls, verdicts: Sequence[JudgedTake]) -> "Judgement":
        """The figures over the verdicts on the takes of one system, with intervals."""
        return cls(
            len(verdicts),
            pooled([verdict.words for verdict in verdicts]),
            pooled([verdict.characters for verdict in verdicts]),
            bootstrap([verdict.similarity for verdict in verdicts]),
            bootstrap([verdict.dnsmos for verdict in verdicts]),
        )


@dataclass(frozen=True, eq=False)
class BlindTest:
    """A test and how far it has come. takes: for each trial, each system's take without its sound. ended: before its last vote.
    judged: figures by system, and the names of the `judges`."""

    plan: Plan
    texts: tuple[str, ...]
    voice: str
    systems: Mapping[str, Settings]
    takes: tuple[Mapping[str, TakeView], ...] = field(repr=False)
    votes: tuple[Vote, ...] = ()
    ended: bool = False
    judged: Mapping[str, Judgement] = field(default_factory=dict)
    judges: Mapping[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.ended or len(self.votes) == len(self.plan.trials)

    @property
    def outcome(self) -> Outcome:
        return outcome(self.plan, self.votes)

    def speeds(self, name: str) -> dict[str, float | None]:
        """tokens/s and real-time factor over all takes of a system, and its tokens/s over AR's, if AR was compared, too."""
        rate, readings = self._rate(name), [takes[name] for takes in self.takes]
        baseline = next((other for other, settings in self.systems.items() if settings.method == "ar"), None)
        of_ar = self._rate(baseline) if baseline else None
        audio = sum(r.audio_seconds for r in readings)
        wall = sum(r.rtf * r.audio_seconds for r in readings if r.rtf is not None)
        speed_up = rate / of_ar if rate and of_ar else None
        return {"tokens_per_second": rate, "rtf": wall / audio if audio else None, "speed_up": speed_up}

    def _rate(self, name: str) -> float | None:
        readings = [takes[name] for takes in self.takes]
        seconds = sum(len(r.tokens) / r.tokens_per_second for r in readings if r.tokens_per_second)
        return sum(len(r.tokens) for r in readings) / seconds if seconds else None

    def differences(self) -> dict[str, dict[str, object]]:
        """The knobs in which systems differ, by system; None where a method does not look at a knob."""
        rows = {name: _own_knobs(settings) for name, settings in self.systems.items()}
        knobs = dict.fromkeys(knob for row in rows.values() for knob in row)
        table = {knob: {name: row.get(knob) for name, row in rows.items()} for knob in knobs}
        return {knob: row for knob, row in table.items() if len(set(map(str, row.values()))) > 1}

    def record(self) -> dict[str, object]:
        """Everything, ready for JSON; refused before the test is over."""
        if not self.over:
            raise PCGError(NOT_OVER)
        systems = {
            name: {
                # The seed is that of each trial.
                "settings": {knob: value for knob, value in settings.as_dict().items() if knob != "seed"},
                **self.speeds(name),
                "judged": asdict(self.judged[name]) if name in self.judged else None,
            }
            for name, settings in self.systems.items()
        }
        found = as_dict(self.plan, self.texts, self.votes, systems)
        return found | {"voice": self.voice, "judges": dict(self.judges)}


def _own_knobs(settings: Settings) -> dict[str, object]:
    names = ["method", *KNOBS[settings.method], *SAMPLING, "hierarchical"]
    if settings.method == "pcg":
        names.append("similarity")
    if settings.method != "ar":
        names += ["adaptive", "lookahead_cost", "verification"]
    return {name: getattr(settings, name) for name in names} | {"method": settings.method.upper()}
