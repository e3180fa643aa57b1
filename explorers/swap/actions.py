"""What the Swap panel does: an utterance before and after a swap, a control, and verdicts. Knows nothing of gradio."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

import numpy as np

from explorers.judging import JudgedTake, Judges
from explorers.session import Session, ShownTake, TakeView
from explorers.shared.waiting import while_waiting
from pcg.analysis.swap import Swap, Swapped, mel_distance, same_size_theta, swap, swap_coins
from pcg.errors import InputError, PCGError
from pcg.experiments.worker import Worker, WorkerSpec
from pcg.metrics.intelligibility import comparable
from pcg.metrics.recording import Recording, Sample
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Speak, last_take
from pcg.text.prompt import Reference
from pcg.text.reading import check_text

SOURCES = ("last", "hand", "text")
CONTROLS = ("random", "mel", "none")
ORIGINAL, SWAPPED, CONTROL = VERSIONS = ("original", "swapped", "control")
NO_TAKE = "There is no take yet. Generate one under Listen, or choose a new text here."
NOTE = "One utterance proves nothing. Over many utterances, with intervals: python -m pcg swap."


@dataclass(frozen=True)
class SwapRequest:
    """The values of the controls, in their order. source: "last", what AR said in the last run; "hand", the take in hand; or
    "text", in which case the target speaks `text` in `voice`. control: "random", other codes at the same places, "mel", a swap
    within Mel groups of equal mean size, or "none". seed: of the swap and of a new text; temperature: of a new text."""

    source: str
    text: str
    voice: str
    theta: float
    similarity: str
    fraction: float
    control: str
    seed: int
    temperature: float = Settings().temperature

    def __post_init__(self) -> None:
        for name, allowed in (("source", SOURCES), ("control", CONTROLS)):
            if getattr(self, name) not in allowed:
                raise InputError(name, getattr(self, name), "one of " + ", ".join(allowed))
        if self.control == self.similarity:
            raise InputError("control", self.control, "different from the similarity")
        Settings(seed=self.seed, temperature=self.temperature)  # or its InputError

    @property
    def settings(self) -> Settings:
        """The settings for a new text, by the target alone."""
        return Settings("ar", seed=self.seed, temperature=self.temperature)

    def swaps(self, synthesizer: Synthesizer) -> dict[str, Swap]:
        """The swap, and that of the control, if one was asked for."""
        swapped = Swap(self.theta, self.similarity, fraction=self.fraction)
        if self.control == "none":
            return {SWAPPED: swapped}
        if self.control == "random":
            return {SWAPPED: swapped, CONTROL: replace(swapped, replacement="random")}
        theta = same_size_theta(synthesizer.library, self.theta, self.control, self.similarity)
        return {SWAPPED: swapped, CONTROL: replace(swapped, theta=theta, similarity=self.control)}


@dataclass(frozen=True, eq=False)
class Original:
    """The utterance before the swap. cut: it ran to the limit of its length, and its text may not end."""

    text: str
    method: str
    voice: str
    tokens: tuple[int, ...]
    speaker: Reference = field(repr=False)
    cut: bool = False


@dataclass(frozen=True, eq=False)
class Version:
    """The utterance before or after a swap, and its sound `samples [N]`. swap: None for the original, whose `swapped` has the
    candidates and sizes of the groups that were asked for. verdict and mel_distance (to the original, in dB): None until both
    are known."""

    name: str
    swap: Swap | None
    swapped: Swapped
    samples: np.ndarray = field(repr=False)
    sample_rate: int
    verdict: JudgedTake | None = None
    mel_distance: float | None = None

    @property
    def figures(self) -> dict[str, float | None]:
        """A row of the paper's Table 2: None where a figure has no meaning, or is not judged yet."""
        inside = self.swap is not None and self.swap.replacement == "group"
        shape = {"mean_group_size": self.swapped.mean_group_size if inside else None, "swapped": self.swapped.share}
        if self.verdict is None:
            return shape | dict.fromkeys(("wer", "cer", "similarity", "dnsmos", "mel_distance"))
        judged = {name: getattr(self.verdict, name) for name in ("similarity", "dnsmos")} | {"mel_distance": self.mel_distance}
        return shape | {"wer": self.verdict.words.rate, "cer": self.verdict.characters.rate} | judged

    def record(self) -> dict[str, object]:
        return {
            "swap": self.swap and asdict(self.swap),
            "tokens": list(self.swapped.tokens),
            "positions": list(self.swapped.positions),
            "heard": self.verdict and self.verdict.heard,
            **{name: _rounded(value) for name, value in self.figures.items()},
        }


