"""Recipes: the choices of a training or an experiment as fields with bounds, which a YAML file sets."""

import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pcg.errors import InputError
from pcg.files import read_yaml

Count = Annotated[int, Field(ge=1, lt=2**31)]


class Recipe(BaseModel):
    """Choices that a YAML file may set. Raises InputError from `of` and `read`; it names the first field that is unknown or
    outside its bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def read(cls, path: Path | None, what: str = "recipe", **given: object) -> Self:
        """Read a YAML file, if there is one; values that are `given` (not None) replace its own. what: its name in errors."""
        values = {} if path is None else read_yaml(what, path)
        chosen = {name: value for name, value in given.items() if value is not None}
        return cls.of(values | chosen if isinstance(values, dict) else values, what)

    @classmethod
    def of(cls, values: object, what: str = "recipe") -> Self:
        """Build from plain values, for example parsed YAML."""
        if isinstance(values, dict):
            # A mapping changes those fields of a part, for example `target`, that it names; the others keep their defaults.
            parts = {name: asdict(field.default) for name, field in cls.model_fields.items() if is_dataclass(field.default)}
            changed = {name for name in parts if isinstance(values.get(name), dict)}
            values = values | {name: parts[name] | values[name] for name in changed}
        try:
            return cls.model_validate_json(json.dumps(values, default=str), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            names = [part for part in first["loc"] if isinstance(part, str)] or [what]
            if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
                part = names[-2] if len(names) > 1 else what
                raise InputError(f"key of the {part}", names[-1], f"a field of the {part}") from None
            if first["type"] in ("missing", "missing_argument"):
                raise InputError(names[-1], None, "given") from None
            rule = first["msg"].partition(" should ")[2]
            allowed = rule.removeprefix("be ") if rule.startswith("be ") else f"such as to {rule}"
            raise InputError(names[-1], first["input"], allowed) from None

    def as_dict(self) -> dict[str, Any]:
        """Return the choices ready for JSON."""
        return self.model_dump(mode="json")
