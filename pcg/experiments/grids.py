"""Grids of utterances, conditions and seeds: the named ones for the papers' tables, and those of a YAML file."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple

import numpy as np
import soundfile
from pydantic import Field

from pcg.errors import AssetError, InputError
from pcg.experiments.unit import Condition, Unit, Utterance
from pcg.groups.swap import Swap
from pcg.metrics.intelligibility import read_sentences
from pcg.recipe import Count, Recipe
from pcg.settings import Settings
from pcg.text.reading import check_text

# The sections of an utterance, each with those of the file of sentences.
SECTIONS = {"everyday": ("everyday",), "balanced": ("balanced", "more-balanced"), "rare": ("rare",), "twisters": ("twisters",)}
SUBSET = "test-clean"
PROMPT_SECONDS, PROMPT_RANGE = 3.0, (2.0, 4.0)

Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


def ar() -> Condition:
    return Condition("AR", Settings("ar"))


def draft() -> Condition:
    """Let the draft speak alone."""
    return Condition("draft alone", Settings("ar"), model="draft")


def sd() -> Condition:
    return Condition("SD", Settings("sd"))


def ssd(beta: float) -> Condition:
    return Condition(f"SSD, beta {beta:g}", Settings("ssd", beta=beta))


def pcg(theta: float) -> Condition:
    return Condition(f"PCG, theta {theta:.3g}", Settings("pcg", theta=theta))


def membership(k: int) -> Condition:
    """Accept what is among the target's top k (LLaSA+)."""
    return Condition(f"target's top {k}", Settings("sd"), rule=f"membership:{k}")


def swapped(theta: float, replacement: str = "group") -> Condition:
    kind = "random swap" if replacement == "random" else "swap"
    return Condition(f"{kind}, theta {theta:.3g}", Settings("ar"), swap=Swap(theta, replacement=replacement))


class Experiment(NamedTuple):
    """A named grid: its title, its conditions, and how many utterances it has, fully and with `quick`."""

    title: str
    conditions: tuple[Condition, ...]
    full: int
    quick: int


_TYPICAL = Condition("typical acceptance", Settings("sd"), rule="typical:.09:.3")
# So far down that PCG's curve reaches the work of SSD at its usual beta.
_MAIN = (ar(), sd(), ssd(0.2), ssd(0.3), pcg(0.4), pcg(0.3), pcg(0.2), membership(50), _TYPICAL)
_MORE = (*map(ssd, (0.1, 0.4, 0.6)), *map(pcg, (0.7, 0.6, 0.5, 0.25)), membership(10))
_SWAPS = tuple(map(swapped, (0.7, 0.6, 0.5, 0.4, 0.3)))
_CONTROLS = tuple(swapped(theta, "random") for theta in (0.5, 0.4, 0.3))
# The voice that the model learned from, as it is and through the codec (needs the teachers, or recordings).
_ORIGINALS = (Condition("original", Settings("ar"), model="original"), Condition("codec alone", Settings("ar"), model="codec"))
EXPERIMENTS = {
    "main": Experiment("AR, SD, SSD and PCG (PCG Table 1)", _MAIN, 200, 6),
    "tradeoff": Experiment("Words against speed (PCG Fig. 3; SSD Tables 1 and 3)", (draft(), *_MAIN, *_MORE), 50, 4),
    "swap": Experiment("Swap test: tokens replaced within their group (PCG Table 2)", (ar(), *_SWAPS, *_CONTROLS), 40, 4),
    "paper": Experiment(
        "The conditions of PCG's Tables 1 and 2 in one run (500 sentences with --libritts, else 200)",
        (*_ORIGINALS, draft(), *_MAIN, *_SWAPS[2:]), 500, 4,
    ),
}  # fmt: skip
SET = tuple(name for name in EXPERIMENTS if name != "paper")


