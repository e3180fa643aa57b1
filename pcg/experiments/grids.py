"""Grids of utterances, conditions and seeds: the named ones for the papers' tables, and those of a YAML file."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import soundfile
from pydantic import Field

from pcg.analysis.swap import Swap
from pcg.errors import AssetError, InputError
from pcg.experiments.results import CONTROL
from pcg.experiments.unit import RECORDED, Condition, Unit, Utterance
from pcg.metrics.intelligibility import read_sentences
from pcg.recipe import Count, Recipe
from pcg.settings import METHODS, Settings
from pcg.text.reading import check_text

# Methods by the kinds of drafts that are no models.
METHODS_OF = {"none": ("ar",)}
THETAS = (0.5, 0.4, 0.3)
# So far down that PCG's curve reaches the work of SSD at its usual beta.
MAIN_THETAS = (0.4, 0.3, 0.2)
MIDDLE_THETA, MAIN_BETA = 0.4, 0.3
TEMPERATURES = (0.6, 0.8, 1.0)
LOOKAHEADS = (1, 2, 4, 5, 6, 7, 8)
GROUP_NAMES = {"mel": "Mel"}
# The sections of an utterance, each with those of the file of sentences.
SECTIONS = {
    "everyday": ("everyday",),
    "balanced": ("balanced", "more-balanced"),
    "rare": ("rare",),
    "twisters": ("twisters",),
}
SUBSET = "test-clean"
PROMPT_SECONDS, PROMPT_RANGE = 3.0, (2.0, 4.0)

ThetaFor = Callable[[str, float], float]
Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


@dataclass(frozen=True)
class Grid:
    """A named set of units; names of conditions differ."""

    name: str
    title: str
    conditions: tuple[Condition, ...]
    utterances: tuple[Utterance, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        for field in ("conditions", "utterances", "seeds"):
            if not getattr(self, field):
                raise InputError(field, "empty", "at least one")
        for seed in self.seeds:
            Settings(seed=seed)
        names = [condition.name for condition in self.conditions]
        for name in names:
            if names.count(name) > 1:
                raise InputError("name", name, "that of one condition only")

    def for_draft(self, draft: str, alone: bool = True) -> "Grid":
        """Leave out conditions that a draft of this kind cannot say. alone: whether it can speak without its target."""
        methods, alone = METHODS_OF.get(draft, METHODS), alone and draft not in METHODS_OF
        possible = (c for c in self.conditions if c.settings.method in methods and (alone or c.model != "draft"))
        return replace(self, conditions=tuple(possible))

    def over(self, seeds: Sequence[int] = (), temperature: float | None = None, count: int | None = None) -> "Grid":
        """Return the grid with these seeds, this temperature where a condition has the usual one, and so many utterances."""
        if count is not None and not 1 <= count <= len(self.utterances):
            raise InputError("count", count, f"a whole number from 1 to {len(self.utterances)}, the utterances of {self.name}")
        moved = self.conditions if temperature is None else tuple(at_temperature(each, temperature) for each in self.conditions)
        return replace(self, conditions=moved, utterances=self.utterances[:count], seeds=tuple(seeds) or self.seeds)

    def units(self) -> list[Unit]:
        """Return the units by utterance, then seed, then condition: a machine that slows down slows all methods."""
        return [Unit(u, condition, seed) for u in self.utterances for seed in self.seeds for condition in self.conditions]


def at_temperature(condition: Condition, temperature: float) -> Condition:
    """Return `condition` at `temperature` if it has the usual one, with the temperature in its name."""
    if condition.settings.temperature != Settings().temperature or temperature == Settings().temperature:
        return condition
    settings = condition.settings.with_(temperature=temperature)
    name = condition.name if condition.model in RECORDED else f"{condition.name}, temperature {temperature:g}"
    return replace(condition, name=name, settings=settings)


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
    title: str = ""
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
    texts = [("", check_text(text)) for text in file.texts or ()]
    texts += [(section, text) for section in file.sections or () for text in _spread(read_sentences(section), file.count)]
    utterances = tuple(Utterance(text, voice, section) for section, text in texts for voice in file.voices)
    conditions = tuple(_condition(values) for values in file.conditions)
    return Grid(file.name, file.title or file.name, conditions, utterances, file.seeds)


def _spread(sentences: Sequence[str], count: int | None) -> list[str]:
    """Return `count` of the sentences, spread evenly over them."""
    count = len(sentences) if count is None else count
    if count > len(sentences):
        raise InputError("count", count, f"a whole number from 1 to {len(sentences)}, the sentences of the section")
    return [sentences[i * len(sentences) // count] for i in range(count)]


def _condition(values: dict[str, Any]) -> Condition:
    knobs = {name: value for name, value in values.items() if name in Settings.model_fields and name != "seed"}
    file = ConditionFile.of({name: value for name, value in values.items() if name not in knobs}, "condition")
    return Condition(file.name, Settings.from_dict(knobs), file.model, file.rule, file.swap)


def ar() -> Condition:
    return Condition("AR", Settings("ar"))


def draft() -> Condition:
    """Let the draft speak alone."""
    return Condition("draft alone", Settings("ar"), model="draft")


def sd(**knobs: float) -> Condition:
    return Condition("SD" + _lookahead_name(knobs), Settings("sd", **knobs))


def ssd(beta: float, **knobs: float) -> Condition:
    return Condition(f"SSD, beta {beta:g}" + _lookahead_name(knobs), Settings("ssd", beta=beta, **knobs))


def pcg(theta: float, similarity: str = "cosine", **knobs: float) -> Condition:
    kind = f"PCG {GROUP_NAMES[similarity]}" if similarity in GROUP_NAMES else "PCG"
    name = f"{kind}, theta {theta:.3g}" + _lookahead_name(knobs)
    return Condition(name, Settings("pcg", theta=theta, similarity=similarity, **knobs))


def blockwise(method: str, **knobs: float) -> Condition:
    """Block verification (arXiv 2403.10444)."""
    return Condition(f"{method.upper()} block{_theta_name(knobs)}", Settings(method, verification="block", **knobs))


def adaptive(method: str, **knobs: float) -> Condition:
    """Adaptive drafting."""
    return Condition(f"{method.upper()} adaptive{_theta_name(knobs)}", Settings(method, adaptive=True, **knobs))


def membership(k: int) -> Condition:
    """Accept what is among the target's top k (LLaSA+)."""
    return Condition(f"target's top {k}", Settings("sd"), rule=f"membership:{k}")


