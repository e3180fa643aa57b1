"""The state of one visitor's page: its takes with their figures and sounds. Knows nothing of gradio."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pcg.audio import load_audio
from pcg.errors import InputError, PCGError
from pcg.settings import METHODS, Settings
from pcg.takes.take import Take
from pcg.takes.written import pack_take, unpack_take
from pcg.text.prompt import Reference

PRESET = "preset"
CARDS = (*METHODS, PRESET)
GONE = "This take is no longer kept: generate it again."
LONGEST_SECONDS = 1800.0
REMEMBERED = 24
LONGEST_NAME = 40


@dataclass(frozen=True)
class TakeView:
    """The figures of one take. `kinds`, `group_sizes` and `tokens` run side by side; `drafts` are the drafted tokens that were
    tested, and whether each was accepted. steps: the tokens and the milliseconds of each round, one call of the target. pauses,
    acceptance_by_position: those of `Take`."""

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
    steps: tuple[tuple[int, float], ...] = ()
    pauses: tuple[tuple[int, float], ...] = ()
    acceptance_by_position: tuple[float, ...] = ()

    @classmethod
    def of(cls, take: Take) -> "TakeView":
        return cls(
            settings=take.settings,
            text=take.text,
            voice=take.voice,
            audio_seconds=take.audio_seconds,
            tokens_per_second=take.tokens_per_second,
            rtf=take.rtf if take.audio_seconds else None,
            acceptance_rate=take.acceptance_rate,
            mean_acceptance_length=take.mean_acceptance_length,
            hit_limit=take.hit_limit,
            kinds=take.kinds,
            group_sizes=take.group_sizes,
            tokens=take.tokens,
            drafts=tuple((test.token, test.accepted) for round_ in take.rounds for test in round_.tests),
            steps=tuple((len(r.tokens), r.milliseconds) for r in take.rounds),
            pauses=take.pauses,
            acceptance_by_position=tuple(take.acceptance_by_position),
        )

    @property
    def method(self) -> str:
        return self.settings.method

    @property
    def acceptance_of_tested(self) -> float | None:
        """Accepted / tested tokens; None where nothing was tested."""
        return sum(accepted for _, accepted in self.drafts) / len(self.drafts) if self.drafts else None

    def as_dict(self) -> dict[str, object]:
        """What was said and its figures, ready for JSON, to four digits behind the point."""
        names = ("text", "voice", "audio_seconds", "tokens_per_second", "rtf", "acceptance_rate", "acceptance_of_tested")
        values = ((name, getattr(self, name)) for name in (*names, "mean_acceptance_length", "hit_limit"))
        figures = {name: round(value, 4) if isinstance(value, float) else value for name, value in values}
        return figures | {"acceptance_by_position": [round(share, 4) for share in self.acceptance_by_position]}

    def speed_up_over(self, other: "TakeView") -> float | None:
        """The ratio of tokens per second; None where the other take is silent."""
        return self.tokens_per_second / other.tokens_per_second if other.tokens_per_second else None


def task_of(text: str, voice: str, reference: Reference | None, settings: Settings) -> tuple[object, ...]:
    """Text, voice, sampling and seed: the speeds of takes with the same task can be compared. reference: the visitor's own
    voice, as several of them go by one name."""
    return (text, voice, reference and (reference.text, *reference.codes.tolist()), settings.sampling, settings.seed)


@dataclass(frozen=True)
class ShownTake:
    """A take as it stands on the page.

    sound: its WAV file; None where it is silent, or no file of it is kept. reference: the visitor's own voice that spoke it, if
    it was one. baseline: the AR take that it is compared with: "self", "same run", "last run", "recorded" or "none". packed:
    the whole take but for its sound (`pcg.takes.written`). streamed: whether the sound was made in pieces.
    """

    reading: TakeView
    sound: Path | None = None
    reference: Reference | None = field(default=None, repr=False, compare=False)
    speed_up: float | None = None
    baseline: str = "none"
    packed: bytes = field(default=b"", repr=False, compare=False)
    streamed: bool = True

    @property
    def task(self) -> tuple[object, ...]:
        """That of `task_of`."""
        return task_of(self.reading.text, self.reading.voice, self.reference, self.reading.settings)

    def speaker(self, references: Mapping[str, Reference]) -> Reference:
        """Who spoke it: the visitor's own voice, or that of its name."""
        return self.reference or references[self.reading.voice]

    def take(self) -> Take:
        """The take itself; raise PCGError where it is not kept any more."""
        if not self.packed or (self.sound and not self.sound.is_file()):
            raise PCGError(GONE)
        take = unpack_take(self.packed, np.zeros(0, np.float32))
        return replace(take, audio=load_audio(self.sound, take.sample_rate, LONGEST_SECONDS)) if self.sound else take


