"""Will it pay here? What widths cost on this computer, what this voice's drafts are worth, and so which method pays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from pcg.bench.methods import pooled
from pcg.bench.rounds import LOOKAHEADS, RoundCosts, round_costs
from pcg.errors import InputError
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer

TEXTS = (
    "The old boat moved slowly along the river, and the morning sun was warm and bright.",
    "Please call the doctor before nine, and bring the blue box with you.",
)
TURNS = 40
PROMISING = ("sd", "pcg")
"""Methods that keep a promise about what is said: SSD can be made as fast as one likes, at the price of words."""
MARGIN = 1.03
"""Less than this over AR is within what one measurement differs from the next."""


@dataclass(frozen=True)
class Pays:
    """What `will_it_pay` found. Costs are in steps of AR: `pass_cost` (v) by the tokens read at once, `draft_cost` (c) of a
    draft step, `round_cost` (R) by lookahead. acceptances: by method, the chance of each position to stand if those before it
    do. speedups: by method, the expected tokens over R for each lookahead. method, lookahead, speedup: the fastest of those
    that promise something; AR, 0 and 1 where none of them is faster. exact: the same for SD alone, as (lookahead, speed-up).
    lookahead_cost: what `Settings().lookahead_cost` is here."""

    ar_ms: float
    pass_cost: dict[int, float]
    draft_cost: float
    round_cost: dict[int, float]
    acceptances: dict[str, tuple[float, ...]]
    speedups: dict[str, dict[int, float]]
    method: str
    lookahead: int
    speedup: float
    exact: tuple[int, float]
    lookahead_cost: float

    @property
    def sentence(self) -> str:
        """The answer, for a person."""
        count, exact = self.exact
        if self.method == "ar":
            best = max(max(row.values()) for method, row in self.speedups.items() if method in PROMISING)
            return f"Nothing pays on this computer: AR is fastest, and the better of SD and PCG runs at {best:.2f} x AR."
        said = (
            f"{self.method.upper()} pays on this computer, with lookahead {self.lookahead}: by estimate {self.speedup:.2f} x AR"
        )
        if self.method == "sd":
            return said + ", and it keeps AR's distribution."
        return said + f"; SD, which keeps AR's distribution, reaches {exact:.2f} x at lookahead {count}."

    def table(self) -> str:
        """Costs by width and speed-ups by method, in columns of plain text."""
        counts = list(self.round_cost)
        rows = [
            ("tokens at once or drafted", [f"{n:d}" for n in counts]),
            ("a pass, in AR steps (v)", [f"{self.pass_cost[n]:.2f}" if n in self.pass_cost else "" for n in counts]),
            ("a round, in AR steps (R)", [f"{self.round_cost[n]:.2f}" for n in counts]),
        ]
        for method, chances in self.acceptances.items():
            shown = [f"{chances[n - 1]:.0%}" if n <= len(chances) else "" for n in counts]
            rows += [(f"{method}: accepted of tested", shown)]
            rows += [(f"{method}: times AR", [f"{self.speedups[method][n]:.2f}" for n in counts])]
        return "\n".join(f"{name:28}" + "".join(f"{cell:>7}" for cell in cells) for name, cells in rows)

    def as_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return {
            "ar_ms": round(self.ar_ms, 4),
            "pass_cost": rounded(self.pass_cost, "v"),
            "draft_cost": round(self.draft_cost, 4),
            "round_cost": rounded(self.round_cost),
            "acceptances": {method: [round(each, 4) for each in chances] for method, chances in self.acceptances.items()},
            "speedups": {method: rounded(row) for method, row in self.speedups.items()},
            "method": self.method,
            "lookahead": self.lookahead,
            "speedup": round(self.speedup, 4),
            "exact": {"lookahead": self.exact[0], "speedup": round(self.exact[1], 4)},
            "lookahead_cost": self.lookahead_cost,
            "sentence": self.sentence,
        }


def will_it_pay(
    synthesizer: Synthesizer, settings: Settings, lookaheads: Sequence[int] = LOOKAHEADS, texts: Sequence[str] = TEXTS
) -> Pays:
    """Time rounds of each lookahead, and speak `texts` by each method at the largest, for the acceptance by position.

    Raises InputError where nothing drafts. Ten to twenty seconds for the embedded voice.
    """
    voice = synthesizer.voice
    if voice.draft is None:
        raise InputError("draft", "none", "one that drafts, as it is drafting that could pay")
    names = list(voice.references)
    synthesizer.warm_up()
    prompt = voice.reader.prompt(texts[0], voice.reference(names[0]))
    costs = round_costs(voice, prompt, settings.temperature, lookaheads, TURNS)
    acceptances = {}
    for method in (method for method in synthesizer.methods if method != "ar"):
        spoken = settings.for_method(method).with_(lookahead=max(lookaheads), adaptive=False, lookahead_cost=0.0)
        takes = [synthesizer.take(text, spoken, names[i % len(names)]) for i, text in enumerate(texts)]
        acceptances[method] = tuple(pooled(takes).conditional_acceptance_by_position)
    return judge(costs, acceptances, min(3, max(lookaheads)))


def judge(costs: RoundCosts, acceptances: Mapping[str, Sequence[float]], usual: int) -> Pays:
    """What follows from costs and acceptances. usual: the lookahead at which the cost of a draft step is told."""
    speedups = {}
    for method, chances in acceptances.items():
        # Behind the last position that was ever tested nothing was accepted.
        tokens = [1.0, *(1 + more for more in accumulate(accumulate(chances, mul)))]
        speedups[method] = {n: costs.speed_up(tokens[min(n, len(chances))], n) for n in costs.round_cost}
    best = {method: max(row, key=row.__getitem__) for method, row in speedups.items()}
    fastest = max((m for m in best if m in PROMISING), key=lambda method: speedups[method][best[method]])
    speed = speedups[fastest][best[fastest]]
    found = (fastest, best[fastest], speed) if speed > MARGIN else ("ar", 0, 1.0)
    exact = (best["sd"], speedups["sd"][best["sd"]])
    known = {method: tuple(chances) for method, chances in acceptances.items()}
    cost = costs.draft_cost(usual)
    return Pays(costs.ar, costs.pass_cost, cost, costs.round_cost, known, speedups, *found, exact, costs.lookahead_cost)


def rounded(row: Mapping[int, float], prefix: str = "") -> dict[str, float]:
    """Keys as JSON has them."""
    return {f"{prefix}{count}": round(value, 4) for count, value in row.items()}