def typical() -> Condition:
    """Typical acceptance (Medusa)."""
    return Condition("typical acceptance", Settings("sd"), rule="typical:.09:.3")


def swapped(theta: float, similarity: str = "cosine", replacement: str = "group") -> Condition:
    kind = "random swap" if replacement == "random" else f"swap {GROUP_NAMES.get(similarity, similarity)}"
    return Condition(f"{kind}, theta {theta:.3g}", Settings("ar"), swap=Swap(theta, similarity, replacement))


def _main(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    rivals = [] if quick else [membership(50), typical()]
    return [ar(), sd(), ssd(0.2), ssd(MAIN_BETA), *(pcg(theta) for theta in (THETAS if quick else MAIN_THETAS)), *rivals]


def _tradeoff(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    rivals = [membership(10), *([typical()] if quick else [])]  # the others are in the main grid
    more = [ssd(beta) for beta in ((0.4,) if quick else (0.1, 0.4, 0.6))] + [
        pcg(theta) for theta in ((0.2,) if quick else (0.7, 0.6, 0.5, 0.25))
    ]
    sizes = (MIDDLE_THETA,) if quick else THETAS
    groups = [pcg(at, kind) for kind in GROUP_NAMES for at in _equal_sizes(kind, sizes, theta_for)]
    return [draft(), *_main(quick, theta_for), *more, *groups, *rivals]


def _lookahead(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    others = [{"lookahead": at} for at in ((1, 6) if quick else LOOKAHEADS)]
    thetas = (MIDDLE_THETA,) if quick else THETAS
    conditions = [ar()]
    for knobs in [{}, *others]:
        conditions += [sd(**knobs), ssd(MAIN_BETA, **knobs), *(pcg(theta, **knobs) for theta in thetas)]
    return conditions


def _swap(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    thetas = (0.6, 0.3) if quick else (0.7, 0.6, 0.5, 0.4, 0.3)
    controls = (0.3,) if quick else THETAS
    mel = [swapped(at, "mel") for at in _equal_sizes("mel", controls, theta_for)]
    random = [swapped(theta, replacement="random") for theta in controls]
    spoken = [pcg(theta) for theta in thetas if theta in THETAS]
    return [ar(), *(swapped(theta) for theta in thetas), *random, *mel, *spoken]


def _temperature(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    usual = [ar(), sd(), ssd(MAIN_BETA), *(pcg(theta) for theta in ((0.3,) if quick else (0.4, 0.3)))]
    usual += [] if quick else [membership(50), typical()]
    return [at_temperature(condition, temperature) for temperature in TEMPERATURES for condition in usual]


def _ablations(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    thetas = (MIDDLE_THETA,) if quick else THETAS
    exact = [sd(), blockwise("sd"), adaptive("sd")]
    others = [make("pcg", theta=theta) for theta in thetas for make in (blockwise, adaptive)]
    return [ar(), *exact, *(pcg(theta) for theta in thetas), *others]


def _mspoof(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    """Return the schemes of MSpoofTTS (section 3.2). RAS and EAS have a top-p of 0.8, too; the control has only that."""
    usual = Settings("ar", temperature=1.0)
    samplers = {
        "Original": usual.with_(top_k=50),
        CONTROL: usual.with_(top_k=50, top_p=0.8),
        "RAS": usual.with_(sampler="ras"),
        "EAS": usual.with_(sampler="eas"),
        "HierRAS": usual.with_(sampler="ras", hierarchical=True),
        "HierEAS": usual.with_(sampler="eas", hierarchical=True),
    }
    return [Condition(name, settings) for name, settings in samplers.items()]


def _originals(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    """Return the voice that the model learned from, as it is and through the codec (needs the teachers)."""
    return [Condition("original", Settings("ar"), model="original"), Condition("codec alone", Settings("ar"), model="codec")]


def _paper(quick: bool, theta_for: ThetaFor) -> list[Condition]:
    sizes = (MIDDLE_THETA,) if quick else THETAS
    others = [pcg(at, kind) for kind in GROUP_NAMES for at in _equal_sizes(kind, sizes, theta_for)]
    return [*_originals(quick, theta_for), draft(), *_main(quick, theta_for), *others, *(swapped(theta) for theta in sizes)]


@dataclass(frozen=True)
class NamedGrid:
    """A declared grid: its utterances, full and quick, and a function of (quick, theta_for) that makes its conditions."""

    title: str
    count: int
    quick_count: int
    conditions: Callable[[bool, ThetaFor], list[Condition]]


NAMED = {
    "main": NamedGrid("AR, SD, SSD and PCG (PCG Table 1)", 200, 12, _main),
    "tradeoff": NamedGrid("Words against speed (PCG Fig. 3 and Table 3; SSD Tables 1 and 3)", 50, 12, _tradeoff),
    "lookahead": NamedGrid("Speed by lookahead (PCG Fig. 4; SSD Fig. 3)", 16, 6, _lookahead),
    "swap": NamedGrid("Swap test: tokens replaced within their group (PCG Table 2)", 40, 6, _swap),
    "ablations": NamedGrid("Variants of groups, drafting and verification", 40, 6, _ablations),
    "temperature": NamedGrid("The methods at three temperatures", 24, 3, _temperature),
    # Half of the utterances are tongue twisters.
    "mspoof": NamedGrid("Samplers and hierarchical decoding (MSpoofTTS Tables 1 and 2)", 80, 2, _mspoof),
    "originals": NamedGrid("Recordings of the same sentences, as they are and through the codec", 200, 12, _originals),
    "paper": NamedGrid(
        "The conditions of PCG's Tables 1 to 3 in one run (500 sentences with --libritts, else 200)", 500, 12, _paper
    ),
}
TITLES = {name: grid.title for name, grid in NAMED.items()}
COUNTS = {name: (grid.count, grid.quick_count) for name, grid in NAMED.items()}
APART = ("originals", "paper")
SET = tuple(name for name in NAMED if name not in APART)


def declared(name: str, utterances: Sequence[Utterance], quick: bool, theta_for: ThetaFor) -> Grid:
    """Return the grid `name` over the first of `utterances`; `quick` takes few of them and few conditions.

    theta_for(similarity, theta): the theta at which the groups of `similarity` have the mean size of cosine groups at `theta`
    (`pcg.analysis.swap.same_size_theta`). A similarity without such groups (InputError) is left out.
    """
    if name not in NAMED:
        raise InputError("experiment", name, "one of " + ", ".join(NAMED))
    count, conditions = COUNTS[name][quick], tuple(NAMED[name].conditions(quick, theta_for))
    chosen = _half_twisters(utterances, count) if name == "mspoof" else utterances[:count]
    return Grid(name, TITLES[name], conditions, tuple(chosen), (0,))


def _half_twisters(utterances: Sequence[Utterance], count: int) -> list[Utterance]:
    """Return half tongue twisters and half everyday sentences; any others where a kind is missing."""
    kinds = [[u for u in utterances if u.section == section] for section in ("everyday", "twisters")]
    halves = [u for kind in kinds for u in kind[: count // 2]]
    others = [u for u in utterances if u not in halves]
    return halves + others[: count - len(halves)]


def _equal_sizes(similarity: str, thetas: Sequence[float], theta_for: ThetaFor) -> list[float]:
    """Return the thetas of `similarity` with the sizes of cosine groups at `thetas`, each once."""
    equal: dict[float, None] = {}
    for theta in thetas:
        try:
            at = theta_for(similarity, theta)
            Settings(theta=at)
        except InputError:
            continue
        equal[at] = None
    return list(equal)


def _theta_name(knobs: dict[str, float]) -> str:
    return f", theta {knobs['theta']:g}" if knobs else ""


def _lookahead_name(knobs: dict[str, float]) -> str:
    return f", lookahead {knobs['lookahead']}" if knobs else ""


def offline_utterances(count: int, voices: Sequence[str]) -> list[Utterance]:
    """Return the first `count` utterances of the project's test set; a smaller set is the beginning of a larger one.

    Sections take turns, and voices are spread evenly over all utterances and over each section, both in an order that changes.
    Raises InputError for more utterances than there are sentences, and for no voice.
    """
    generator = np.random.default_rng(0)
    sections = [[(section, text) for text in read_sentences(*parts)] for section, parts in SECTIONS.items()]
    rounds = ([pair for pair in pairs if pair] for pairs in zip_longest(*sections))
    sentences = [pairs[i] for pairs in rounds for i in generator.permutation(len(pairs))]
    if not 1 <= count <= len(sentences):
        raise InputError("count", count, f"a whole number from 1 to {len(sentences)}, the sentences that there are")
    if not voices:
        raise InputError("voices", "empty", "the name of at least one voice")
    spoken: Counter[tuple[str, ...]] = Counter()
    utterances = []
    for section, text in sentences[:count]:
        order = [voices[i] for i in generator.permutation(len(voices))]
        voice = min(order, key=lambda name: (spoken[(name,)], spoken[(name, section)]))
        spoken.update([(voice,), (voice, section)])
        utterances.append(Utterance(text, voice, section))
    return utterances


@dataclass(frozen=True)
class _Recording:
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
    recordings = _recordings(folder / SUBSET if (folder / SUBSET).is_dir() else folder)
    prompts = _prompts(recordings)
    sayable = [r for r in recordings if r.speaker in prompts and r != prompts[r.speaker] and _is_sayable(r.text)]
    if not 1 <= count <= len(sayable):
        raise InputError("count", count, f"a whole number from 1 to {len(sayable)}, the utterances that {folder.name} has")
    chosen = np.random.default_rng(seed).permutation(len(sayable))[:count]
    return [_cloned(sayable[i], prompts[sayable[i].speaker]) for i in chosen]


def _recordings(folder: Path) -> list[_Recording]:
    paths = sorted(folder.glob("*/*/*.wav"))
    if not paths:
        raise InputError("folder", folder.name, f"a folder of LibriTTS: {SUBSET}/SPEAKER/CHAPTER/NAME.wav")
    return [_recording(path) for path in paths]


def _recording(path: Path) -> _Recording:
    try:
        text = path.with_suffix(".normalized.txt").read_text(encoding="utf-8").strip()
        return _Recording(path, path.parts[-3], soundfile.info(path).duration, text)
    except (OSError, ValueError, soundfile.LibsndfileError) as error:
        raise AssetError(f"The recording {path.name} or its .normalized.txt is missing or damaged ({error}).") from error


def _prompts(recordings: Sequence[_Recording]) -> dict[str, _Recording]:
    """Return each speaker's recording nearest to `PROMPT_SECONDS` among those within `PROMPT_RANGE`."""
    short: dict[str, list[_Recording]] = defaultdict(list)
    for recording in recordings:
        if PROMPT_RANGE[0] <= recording.seconds <= PROMPT_RANGE[1]:
            short[recording.speaker].append(recording)
    return {speaker: min(of_one, key=lambda r: abs(r.seconds - PROMPT_SECONDS)) for speaker, of_one in short.items()}


def _is_sayable(text: str) -> bool:
    try:
        check_text(text)
    except InputError:
        return False
    return True


def _cloned(said: _Recording, prompt: _Recording) -> Utterance:
    return Utterance(
        said.text, prompt.speaker, SUBSET, reference=str(prompt.path), reference_text=prompt.text, recording=str(said.path)
    )
