"""What the page does when asked for a listening test: takes, sounds, votes and the reveal. Knows nothing of gradio.

What a `Sitting` holds stays on the server; `question` and `sounds` are all that a listener gets before the last vote.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from explorers.judging import Ears, Verdict
from explorers.session import Reading, Session
from explorers.shared.readout import KNOBS
from pcg.audio import write_wav
from pcg.errors import InputError, PCGError
from pcg.experiments.listening_tests.design import ANCHOR, Design, Plan, Vote, check_vote, draw_plan
from pcg.experiments.listening_tests.loudness import dithered, low_anchor, matched
from pcg.experiments.listening_tests.outcome import Outcome, outcome
from pcg.experiments.listening_tests.record import as_csv, as_dict
from pcg.files import replacing, write_json
from pcg.metrics.estimate import Estimate, bootstrap
from pcg.metrics.intelligibility import comparable, pooled
from pcg.metrics.metric import Sample
from pcg.metrics.recording import Recording
from pcg.metrics.sentences import read_sentences
from pcg.prompts.text import check_text
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer

SOURCES = ("evaluation", "own")
MOST_LINES, MOST_ASKED, MOST_KEPT = 60, 30, 20
NO_TEST = "There is no test: prepare one first."
NOT_OVER = "The test is not over: vote on, or end it here."
UNSAID = "Nothing has been said yet: say a text under Compare, and its settings can be kept here."

Kept = Mapping[str, Settings]


@dataclass(frozen=True)
class Request:
    """What the panel's controls say, in their order. compared: names of methods, at these knobs, and of kept settings. source:
    "evaluation" sentences or "own" `lines`, one text each."""

    design: str
    compared: Sequence[str]
    reference: str | None
    anchor: bool
    source: str
    lines: str
    trials: int
    voice: str
    theta: float
    lookahead: int
    beta: float
    temperature: float
    seed: int

    def settings(self, method: str) -> Settings:
        return Settings(method, self.theta, self.lookahead, self.beta, self.temperature, self.seed)

    def systems(self, kept: Kept) -> dict[str, Settings]:
        """The settings of all that is compared, by name, in a fixed order."""
        known = {method.upper(): self.settings(method) for method in METHODS} | dict(kept)
        for name in self.compared or ():
            if name not in known:
                raise InputError("what is compared", name, "one of " + ", ".join(known))
        return {name: known[name] for name in known if name in (self.compared or ())}

    def plan(self, systems: Sequence[str], texts: int) -> Plan:
        rated = self.design == "rating"
        design = Design(self.design, tuple(systems), self.reference if rated else None, bool(self.anchor) and rated)
        if isinstance(self.trials, int | float) and self.trials > MOST_ASKED:
            raise InputError("number of trials", self.trials, f"a whole number from 1 to {MOST_ASKED}")
        return draw_plan(design, texts, self.trials, self.settings("ar").seed)

    def texts(self, synthesizer: Synthesizer) -> list[str]:
        """What may be said; raise InputError for a line that judges could not check, or that is too long for a trial."""
        if self.source not in SOURCES:
            raise InputError("texts", self.source, "one of " + ", ".join(SOURCES))
        if self.source == "evaluation":
            return read_sentences()
        lines = [line.strip() for line in (self.lines or "").splitlines() if line.strip()]
        if not 1 <= len(lines) <= MOST_LINES:
            raise InputError("number of lines", len(lines), f"1 to {MOST_LINES}")
        return [_checked(synthesizer, line) for line in lines]


def _checked(synthesizer: Synthesizer, line: str) -> str:
    text = check_text(line)
    if not comparable(text):
        raise InputError("text", text, "a text with at least one word")
    if len(synthesizer.chunks(text)) > 1:
        raise InputError("text", text[:60], "at most about ten seconds of speech: longer sounds are hard to keep in mind")
    return text


def name_of(settings: Settings) -> str:
    """A method by its own knobs."""
    knobs = [f"{knob} {getattr(settings, knob):g}" for knob in (*KNOBS[settings.method], "temperature")]
    usual = Settings()
    others = [f"by {settings.similarity}"] if settings.method == "pcg" and settings.similarity != usual.similarity else []
    others += ["adaptive"] if settings.adaptive and settings.method != "ar" else []
    return " · ".join([settings.method.upper(), *knobs, *others])


def keep(kept: Kept, settings: Sequence[Settings]) -> dict[str, Settings]:
    """`kept` and `settings` by their names, which hold all that tells them apart but the seed."""
    together = {**kept, **{name_of(each): each for each in settings}}
    if len(together) > MOST_KEPT:
        raise InputError("number of kept settings", len(together), f"at most {MOST_KEPT}")
    return together


def last_settings(session: Session) -> list[Settings]:
    """Those of the takes that the page shows; raise PCGError if there is none."""
    if not session.cards:
        raise PCGError(UNSAID)
    return [session.cards[method].reading.settings for method in METHODS if method in session.cards]


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
    def of(cls, verdicts: Sequence[Verdict]) -> "Judgement":
        """The figures over what was said of one system's takes, with intervals over them."""
        return cls(
            len(verdicts),
            pooled([verdict.words for verdict in verdicts]),
            pooled([verdict.characters for verdict in verdicts]),
            bootstrap([verdict.similarity for verdict in verdicts]),
            bootstrap([verdict.dnsmos for verdict in verdicts]),
        )


