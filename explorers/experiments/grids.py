"""Which units a run does: the declared grids, and a visitor's own in a YAML file, which is checked first.

Knows nothing of gradio.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from pcg.analysis.swap import same_size_theta
from pcg.errors import InputError, PCGError
from pcg.experiments.grids import COUNTS, SECTIONS, SET, TITLES, Grid, declared, offline_utterances, read_grid
from pcg.experiments.unit import Unit, Utterance
from pcg.metrics.intelligibility import read_sentences
from pcg.synthesis.synthesizer import Synthesizer
from pcg.text.reading import MAX_CHARACTERS

SIZES = ("quick", "full")
# What a grid of one's own may be: read on a page that others use, too.
MOST_BYTES, DEEPEST, MOST_UNITS = 64 * 1024, 8, 10_000
GRID_KINDS = (".yaml", ".yml")


def chosen_grids(synthesizer: Synthesizer, names: Sequence[str], size: str, file: Path | None = None) -> list[Grid]:
    """The declared grids `names`, at `size`, and the one in a YAML `file`. Raises InputError if there is none, or for anything
    that this voice cannot generate."""
    if size not in SIZES:
        raise InputError("size", size, "one of " + ", ".join(SIZES))
    if not names and file is None:
        raise InputError("experiments", "none", "at least one of " + ", ".join(TITLES) + ", or a grid in a YAML file")
    own = [] if file is None else [own_grid(file, tuple(synthesizer.voice.references))]
    voices, most = list(synthesizer.voice.references), max(COUNTS[name][0] for name in SET)

    def theta_for(similarity: str, theta: float) -> float:
        return same_size_theta(synthesizer.library, theta, similarity)

    utterances = offline_utterances(most, voices)
    grids = [declared(name, utterances, size == "quick", theta_for) for name in dict.fromkeys(names)] + own
    return [grid.for_draft(synthesizer.voice.draft_kind, synthesizer.voice.draft_speaks_alone) for grid in grids]


def own_grid(file: Path, voices: Sequence[str]) -> Grid:
    """A user's grid for `voices`; raise PCGError, before anything large is built, for a file that is not small and plain."""
    _check_yaml(file)
    try:
        grid = read_grid(file)
    except InputError as error:
        # The name alone: the path is the server's. What it quotes may be as long as the file.
        raise PCGError(_shortened(str(error).replace(str(file), file.name))) from error
    for utterance in grid.utterances:
        if utterance.voice not in voices:
            raise InputError("voices", utterance.voice[:60], "some of " + ", ".join(voices))
    return grid


def units_of(grids: Sequence[Grid]) -> list[Unit]:
    """All units, those of one utterance and seed next to each other, as their times are compared."""
    together: dict[tuple[Utterance, int], list[Unit]] = {}
    for unit in (unit for grid in grids for unit in grid.units()):
        together.setdefault((unit.utterance, unit.seed), []).append(unit)
    return [unit for of_one in together.values() for unit in of_one]


def _check_yaml(file: Path) -> None:
    """Refuse what is large, deep, refers to itself, or multiplies to more units than a page should do."""
    if file.suffix.lower() not in GRID_KINDS:
        raise InputError("grid file", file.name, "a file with a name that ends in .yaml")
    if file.stat().st_size > MOST_BYTES:
        raise InputError("grid file", file.name, f"at most {MOST_BYTES // 1024} KiB")
    try:
        depth = 0
        # Events come one by one, so that nothing is built of what is refused.
        for event in yaml.parse(file.read_text(encoding="utf-8"), yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            _check_event(file.name, event, depth)
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (see line {mark.line + 1})" if mark else ""
        raise InputError("grid file", file.name, f"YAML in UTF-8{where}") from error
    if isinstance(values, dict) and (units := _most_units(values)) > MOST_UNITS:
        raise InputError("grid file", file.name, f"one of at most {MOST_UNITS:,} units, not {units:,}")


def _check_event(name: str, event: yaml.Event, depth: int) -> None:
    where = f"(see line {event.start_mark.line + 1})"
    if isinstance(event, yaml.AliasEvent):
        raise InputError("grid file", name, f"without aliases {where}")
    if depth > DEEPEST:
        raise InputError("grid file", name, f"at most {DEEPEST} levels deep {where}")
    if isinstance(event, yaml.ScalarEvent) and len(event.value) > MAX_CHARACTERS:
        raise InputError("grid file", name, f"of values of at most {MAX_CHARACTERS:,} characters {where}")


def _most_units(values: Mapping[str, object]) -> int:
    """As many as there can be; what is no list is left to `read_grid`."""
    lengths = {name: len(value) for name, value in values.items() if isinstance(value, list)}
    count = values.get("count")
    longest = sum(len(read_sentences(*parts)) for parts in SECTIONS.values()) if "sections" in lengths else 1
    said = lengths.get("texts", 0) + lengths.get("sections", 0) * (count if isinstance(count, int) else longest)
    return said * lengths.get("voices", 1) * lengths.get("seeds", 1) * lengths.get("conditions", 1)


def _shortened(sentence: str, ends: int = 160) -> str:
    return sentence if len(sentence) <= 2 * ends else f"{sentence[:ends]} … {sentence[-ends:]}"