@dataclass(frozen=True)
class Card:
    """The takes of a method, or of a preset of that `name`, from one request: at least one, with different seeds. outdated: the
    last request had another task."""

    takes: tuple[ShownTake, ...]
    name: str = ""
    outdated: bool = False

    @property
    def first(self) -> ShownTake:
        return self.takes[0]

    @property
    def reading(self) -> TakeView:
        """The figures of the first take."""
        return self.first.reading

    def take(self, number: int) -> ShownTake:
        """The take of that number, from 1; the nearest one where there is none."""
        return self.takes[min(max(number, 1), len(self.takes)) - 1]

    def mean(self, figure: str) -> float | None:
        """The mean of a figure of TakeView, or of the speed-up, over the takes that have it."""
        values = [getattr(shown if figure == "speed_up" else shown.reading, figure) for shown in self.takes]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True)
class Kept:
    """A take in the history. number: it counts the takes of a page from 1. key: the card that it came on. name: a visitor's
    own, or "". pinned: newer takes do not displace it."""

    number: int
    key: str
    shown: ShownTake
    name: str = ""
    pinned: bool = False

    @property
    def title(self) -> str:
        """Its name, or else what it is."""
        settings = self.shown.reading.settings
        return self.name or f"{settings.method.upper()}, seed {settings.seed}"


