"""A grid: every utterance, said in every condition with every seed. Declared in Python, or read from a user's YAML file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from pcg.analysis.swap import Swap
from pcg.errors import InputError
from pcg.experiments.unit import RECORDED, Condition, Unit, Utterance
from pcg.files import mapping, read_yaml
from pcg.metrics.intelligibility import read_sentences
from pcg.settings import METHODS, Settings
from pcg.text.reading import check_text

_GRID = ("name", "title", "sections", "count", "texts", "voices", "seeds", "conditions")
_KNOBS = tuple(name for name in Settings.model_fields if name != "seed")
_CONDITION = ("name", "model", "rule", "swap", *_KNOBS)
_SWAP = tuple(f.name for f in fields(Swap))
# By the kinds of drafts that are no models; `pcg.synthesis.voice` has their names, too, but brings in torch.
METHODS_OF = {"lookup": METHODS, "none": ("ar",)}


@dataclass(frozen=True)
class Grid:
    """A named set of units. `name` is how commands call it, `title` how figures do; names of conditions differ."""

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

    @property
    def hears_the_draft(self) -> bool:
        """Whether the draft speaks alone in any condition."""
        return any(condition.model == "draft" for condition in self.conditions)

    def for_draft(self, draft: str, alone: bool = True) -> "Grid":
        """Without what cannot be said with a draft of this kind (`Draft.kind`): prompt lookup does not speak alone, and
        with none only AR speaks. alone: whether the draft can speak without its target, which a feature draft cannot."""
        methods, alone = METHODS_OF.get(draft, METHODS), alone and draft not in METHODS_OF
        possible = (c for c in self.conditions if c.settings.method in methods and (alone or c.model != "draft"))
        return replace(self, conditions=tuple(possible))

    def over(self, seeds: Sequence[int] = (), temperature: float | None = None, count: int | None = None) -> "Grid":
        """The same with these seeds, at this temperature where a condition has the usual one, and with as many of its
        utterances."""
        if count is not None and not 1 <= count <= len(self.utterances):
            raise InputError("count", count, f"a whole number from 1 to {len(self.utterances)}, the utterances of {self.name}")
        moved = self.conditions if temperature is None else tuple(at_temperature(each, temperature) for each in self.conditions)
        return replace(self, conditions=moved, utterances=self.utterances[:count], seeds=tuple(seeds) or self.seeds)

    def units(self) -> list[Unit]:
        """By utterance, then seed, then condition: methods take turns, so that a machine that slows down slows them all."""
        return [Unit(u, condition, seed) for u in self.utterances for seed in self.seeds for condition in self.conditions]


def at_temperature(condition: Condition, temperature: float) -> Condition:
    """`condition` at `temperature` if it has the usual one, else unchanged. Its name tells the temperature: one folder of
    results may hold several."""
    if condition.settings.temperature != Settings().temperature or temperature == Settings().temperature:
        return condition
    settings = condition.settings.with_(temperature=temperature)
    name = condition.name if condition.model in RECORDED else f"{condition.name}, temperature {temperature:g}"
    return replace(condition, name=name, settings=settings)


def read_grid(path: Path) -> Grid:
    """A grid from a YAML file.

    `name`, `title` (the name), `seeds` ([0]), `voices`, `conditions`, and what is said: either `texts`, or `sections` of the
    evaluation sentences with the `count` to take of each (all). Every voice says every text. A condition has a `name`, any
    settings but the seed, and `model`, `rule` and `swap` (a mapping) as in `Condition`. Raises InputError for anything else.
    """
    values = mapping("grid", read_yaml("grid file", path), _GRID)
    name = _text("name", values.get("name"))
    title = _text("title", values.get("title", name))
    conditions = tuple(_condition(each) for each in _list("conditions", values.get("conditions")))
    voices = [_text("voices", voice) for voice in _list("voices", values.get("voices"))]
    utterances = tuple(Utterance(text, voice, section) for section, text in _texts(values) for voice in voices)
    return Grid(name, title, conditions, utterances, tuple(_list("seeds", values.get("seeds", [0]))))


def _texts(values: Mapping[str, object]) -> list[tuple[str, str]]:
    """What is said, each with its section."""
    if ("texts" in values) == ("sections" in values):
        raise InputError("texts and sections", "both or neither", "one of the two")
    if "texts" in values:
        if "count" in values:
            raise InputError("count", values["count"], "left out where texts are given")
        return [("", check_text(_text("texts", text))) for text in _list("texts", values["texts"])]
    sections = [_text("sections", section) for section in _list("sections", values["sections"])]
    return [(section, text) for section in sections for text in _some(read_sentences(section), values.get("count"))]


def _some(sentences: Sequence[str], count: object) -> list[str]:
    """`count` of the sentences, spread evenly over them."""
    if count is None:
        return list(sentences)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= len(sentences):
        raise InputError("count", count, f"a whole number from 1 to {len(sentences)}, the sentences of the section")
    return [sentences[i * len(sentences) // count] for i in range(count)]


def _condition(value: object) -> Condition:
    values = mapping("condition", value, _CONDITION)
    name = _text("name", values.get("name"))
    settings = Settings.from_dict({knob: values[knob] for knob in _KNOBS if knob in values})
    model, rule = (_text(field, values[field]) if field in values else "" for field in ("model", "rule"))
    return Condition(name, settings, model or "target", rule, _swap(values.get("swap")))


def _swap(value: object) -> Swap | None:
    if value is None:
        return None
    values = mapping("swap", value, _SWAP)
    swap = Swap(**{"theta": None} | values)
    return Swap(float(swap.theta), swap.similarity, swap.replacement, float(swap.fraction))


def _list(field: str, value: object) -> list[object]:
    if not isinstance(value, list) or not value:
        raise InputError(field, value, "a list of at least one")
    return value


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(field, value, "a text")
    return value