@dataclass(frozen=True, eq=False)
class Sitting:
    """A test and how far it has come. takes: for each trial, each system's take without its sound. ended: before its last vote.
    judged: figures by system, and `judges`, who gave them."""

    plan: Plan
    texts: tuple[str, ...]
    voice: str
    systems: Mapping[str, Settings]
    takes: tuple[Mapping[str, Reading], ...] = field(repr=False)
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
        yardstick = next((other for other, settings in self.systems.items() if settings.method == "ar"), None)
        of_ar = self._rate(yardstick) if yardstick else None
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
        rows = {name: {**_own_knobs(settings), "temperature": settings.temperature} for name, settings in self.systems.items()}
        knobs = dict.fromkeys(knob for row in rows.values() for knob in row)
        table = {knob: {name: row.get(knob) for name, row in rows.items()} for knob in knobs}
        return {knob: row for knob, row in table.items() if len(set(map(str, row.values()))) > 1}

    def record(self) -> dict[str, object]:
        """Everything, ready for JSON; refused before the test is over."""
        if not self.over:
            raise PCGError(NOT_OVER)
        told = {
            name: {
                # The seed is that of each trial.
                "settings": {knob: value for knob, value in settings.as_dict().items() if knob != "seed"},
                **self.speeds(name),
                "judged": asdict(self.judged[name]) if name in self.judged else None,
            }
            for name, settings in self.systems.items()
        }
        found = as_dict(self.plan, self.texts, self.votes, told)
        return found | {"voice": self.voice, "judges": dict(self.judges)}


def _own_knobs(settings: Settings) -> dict[str, object]:
    values = {"method": settings.method.upper(), **{knob: getattr(settings, knob) for knob in KNOBS[settings.method]}}
    if settings.method == "pcg":
        values["similarity"] = settings.similarity
    return values if settings.method == "ar" else values | {"adaptive": settings.adaptive}


@dataclass(frozen=True)
class Preparing:
    """How far the takes are: `done` of `count`. Whose take comes next is not told."""

    done: int
    count: int


def prepare(synthesizer: Synthesizer, request: Request, kept: Kept) -> Iterator[Preparing | Sitting]:
    """Draw the test, decode every take of it, and yield the Sitting last. Closing the generator stops the work."""
    texts, systems = request.texts(synthesizer), request.systems(kept)
    plan = request.plan(tuple(systems), len(texts))
    synthesizer.voice.reference(request.voice)
    takes: list[dict[str, Reading]] = []
    for trial in plan.trials:
        takes.append({})
        for name, settings in systems.items():
            yield Preparing(len(takes) * len(systems) - len(systems) + len(takes[-1]), len(plan.trials) * len(systems))
            take = synthesizer.take(texts[trial.item], settings.with_(seed=trial.seed), request.voice)
            takes[-1][name] = Reading.of(take)
    yield Sitting(plan, tuple(texts), request.voice, systems, tuple(takes))


