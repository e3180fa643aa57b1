"""What a user writes by hand in YAML: read, and refused by name where a key is unknown."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from pcg.errors import InputError


def read_yaml(field: str, path: Path) -> object:
    """What the YAML file `path` holds; `field` is what errors call it."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(field, str(path), "a file that can be read") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (see line {mark.line + 1})" if mark else ""
        raise InputError(field, str(path), f"YAML in UTF-8{where}") from error


def mapping(what: str, value: object, known: Sequence[str]) -> dict[str, object]:
    """`value`, if it is a mapping whose keys are all `known`."""
    if not isinstance(value, dict):
        raise InputError(what, value, "a mapping with some of " + ", ".join(known))
    for key in value:
        if key not in known:
            raise InputError(f"key of the {what}", key, "one of " + ", ".join(known))
    return value