@dataclass(frozen=True, eq=False)
class Session:
    """The cards of one visitor's page, by method, and under PRESET that of a preset. Compared by identity, which is how gradio
    sees that it changed.

    history: the takes of the page, the oldest first: the last REMEMBERED of them, and those that are pinned. held: the number
    of the one that was taken in hand again; None as long as that is a card's first take.
    """

    cards: Mapping[str, Card] = field(default_factory=dict)
    history: tuple[Kept, ...] = ()
    held: int | None = None

    @classmethod
    def of_recorded(cls, takes: Mapping[str, Take], sounds: Mapping[str, Path]) -> "Session":
        """Takes made earlier, all in one run, and their files."""
        shown, ar = {}, TakeView.of(takes["ar"])
        for method, take in takes.items():
            view, packed = TakeView.of(take), pack_take(take)
            shown[method] = ShownTake(view, sounds[method], None, view.speed_up_over(ar), "recorded", packed, streamed=False)
        history = tuple(Kept(number, method, take) for number, (method, take) in enumerate(shown.items(), 1))
        return cls({method: Card((take,)) for method, take in shown.items()}, history)

    def with_marks(self, tasks: Mapping[str, tuple[object, ...]], renewed: Collection[str] = ()) -> "Session":
        """The same cards, each marked by whether it answers its task of `tasks` and is not being `renewed`; in hand is one of
        them again."""
        outdated = {key: key in renewed or card.first.task != tasks.get(key) for key, card in self.cards.items()}
        cards = {key: replace(card, outdated=outdated[key]) for key, card in self.cards.items()}
        return replace(self, cards=cards, held=None)

    def without_other_preset(self, name: str | None) -> "Session":
        """The session without the card of any preset but that of `name`."""
        kept = {key: card for key, card in self.cards.items() if key != PRESET or card.name == name}
        return replace(self, cards=kept)

    def with_take(
        self,
        reading: TakeView,
        full_run: bool,
        *,
        key: str = "",
        name: str = "",
        sound: Path | None = None,
        reference: Reference | None = None,
        joins: bool = False,
        packed: bytes = b"",
        streamed: bool = True,
    ) -> "Session":
        """The session with a new take, compared with AR's take of the same task.

        key: its card's, if that is not its method's; name: of the card's preset. joins: it stands beside the takes that the
        card has already, instead of beginning the card anew. sound, reference, packed, streamed: see ShownTake.
        """
        key = key or reading.method
        shown = ShownTake(reading, sound, reference, packed=packed, streamed=streamed)
        speed_up, baseline = self._compared(shown, key, full_run)
        shown = replace(shown, speed_up=speed_up, baseline=baseline)
        earlier = self.cards[key].takes if joins else ()
        others = {other: card for other, card in self.cards.items() if other != key}
        return replace(self.remembering(shown, key, name), cards={**others, key: Card((*earlier, shown), name)})

    def remembering(self, shown: ShownTake, key: str, name: str) -> "Session":
        """The session with that take in its history, and on no card. key: what its file is named by."""
        number = self.history[-1].number + 1 if self.history else 1
        return replace(self, history=_remembered((*self.history, Kept(number, key, shown, name))))

    def kept(self, number: object) -> Kept:
        """The take of that number in the history; raise InputError where there is none."""
        for each in self.history:
            if each.number == number and type(number) is int:
                return each
        raise InputError("take", str(number)[:40], "the number of a take in the history")

    def number_of(self, shown: ShownTake) -> int:
        """The number of that take in the history; raise PCGError where it is gone."""
        for each in self.history:
            if each.shown == shown:
                return each.number
        raise PCGError(GONE)

    def with_kept(self, number: object, name: str | None = None, pinned: bool | None = None) -> "Session":
        """The session after that take of the history got another `name`, or was `pinned` or let go."""
        old = self.kept(number)
        if name is not None and len(name) > LONGEST_NAME:
            raise InputError("name", f"{len(name)} characters", f"at most {LONGEST_NAME} characters")
        new = replace(old, name=old.name if name is None else name.strip(), pinned=old.pinned if pinned is None else pinned)
        if new.pinned and sum(each.pinned for each in self.history if each is not old) >= REMEMBERED:
            raise PCGError(f"At most {REMEMBERED} takes can be pinned: let one go first.")
        return replace(self, history=_remembered(tuple(new if each is old else each for each in self.history)))

    def holding(self, number: object) -> "Session":
        """The session with that take of the history in hand."""
        return replace(self, held=self.kept(number).number)

    def in_hand(self, key: str) -> ShownTake | None:
        """The take that was taken in hand again; else the first take of the card `key`, or where there is none, that of PCG or
        the newest card; None without any."""
        if self.held is not None:
            return self.kept(self.held).shown
        found = self.cards.get(key) or self.cards.get("pcg") or next(reversed(self.cards.values()), None)
        return found.first if found else None

    def _compared(self, shown: ShownTake, key: str, full_run: bool) -> tuple[float | None, str]:
        """The speed-up over AR's take of the same task, unless a later request outdated it, and what that AR take is."""
        if key == "ar":
            return 1.0, "self"
        ar = self.cards.get("ar")
        own = [] if ar is None or ar.outdated else [other for other in ar.takes if other.baseline == "self"]
        same = next((other.reading for other in own if other.task == shown.task), None)
        return (None, "none") if same is None else (shown.reading.speed_up_over(same), "same run" if full_run else "last run")


def _remembered(history: tuple[Kept, ...]) -> tuple[Kept, ...]:
    """The history without the oldest takes that are not pinned, where there are too many."""
    loose = [each.number for each in history if not each.pinned]
    lost = set(loose[: max(0, len(loose) - REMEMBERED)])
    return tuple(each for each in history if each.number not in lost)
