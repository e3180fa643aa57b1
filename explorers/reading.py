"""What the page keeps of a take: its figures and the kinds of its tokens, without the sound. Knows nothing of gradio."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pcg.settings import Settings
from pcg.take import KINDS, Take


@dataclass(frozen=True)
class Reading:
    """The figures of one take. `kinds`, `group_sizes` and `tokens` run side by side; `drafts` are the drafted tokens that were
    tested, and whether each was accepted."""

    settings: Settings
    text: str
    voice: str
    audio_seconds: float
    tokens_per_second: float
    rtf: float | None
    acceptance_rate: float | None
    mean_acceptance_length: float
    hit_limit: bool
    kinds: tuple[str, ...]
    group_sizes: tuple[int, ...]
    tokens: tuple[int, ...]
    drafts: tuple[tuple[int, bool], ...]

    @classmethod
    def of(cls, take: Take) -> "Reading":
        return cls.from_record(record(take))

    @classmethod
    def from_record(cls, values: Mapping[str, object]) -> "Reading":
        """Read what `record` wrote; raise KeyError, TypeError or ValueError if it is not that."""
        summary, kinds, sizes = values["summary"], tuple(values["kinds"]), tuple(int(s) for s in values["group_sizes"])
        tokens = tuple(int(token) for token in values["tokens"])
        if not set(kinds) <= set(KINDS) or len({len(kinds), len(sizes), len(tokens)}) > 1 or min(sizes, default=1) < 1:
            raise ValueError("kinds, group sizes and tokens do not fit together")
        return cls(
            settings=Settings.from_dict(summary["settings"]),
            text=str(summary["text"]),
            voice=str(summary["voice"]),
            audio_seconds=float(summary["audio_seconds"]),
            tokens_per_second=float(summary["tokens_per_second"]),
            rtf=_number(summary["rtf"]),
            acceptance_rate=_number(summary["acceptance_rate"]),
            mean_acceptance_length=float(summary["mean_acceptance_length"]),
            hit_limit=bool(summary["hit_limit"]),
            kinds=kinds,
            group_sizes=sizes,
            tokens=tokens,
            drafts=tuple((int(token), bool(accepted)) for token, accepted in values["drafts"]),
        )

    @property
    def method(self) -> str:
        return self.settings.method

    @property
    def task(self) -> tuple[object, ...]:
        """What was to be said: takes of one task may be compared by ear."""
        return (self.text, self.voice, self.settings.temperature, self.settings.seed)

    def speed_up_over(self, other: "Reading") -> float | None:
        """The ratio of tokens per second; None where the other take stayed silent."""
        return self.tokens_per_second / other.tokens_per_second if other.tokens_per_second else None


@dataclass(frozen=True)
class Card:
    """A reading as it stands on the page.

    yardstick: the AR take that it is compared with, if there is one: "self", "same run", "last run", "recorded" or "none".
    outdated: what was asked for last is another text, voice, temperature or seed.
    """

    reading: Reading
    speed_up: float | None = None
    yardstick: str = "none"
    outdated: bool = False


@dataclass(frozen=True, eq=False)
class Session:
    """What one visitor's page shows, by method. Compared by identity, which is how gradio sees that it changed."""

    cards: Mapping[str, Card] = field(default_factory=dict)

    @classmethod
    def of_recorded(cls, readings: Mapping[str, Reading]) -> "Session":
        """Takes made earlier, all in one run."""
        return cls({method: Card(r, r.speed_up_over(readings["ar"]), "recorded") for method, r in readings.items()})

    def asked(self, task: tuple[object, ...]) -> "Session":
        """The same cards, each marked by whether it answers `task`."""
        return Session({method: replace(card, outdated=card.reading.task != task) for method, card in self.cards.items()})

    def heard(self, reading: Reading, full_run: bool) -> "Session":
        """The session with a new take, compared with this run's AR take, or else with that of the last full run."""
        if reading.method == "ar":
            return self._with(Card(reading, 1.0, "self"))
        ar = self.cards.get("ar")
        if ar is None or ar.yardstick != "self":
            return self._with(Card(reading))
        return self._with(Card(reading, reading.speed_up_over(ar.reading), "same run" if full_run else "last run"))

    @property
    def utterance(self) -> Reading | None:
        """What the other panels call the last utterance: PCG's take, or, where it has said nothing, the newest one."""
        newest = list(self.cards.values())[-1].reading if self.cards else None
        return self.cards["pcg"].reading if "pcg" in self.cards else newest

    def _with(self, card: Card) -> "Session":
        others = {method: other for method, other in self.cards.items() if method != card.reading.method}
        return Session({**others, card.reading.method: card})


def record(take: Take) -> dict[str, object]:
    """A take's figures and tokens, ready for JSON."""
    return {
        "summary": take.summary(),
        "kinds": list(take.kinds),
        "group_sizes": list(take.group_sizes),
        "tokens": list(take.tokens),
        "drafts": [[test.token, test.accepted] for round_ in take.rounds for test in round_.tests],
    }


def _number(value: object) -> float | None:
    return None if value is None else float(value)