@dataclass(frozen=True, eq=False)
class StressTest:
    """The progress of a stress test: `now` is the current step, "" at the end. versions: none, then without verdicts, then
    with them; judges: the name of the judge of each figure."""

    now: str
    original: Original | None = None
    versions: tuple[Version, ...] = ()
    judges: Mapping[str, str] = field(default_factory=dict)

    def differences(self, version: Version) -> dict[str, float | None]:
        """The figures of `version` less those of the original."""
        before = self.versions[0].figures
        pairs = {name: (value, before[name]) for name, value in version.figures.items()}
        return {name: None if None in pair else pair[0] - pair[1] for name, pair in pairs.items()}

    def record(self) -> dict[str, object]:
        """Ready for JSON."""
        assert self.original is not None
        said = {name: getattr(self.original, name) for name in ("text", "method", "voice")}
        changes = {v.name: {name: _rounded(value) for name, value in self.differences(v).items()} for v in self.versions[1:]}
        found = {"versions": {v.name: v.record() for v in self.versions}, "differences": changes}
        return {**said, **found, "judges": dict(self.judges), "note": NOTE}


def stress(
    synthesizer: Synthesizer,
    load_judges: Callable[[], Judges],
    request: SwapRequest,
    session: Session,
    card: str = "pcg",
    speak: Speak | None = None,
) -> Iterator[StressTest]:
    """Swap one utterance, and judge it beside the original and the control; `load_judges` is called when the sounds are there.
    card: the one whose take is in hand (see `Session.in_hand`). speak: that of the synthesizer, or of a service that others
    speak by, too.

    Closing the generator stops the work after the step that it is at.
    """
    shown = (yield from _spoken(synthesizer, request, speak)) if request.source == "text" else _in_hand(request, session, card)
    original = _original(synthesizer, shown)
    yield StressTest("Finding groups and swapping.", original)
    versions = _versions(synthesizer, request, original)
    heard = StressTest("Judging.", original, versions)
    yield heard
    judges = load_judges()
    names = {**judges.names("the original"), "Mel distance": "mean absolute difference of log-mels to the original"}
    yield replace(heard, now="", versions=_judged(judges, original.text, versions), judges=names)


def _judged(judges: Judges, text: str, versions: Sequence[Version]) -> tuple[Version, ...]:
    sounds, rate = [v.samples for v in versions], versions[0].sample_rate
    verdicts = judges.verdicts([Sample(samples, rate, text, Recording(sounds[0], rate)) for samples in sounds])
    distances = [mel_distance(samples, sounds[0], rate) for samples in sounds]
    judged = zip(versions, verdicts, distances, strict=True)
    return tuple(replace(v, verdict=verdict, mel_distance=distance) for v, verdict, distance in judged)


def _spoken(synthesizer: Synthesizer, request: SwapRequest, speak: Speak | None) -> Generator[StressTest, None, ShownTake]:
    """The new text, as the target alone says it."""
    yield StressTest("Generating the text with the target.")
    text = check_text(request.text)
    _check_words(text)
    with closing((speak or synthesizer.speak)(text, request.settings, request.voice)) as events:
        for queued in while_waiting(events, synthesizer):
            yield StressTest(queued)
        return ShownTake(TakeView.of(last_take(events)))


def _in_hand(request: SwapRequest, session: Session, card: str) -> ShownTake | None:
    return said_by_target(session) if request.source == "last" else session.in_hand(card)


def _original(synthesizer: Synthesizer, shown: ShownTake | None) -> Original:
    if shown is None or not shown.reading.tokens:
        raise PCGError(NO_TAKE)
    reading = shown.reading
    _check_words(reading.text)
    speaker = shown.speaker(synthesizer.voice.references)
    return Original(reading.text, reading.method, reading.voice, reading.tokens, speaker, reading.hit_limit)


def said_by_target(session: Session) -> ShownTake | None:
    """What the last run said, by the target alone if that is in it: the paper's test starts there."""
    last, alone = replace(session, held=None).in_hand("pcg"), session.cards.get("ar")
    return alone.first if last and alone and alone.first.task == last.task else last


def _check_words(text: str) -> None:
    if not comparable(text):
        raise InputError("text", text, "a text with at least one word")


def _versions(synthesizer: Synthesizer, request: SwapRequest, original: Original) -> tuple[Version, ...]:
    rate, usable = synthesizer.voice.codec.sample_rate, synthesizer.voice.usage > 0
    made: dict[str, tuple[Swap | None, Swapped]] = {}
    for name, how in request.swaps(synthesizer).items():
        groups = synthesizer.groups(how.theta, how.similarity)
        # The same coins for the swap and its control, so that they differ in nothing else.
        made[name] = how, swap(original.tokens, groups, how, usable, swap_coins(request.settings.seed))
    untouched = replace(made[SWAPPED][1], tokens=original.tokens, positions=())
    return tuple(
        Version(name, how, found, synthesizer.decode(list(found.tokens), original.speaker), rate)
        for name, (how, found) in {ORIGINAL: (None, untouched), **made}.items()
    )


class LastingWorker(WorkerSpec):
    """A spec whose worker is loaded once, for a page that runs for weeks: a worker is a voice and three judges."""

    @cached_property
    def _worker(self) -> Worker:
        return Worker(self)

    def load(self) -> Worker:
        return self._worker


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
