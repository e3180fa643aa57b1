"""A recipe of one's own: a YAML file names the choices that differ from `Recipe`'s."""

from dataclasses import fields, is_dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from pcg.codec.embedded import CodecConfig
from pcg.errors import InputError
from pcg.files.mappings import mapping, read_yaml
from pcg.settings import bounds
from pcg.training.data.corpus import SAMPLE_RATE
from pcg.training.voice.workshop import Recipe

MAY_BE_ZERO = ("timed_shards",)
MOST_CODES = 65_536
LONGEST_FRAME = 480
LONGEST_HOURS = 10_000


def read_recipe(path: Path) -> Recipe:
    """`Recipe` with the choices that `path` names; `codec` and `target` are mappings of their own, and `hours` names the
    synthesizer's voices. Raises InputError for anything else."""
    recipe = _changed("recipe", Recipe(), read_yaml("recipe", path))
    bounds("temperature").check("temperature", recipe.temperature)
    if prod(recipe.codec.levels) > MOST_CODES:
        raise InputError("levels", list(recipe.codec.levels), f"levels whose product is at most {MOST_CODES}")
    _check_frames(recipe.codec)
    if recipe.held_out_each < 2:
        raise InputError("held_out_each", recipe.held_out_each, "a whole number from 2 up: one is spoken after another")
    _number("target_decay_share", recipe.target_decay_share, 1)
    width, heads = recipe.target.width, recipe.target.heads
    if width % (2 * heads):
        raise InputError("width", width, f"a multiple of {2 * heads}, twice the heads")
    return recipe


def _check_frames(codec: CodecConfig) -> None:
    """A window reaches as far before its frame as behind it, and windows overlap by half, or their sum has gaps."""
    if codec.sample_rate != SAMPLE_RATE:
        raise InputError("sample_rate", codec.sample_rate, f"{SAMPLE_RATE}, as the corpus has it")
    if codec.frame % 2 or codec.frame > LONGEST_FRAME:
        raise InputError("frame", codec.frame, f"an even number up to {LONGEST_FRAME}")
    if codec.window % 2 or codec.window < 2 * codec.frame:
        raise InputError("window", codec.window, f"an even number from {2 * codec.frame} up, twice the frame")


def _changed(where: str, schema: Any, value: object) -> Any:
    """The dataclass `schema` with the fields that `value` names; each keeps the kind that it has."""
    found = mapping(where, value, [f.name for f in fields(schema)])
    return replace(schema, **{name: _one(name, getattr(schema, name), each) for name, each in found.items()})


def _one(name: str, usual: object, value: object) -> object:
    if is_dataclass(usual):
        return _changed(name, usual, value)
    if isinstance(usual, dict):
        return _hours(value)
    if isinstance(usual, tuple):
        if not isinstance(value, list) or not value:
            raise InputError(name, value, "a list of whole numbers")
        return tuple(_whole(name, each, 2) for each in value)
    return value if isinstance(usual, float) else _whole(name, value, 0 if name in MAY_BE_ZERO else 1)


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise InputError(name, value, f"a whole number from {least} up")
    return value


def _hours(value: object) -> dict[str, float]:
    if not isinstance(value, dict) or not value:
        raise InputError("hours", value, "voices with the hours that each speaks, as in {rms: 12}")
    return {str(voice): _number(f"hours of {voice}", hours, LONGEST_HOURS) for voice, hours in value.items()}


def _number(name: str, value: object, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise InputError(name, value, f"a number above 0, up to {most}")
    return float(value)
