"""What the Listening test panel does: takes, sounds, votes and the result. Knows nothing of gradio.

What a `BlindTest` holds stays on the server; `question` and `sounds` are all that a listener gets before the last vote.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from explorers.judging import Judges
from explorers.listening.blind_test import NOT_OVER, BlindTest, Judgement
from explorers.session import Session, TakeView
from explorers.shared.readout import KNOBS
from explorers.shared.waiting import while_waiting
from pcg.audio import write_wav
from pcg.errors import InputError, PCGError
from pcg.experiments.listening_tests import ANCHOR, Design, Plan, as_csv, check_vote, dithered, draw_plan, low_anchor, matched
from pcg.files import replacing, write_json
from pcg.metrics.intelligibility import comparable, read_sentences
from pcg.metrics.recording import Recording, Sample
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Speak, last_take
from pcg.text.reading import check_text

SOURCES = ("evaluation", "own")
NO_TEST = "There is no test: prepare one first."
MOST_LINES, MOST_ASKED, MOST_KEPT = 60, 30, 80
NO_TAKE = "There are no takes yet. Generate some under Listen to store their settings here."

Kept = Mapping[str, Settings]


@dataclass(frozen=True)
class ListeningRequest:
    """The values of the controls, in their order. compared: names of methods, at these knobs, and of kept settings. source:
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
    similarity: str = Settings().similarity

    def settings(self, method: str) -> Settings:
        knobs = {name: getattr(self, name) for name in ("theta", "similarity", "lookahead", "beta", "temperature", "seed")}
        return Settings(method, **knobs)

    def systems(self, kept: Kept) -> dict[str, Settings]:
        """The settings of all that is compared, by name, in a fixed order."""
        methods = {method.upper(): self.settings(method) for method in METHODS}
        known = {**methods, **kept, **methods}
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
        """The texts of the test; raise InputError for a line that judges cannot check, or that is too long for a trial."""
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
        raise InputError("text", text[:60], "at most about ten seconds of speech: longer sounds are hard to compare")
    return text


def name_of(settings: Settings) -> str:
    """A method by its own knobs, and by what else is not as usual."""
    knobs = [f"{knob} {getattr(settings, knob):g}" for knob in (*KNOBS[settings.method], "temperature")]
    usual = Settings()
    others = [f"by {settings.similarity}"] if settings.method == "pcg" and settings.similarity != usual.similarity else []
    if settings.method != "ar":
        others += ["adaptive"] if settings.adaptive else []
        others += [f"lookahead cost {settings.lookahead_cost:g}"] if settings.lookahead_cost else []
        others += ["block verification"] if settings.verification == "block" else []
    others += [settings.sampler.upper()] if settings.sampler != usual.sampler else []
    numbers = ("top_k", "top_p", "repetition_penalty")
    others += [f"{n.replace('_', ' ')} {getattr(settings, n):g}" for n in numbers if getattr(settings, n) != getattr(usual, n)]
    others += ["beams"] if settings.hierarchical else []
    return " · ".join([settings.method.upper(), *knobs, *others])


def keep(kept: Kept, settings: Sequence[Settings]) -> dict[str, Settings]:
    """`kept` and `settings` by their names, which hold every setting but the seed."""
    together = {**kept, **{name_of(each): each for each in settings}}
    if len(together) > MOST_KEPT:
        raise InputError("number of stored settings", len(together), f"at most {MOST_KEPT}")
    return together


def last_settings(session: Session) -> list[Settings]:
    """Those of the takes that the page shows; raise PCGError if there is none."""
    if not session.cards:
        raise PCGError(NO_TAKE)
    return [session.cards[method].reading.settings for method in METHODS if method in session.cards]


@dataclass(frozen=True)
class Preparing:
    """How far the takes are: `done` of `count`. The system of the next take stays secret. waits: what to tell a visitor whose
    take waits for those of others, "" while it is decoded."""

    done: int
    count: int
    waits: str = ""


def prepare(
    synthesizer: Synthesizer, request: ListeningRequest, kept: Kept, speak: Speak | None = None
) -> Iterator[Preparing | BlindTest]:
    """Draw the test, decode every take of it, and yield the BlindTest last. Closing the generator stops the work.
    speak: that of the synthesizer, or of a service that others speak by, too."""
    texts, systems = request.texts(synthesizer), request.systems(kept)
    plan = request.plan(tuple(systems), len(texts))
    synthesizer.voice.reference(request.voice)
    takes: list[dict[str, TakeView]] = []
    for trial in plan.trials:
        takes.append({})
        for name, settings in systems.items():
            so_far = Preparing(len(takes) * len(systems) - len(systems) + len(takes[-1]), len(plan.trials) * len(systems))
            yield so_far
            own = settings.with_(seed=trial.seed)
            with closing((speak or synthesizer.speak)(texts[trial.item], own, request.voice)) as said:
                for queued in while_waiting(said, synthesizer):
                    yield replace(so_far, waits=queued)
                takes[-1][name] = TakeView.of(last_take(said))
    yield BlindTest(plan, tuple(texts), request.voice, systems, tuple(takes))