def question(sitting: Sitting) -> dict[str, object]:
    """What the listener is told of the trial that waits for its vote, ready for JSON."""
    if sitting.over:
        return {"number": None, "count": len(sitting.plan.trials), "told": "The test is over: who was who stands below."}
    plan, number = sitting.plan, len(sitting.votes)
    told = {"number": number + 1, "count": len(plan.trials), "kind": plan.design.kind, "letters": list(plan.design.letters)}
    return told | {"text": sitting.texts[plan.trials[number].item]}


def sounds(synthesizer: Synthesizer, sitting: Sitting, noise: np.random.Generator) -> list[np.ndarray]:
    """The sound behind each letter of that trial, int16 `[N]`: equally loud, equally long, and no two copies the same bytes."""
    design, trial = sitting.plan.design, sitting.plan.trials[len(sitting.votes)]
    rate = synthesizer.voice.codec.sample_rate
    found = {name: sound_of(synthesizer, sitting, len(sitting.votes), name) for name in sitting.systems}
    if design.anchor:
        found[ANCHOR] = low_anchor(found[str(design.reference)], rate)
    level = dict(zip(found, matched(list(found.values()), rate), strict=True))
    return [dithered(level[name], noise) for name in trial.systems]


def sound_of(synthesizer: Synthesizer, sitting: Sitting, trial: int, name: str) -> np.ndarray:
    """A take's samples `[N]` again, from its tokens."""
    speaker = synthesizer.voice.reference(sitting.voice)
    return synthesizer.decode(list(sitting.takes[trial][name].tokens), speaker)


def write_sounds(synthesizer: Synthesizer, folder: Path, sitting: Sitting, noise: np.random.Generator) -> list[Path]:
    """`sounds` as files that are named by their letters."""
    paths = [folder / f"{letter}.wav" for letter in sitting.plan.design.letters]
    for path, samples in zip(paths, sounds(synthesizer, sitting, noise), strict=True):
        write_wav(path, samples, synthesizer.voice.codec.sample_rate)
    return paths


def vote(sitting: Sitting | None, number: object, answer: object, plays: object) -> Sitting:
    """The sitting with one vote more. number: of the trial that it is for, from 1, so that none is counted twice."""
    if sitting is None:
        raise PCGError(NO_TEST)
    if sitting.over:
        raise PCGError("The test is over, and takes no more votes.")
    if number != len(sitting.votes) + 1:
        raise InputError("trial", number, f"{len(sitting.votes) + 1}, which waits for its vote")
    return replace(sitting, votes=(*sitting.votes, check_vote(sitting.plan.design, answer, plays)))


def end(sitting: Sitting | None) -> Sitting:
    """The sitting with the votes that it has, and no more to come."""
    if sitting is None:
        raise PCGError(NO_TEST)
    return replace(sitting, ended=True)


def judge(synthesizer: Synthesizer, ears: Callable[[], Ears], sitting: Sitting | None) -> Iterator[Sitting]:
    """Let the judges hear all takes of a finished test, system by system; `ears` is called once there is something to hear."""
    if sitting is None:
        raise PCGError(NO_TEST)
    if not sitting.over:
        raise PCGError(NOT_OVER)
    speaker, rate = synthesizer.voice.reference(sitting.voice), synthesizer.voice.codec.sample_rate
    reference, judges = Recording(synthesizer.decode(speaker.codes.tolist(), speaker), rate), ears()
    for name in sitting.systems:
        batch = [
            Sample(sound_of(synthesizer, sitting, i, name), rate, sitting.texts[trial.item], reference)
            for i, trial in enumerate(sitting.plan.trials)
        ]
        judged = {**sitting.judged, name: Judgement.of(judges.verdicts(batch))}
        sitting = replace(sitting, judged=judged, judges=judges.names("the voice's reference"))
        yield sitting


def export(folder: Path, sitting: Sitting | None) -> list[Path]:
    """Write `listening-test.json` and `listening-test.csv` into `folder`; refused before the test is over."""
    if sitting is None:
        raise PCGError(NO_TEST)
    json_path, csv_path = folder / "listening-test.json", folder / "listening-test.csv"
    write_json(json_path, sitting.record())
    with replacing(csv_path) as temporary:
        temporary.write_text(as_csv(sitting.plan, sitting.texts, sitting.votes), encoding="utf-8")
    return [json_path, csv_path]
