"""What is measured on a take of the Tune panel, and why its drafts save no time. Knows nothing of gradio."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from explorers.session import TakeView
from pcg.analysis.whatif import WhatIf
from pcg.settings import Settings
from pcg.synthesis.costs import StepCosts
from pcg.synthesis.drafts import LAYERS, LOOKUP, NONE, TRAINED
from pcg.takes.take import Take

USELESS = 0.05
SELDOM = 0.5


@dataclass(frozen=True)
class RoundCost:
    """The time of one round in milliseconds, and its tokens."""

    draft_ms: float
    verify_ms: float
    rule_ms: float
    drafted: int
    accepted: int


@dataclass(frozen=True)
class Measured:
    """The figures of one streamed take. The codec's and the prompt's milliseconds are those of the whole take; `draft` is what
    drafted (`pcg.synthesis.drafts.Draft.kind`)."""

    reading: TakeView
    conditional_by_position: tuple[float, ...]
    rounds: tuple[RoundCost, ...]
    decoding_ms: float
    codec_ms: float
    prefill_ms: float
    draft: str = TRAINED

    @classmethod
    def of(cls, take: Take, draft: str = TRAINED) -> "Measured":
        return cls(
            TakeView.of(take),
            tuple(take.conditional_acceptance_by_position),
            tuple(RoundCost(r.draft_ms, r.verify_ms, r.rule_ms, len(r.drafted), r.accepted) for r in take.rounds),
            take.decoding_ms,
            take.codec_ms,
            take.prefill_ms,
            draft,
        )

    @property
    def settings(self) -> Settings:
        return self.reading.settings

    @property
    def task(self) -> tuple[object, ...]:
        """What takes must have in common for their speeds to be compared; the seed changes the length, not the speed."""
        return (self.reading.text, self.reading.voice, self.settings.sampling)

    @property
    def is_steady(self) -> bool:
        """Whether every round drafted as many tokens as the others, and so cost as much."""
        return all(cost.drafted == self.settings.lookahead for cost in self.rounds)


@dataclass(frozen=True, eq=False)
class Bench:
    """What was measured on one visitor's page: the newest take, the newest AR take and whether an `earlier` run made that, and
    the costs of single steps by lookahead, voice and temperature. Compared by identity: so gradio sees that it changed."""

    last: Measured | None = None
    ar: Measured | None = None
    earlier: bool = False
    costs: Mapping[tuple[object, ...], StepCosts] = field(default_factory=dict)
    estimate: WhatIf | None = None

    def spoken(self, measured: Measured, ar: Measured | None, earlier: bool = False) -> "Bench":
        """With another take in hand, and the AR take that the page compares it with."""
        return replace(self, last=measured, ar=ar, earlier=earlier, estimate=None)

    def timed(self, lookahead: int, costs: StepCosts) -> "Bench":
        """With the costs of single steps at the voice and the temperature of the take in hand."""
        return replace(self, costs={**self.costs, _cost_key(self.last, lookahead): costs})

    @property
    def baseline(self) -> Measured | None:
        """The AR take of the newest take's text, voice and temperature."""
        return self.ar if self.ar and self.last and self.ar.task == self.last.task else None

    @property
    def speed_up(self) -> float | None:
        """Tokens/s relative to AR, which is what `bound` limits."""
        return self.last.reading.speed_up_over(self.baseline.reading) if self.last and self.baseline else None

    @property
    def bound(self) -> float | None:
        """The best `speed_up` that the acceptance and the steps' costs allow; None in AR, before the steps were timed, and
        where rounds cost different amounts, as with adaptive lookahead and with prompt lookup."""
        if self.last is None or self.last.settings.varies or not self.last.is_steady:
            return None
        costs = self.costs.get(_cost_key(self.last, self.last.settings.lookahead))
        return costs and costs.bound(self.last.reading.mean_acceptance_length, self.last.settings.lookahead)

    @property
    def idle(self) -> str | None:
        """Why drafting saves no time in the newest take; None where it does."""
        return why_idle(self.last, self.speed_up) if self.last else None

    def record(self) -> dict[str, object] | None:
        """The newest take's figures and the estimates, ready for JSON; None before a take."""
        if self.last is None:
            return None
        last, reading = self.last, self.last.reading
        compared = {name: getattr(self, name) for name in ("speed_up", "bound")}
        return {
            "settings": reading.settings.as_dict(),
            **reading.as_dict(),
            "tokens": list(reading.tokens),
            "kinds": list(reading.kinds),
            "group_sizes": list(reading.group_sizes),
            "conditional_acceptance_by_position": list(last.conditional_by_position),
            "rounds": [asdict(cost) for cost in last.rounds],
            "codec_ms": last.codec_ms,
            "prefill_ms": last.prefill_ms,
            **compared,
            "idle": self.idle,
            "estimate": self.estimate and asdict(self.estimate),
        }


def why_idle(measured: Measured, speed_up: float | None) -> str | None:
    """The most important reason in one sentence; None where drafting saves time. speed_up: over AR, None if unknown."""
    settings, rate = measured.settings, measured.reading.acceptance_rate
    if rate is None:
        return _why_nothing(measured)
    if settings.method == "ssd" and settings.beta == 1:
        return "At beta 1 every drafted token passes, so the target chooses only the bonus tokens."
    if weakness := _weakness(measured, rate):
        return weakness
    if rate < USELESS:
        return (
            f"Only {rate:.1%} of the drafted tokens passed: nearly every round yields one token, as AR does, at a higher cost."
        )
    if settings.method == "pcg" and max(measured.reading.group_sizes, default=1) == 1:
        return "Every token of this take is alone in its group, so PCG decides as SD does. Lower theta for larger groups."
    if settings.method == "ssd" and settings.beta == 0:
        return "At beta 0 SSD is SD: the tolerance is inactive."
    if speed_up is not None and speed_up < 1:
        return f"Slower than AR here ({speed_up:.2f}×): the drafts cost more time than their accepted tokens save."
    return None


def _why_nothing(measured: Measured) -> str:
    """Nothing at all was drafted."""
    if measured.draft == NONE:
        return "No draft is loaded: the target generates every token."
    if measured.settings.method == "ar":
        return "AR drafts nothing: the target generates every token."
    if measured.draft == LOOKUP:
        return "Prompt lookup found nothing to copy in this take: no sequence repeats, so the target generated every token."
    return "Adaptive lookahead drafted nothing: the draft was too uncertain at every position."


def _weakness(measured: Measured, rate: float) -> str | None:
    """Why an untrained draft, `rate` of whose tokens passed, is of little use."""
    if measured.draft.startswith(LAYERS):
        return f"The draft is untrained: {rate:.1%} of its tokens passed. Training would raise this share."
    copied = sum(cost.drafted > 0 for cost in measured.rounds) / max(1, len(measured.rounds))
    if measured.draft == LOOKUP and copied < SELDOM:
        return f"Prompt lookup found something to copy in {copied:.0%} of the rounds: the others yielded one token, as in AR."
    return None


def _cost_key(measured: Measured, lookahead: int) -> tuple[object, ...]:
    return (*measured.task, lookahead)