def question(blind_test: BlindTest) -> dict[str, object]:
    """What the listener may know of the current trial, ready for JSON."""
    if blind_test.over:
        return {"number": None, "count": len(blind_test.plan.trials), "told": "The test is over. Results below."}
    plan, number = blind_test.plan, len(blind_test.votes)
    asked = {"number": number + 1, "count": len(plan.trials), "kind": plan.design.kind, "letters": list(plan.design.letters)}
    return asked | {"text": blind_test.texts[plan.trials[number].item]}


def sounds(synthesizer: Synthesizer, blind_test: BlindTest, noise: np.random.Generator) -> list[np.ndarray]:
    """The sound behind each letter of that trial, int16 `[N]`: equally loud, equally long, and no two copies the same bytes."""
    design, trial = blind_test.plan.design, blind_test.plan.trials[len(blind_test.votes)]
    rate = synthesizer.voice.codec.sample_rate
    found = {name: sound_of(synthesizer, blind_test, len(blind_test.votes), name) for name in blind_test.systems}
    if design.anchor:
        found[ANCHOR] = low_anchor(found[str(design.reference)], rate)
    level = dict(zip(found, matched(list(found.values()), rate), strict=True))
    return [dithered(level[name], noise) for name in trial.systems]


def sound_of(synthesizer: Synthesizer, blind_test: BlindTest, trial: int, name: str) -> np.ndarray:
    """A take's samples `[N]` again, from its tokens."""
    speaker = synthesizer.voice.reference(blind_test.voice)
    return synthesizer.decode(list(blind_test.takes[trial][name].tokens), speaker)


def write_sounds(synthesizer: Synthesizer, folder: Path, blind_test: BlindTest, noise: np.random.Generator) -> list[Path]:
    """`sounds` as files that are named by their letters."""
    paths = [folder / f"{letter}.wav" for letter in blind_test.plan.design.letters]
    for path, samples in zip(paths, sounds(synthesizer, blind_test, noise), strict=True):
        write_wav(path, samples, synthesizer.voice.codec.sample_rate)
    return paths


def vote(blind_test: BlindTest | None, number: object, answer: object, plays: object) -> BlindTest:
    """The blind_test with one vote more. number: of the trial that it is for, from 1, so that none is counted twice."""
    if blind_test is None:
        raise PCGError(NO_TEST)
    if blind_test.over:
        raise PCGError("The test is over and accepts no more votes.")
    if number != len(blind_test.votes) + 1:
        raise InputError("trial", number, f"{len(blind_test.votes) + 1}, the current trial")
    return replace(blind_test, votes=(*blind_test.votes, check_vote(blind_test.plan.design, answer, plays)))


def end(blind_test: BlindTest | None) -> BlindTest:
    """The blind_test with the votes that it has, and no more to come."""
    if blind_test is None:
        raise PCGError(NO_TEST)
    return replace(blind_test, ended=True)


def judge(synthesizer: Synthesizer, load_judges: Callable[[], Judges], blind_test: BlindTest | None) -> Iterator[BlindTest]:
    """Judge all takes of a finished test, system by system; `load_judges` is called when there is something to judge."""
    if blind_test is None:
        raise PCGError(NO_TEST)
    if not blind_test.over:
        raise PCGError(NOT_OVER)
    speaker, rate = synthesizer.voice.reference(blind_test.voice), synthesizer.voice.codec.sample_rate
    reference, judges = Recording(synthesizer.decode(speaker.codes.tolist(), speaker), rate), load_judges()
    for name in blind_test.systems:
        batch = [
            Sample(sound_of(synthesizer, blind_test, i, name), rate, blind_test.texts[trial.item], reference)
            for i, trial in enumerate(blind_test.plan.trials)
        ]
        judged = {**blind_test.judged, name: Judgement.of(judges.verdicts(batch))}
        blind_test = replace(blind_test, judged=judged, judges=judges.names("the voice's reference"))
        yield blind_test


def export(folder: Path, blind_test: BlindTest | None) -> list[Path]:
    """Write `listening-test.json` and `listening-test.csv` into `folder`; refused before the test is over."""
    if blind_test is None:
        raise PCGError(NO_TEST)
    json_path, csv_path = folder / "listening-test.json", folder / "listening-test.csv"
    write_json(json_path, blind_test.record())
    with replacing(csv_path) as temporary:
        temporary.write_text(as_csv(blind_test.plan, blind_test.texts, blind_test.votes), encoding="utf-8")
    return [json_path, csv_path]