@dataclass(frozen=True)
class Grid:
    """A named set of units; names of conditions differ."""

    name: str
    conditions: tuple[Condition, ...]
    utterances: tuple[Utterance, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        for field in ("conditions", "utterances", "seeds"):
            if not getattr(self, field):
                raise InputError(field, "empty", "at least one")
        for seed in self.seeds:
            Settings(seed=seed)
        names = Counter(condition.name for condition in self.conditions)
        if twice := [name for name, count in names.items() if count > 1]:
            raise InputError("name", twice[0], "that of one condition only")

    def for_draft(self, draft: str, alone: bool = True) -> "Grid":
        """Leave out conditions that a draft of this kind cannot say. alone: whether it can speak without its target."""
        drafts = draft != "none"
        alone = alone and drafts
        possible = (c for c in self.conditions if (drafts or c.settings.method == "ar") and (alone or c.model != "draft"))
        return replace(self, conditions=tuple(possible))

    def over(self, seeds: Sequence[int] = (), count: int | None = None) -> "Grid":
        """Return the grid with these seeds and so many utterances."""
        if count is not None and not 1 <= count <= len(self.utterances):
            raise InputError("count", count, f"a whole number from 1 to {len(self.utterances)}, the utterances of {self.name}")
        return replace(self, utterances=self.utterances[:count], seeds=tuple(seeds) or self.seeds)

    def units(self) -> list[Unit]:
        """Return the units by utterance, then seed, conditions in an order of their own each time: what slows a machine down
        slows all methods."""
        said = [(u, seed, Random(f"{u.text} {seed}")) for u in self.utterances for seed in self.seeds]
        return [Unit(u, c, seed) for u, seed, rng in said for c in rng.sample(self.conditions, len(self.conditions))]


def in_turns(grids: Iterable[Grid]) -> list[Unit]:
    """Return the units of all grids, those of an utterance and seed one after another, as their times are compared."""
    together: dict[tuple[Utterance, int], list[Unit]] = {}
    for unit in (unit for grid in grids for unit in grid.units()):
        together.setdefault((unit.utterance, unit.seed), []).append(unit)
    return [unit for units in together.values() for unit in units]


class ConditionFile(Recipe):
    """A condition in a YAML file, without its settings."""

    name: str = Field(min_length=1)
    model: str = "target"
    rule: str = ""
    swap: Swap | None = None


class GridFile(Recipe):
    """A grid in a YAML file: either `texts`, or `sections` of the evaluation sentences with the `count` to take of each.

    Every voice says every text. A condition has a `name`, any settings but the seed, and `model`, `rule` and `swap` as in
    `Condition`.
    """

    name: str = Field(min_length=1)
    voices: Words
    conditions: tuple[dict[str, Any], ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field((0,), min_length=1)
    texts: Words | None = None
    sections: Words | None = None
    count: Count | None = None


def read_grid(path: Path) -> Grid:
    """Read a grid from a YAML file (`GridFile`); raise InputError for anything else."""
    file = GridFile.read(path, "grid")
    if (file.texts is None) == (file.sections is None):
        raise InputError("texts and sections", "both or neither", "one of the two")
    if file.texts is not None and file.count is not None:
        raise InputError("count", file.count, "left out where texts are given")
    said = [("", check_text(text)) for text in file.texts or ()]
    for section in file.sections or ():
        sentences = read_sentences(section)
        count = file.count or len(sentences)
        if count > len(sentences):
            raise InputError("count", count, f"a whole number from 1 to {len(sentences)}, the sentences of the section")
        said += [(section, sentences[i * len(sentences) // count]) for i in range(count)]
    conditions = []
    for values in file.conditions:
        knobs = {name: value for name, value in values.items() if name in Settings.model_fields and name != "seed"}
        rest = ConditionFile.of({name: value for name, value in values.items() if name not in knobs}, "condition")
        conditions.append(Condition(rest.name, Settings.from_dict(knobs), rest.model, rest.rule, rest.swap))
    utterances = tuple(Utterance(text, voice, section) for section, text in said for voice in file.voices)
    return Grid(file.name, tuple(conditions), utterances, file.seeds)


def declared(name: str, utterances: Sequence[Utterance], quick: bool) -> Grid:
    """Return the grid `name` over the first of `utterances`; `quick` takes few of them."""
    if name not in EXPERIMENTS:
        raise InputError("experiment", name, "one of " + ", ".join(EXPERIMENTS))
    _, conditions, full, few = EXPERIMENTS[name]
    return Grid(name, conditions, tuple(utterances[: few if quick else full]), (0,))


def offline_utterances(count: int, voices: Sequence[str]) -> list[Utterance]:
    """Return the first `count` utterances of the project's test set; a smaller set is the beginning of a larger one.

    Sections take turns, and voices are spread evenly over all utterances and over each section. Raises InputError for more
    utterances than there are sentences, and for no voice.
    """
    sections = [[(section, text) for text in read_sentences(*parts)] for section, parts in SECTIONS.items()]
    sentences = [pair for turn in zip_longest(*sections) for pair in turn if pair]
    if not 1 <= count <= len(sentences):
        raise InputError("count", count, f"a whole number from 1 to {len(sentences)}, the sentences that there are")
    if not voices:
        raise InputError("voices", "empty", "the name of at least one voice")
    spoken: Counter[tuple[str, ...]] = Counter()
    utterances = []
    for section, text in sentences[:count]:
        voice = min(voices, key=lambda name: (spoken[(name,)], spoken[(name, section)]))
        spoken.update([(voice,), (voice, section)])
        utterances.append(Utterance(text, voice, section))
    return utterances


class _Recording(NamedTuple):
    path: Path
    speaker: str
    seconds: float
    text: str


def libritts_utterances(folder: Path, count: int = 500, seed: int = 0) -> list[Utterance]:
    """Return utterances of LibriTTS test-clean, each in the voice of another recording of its speaker (PCG section 3.2).

    folder: LibriTTS, or test-clean itself: SPEAKER/CHAPTER/NAME.wav beside NAME.normalized.txt. The papers do not say which
    500 utterances they took. Here a speaker's prompt is the recording nearest to 3 s, whose text is never said; speakers
    without one of 2 to 4 s and texts that cannot be spoken are left out; the others are drawn by `seed`.

    Raises InputError if the folder is no LibriTTS or has fewer than `count` such utterances, AssetError for a damaged file.
    """
    place = folder / SUBSET if (folder / SUBSET).is_dir() else folder
    recordings, sayable = [], []
    for path in sorted(place.glob("*/*/*.wav")):
        try:
            text = path.with_suffix(".normalized.txt").read_text(encoding="utf-8").strip()
            recordings.append(_Recording(path, path.parts[-3], soundfile.info(path).duration, text))
        except (OSError, ValueError, soundfile.LibsndfileError) as error:
            raise AssetError(f"The recording {path.name} or its .normalized.txt is missing or damaged ({error}).") from error
    if not recordings:
        raise InputError("folder", folder.name, f"a folder of LibriTTS: {SUBSET}/SPEAKER/CHAPTER/NAME.wav")
    short = [r for r in recordings if PROMPT_RANGE[0] <= r.seconds <= PROMPT_RANGE[1]]
    prompts: dict[str, _Recording] = {}
    for recording in sorted(short, key=lambda r: abs(r.seconds - PROMPT_SECONDS)):
        prompts.setdefault(recording.speaker, recording)
    for recording in recordings:
        if recording.speaker in prompts and recording != prompts[recording.speaker]:
            with suppress(InputError):
                check_text(recording.text)
                sayable.append(recording)
    if not 1 <= count <= len(sayable):
        raise InputError("count", count, f"a whole number from 1 to {len(sayable)}, the utterances that {folder.name} has")
    utterances = []
    for i in np.random.default_rng(seed).permutation(len(sayable))[:count]:
        said, prompt = sayable[i], prompts[sayable[i].speaker]
        cloned = {"reference": str(prompt.path), "reference_text": prompt.text, "recording": str(said.path)}
        utterances.append(Utterance(said.text, said.speaker, SUBSET, **cloned))
    return utterances
