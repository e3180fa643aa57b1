"""The README's front matter, by which a Space is configured, as a schema.

Source: the Hub's "Spaces Configuration Reference". Keys that this project has no use for are not in it.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pcg.errors import InputError

FENCE = "---\n"
README = "README.md"
REQUIREMENTS = "requirements.txt"
Colour = Literal["red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"]
Repository = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
Preload = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+( \S+){0,2}$")]
"""A repository, then the files of it, joined by commas, then the revision."""
Tag = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")]
Hardware = Literal["cpu-basic", "cpu-upgrade", "t4-small", "l4x1", "a10g-small", "a10g-large", "a100-large", "zero-a10g"]


class FrontMatter(BaseModel):
    """The keys that are allowed, and what each may be."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: Annotated[str, Field(min_length=1, max_length=60)]
    emoji: Annotated[str, Field(min_length=1, max_length=4)]
    colorFrom: Colour
    colorTo: Colour
    sdk: Literal["gradio"]
    sdk_version: str
    python_version: Annotated[str, StringConstraints(pattern=r"^3\.\d+(\.\d+)?$")]
    app_file: str
    short_description: Annotated[str, Field(min_length=1, max_length=60)]
    license: Annotated[str, StringConstraints(pattern=r"^[a-z0-9.-]+$")]
    tags: list[Tag] = []
    models: list[Repository] = []
    preload_from_hub: list[Preload] = []
    suggested_hardware: Hardware | None = None
    startup_duration_timeout: Annotated[str, StringConstraints(pattern=r"^\d+(s|m|h)$")] | None = None
    pinned: bool = False


def split(readme: str) -> tuple[str, str]:
    """The front matter of a README, without its fences, and the text below it."""
    parts = readme.split(FENCE, 2)
    if len(parts) < 3 or parts[0]:
        raise InputError("README.md", readme[:20], "a text that begins with a front matter between two lines of ---")
    return parts[1], parts[2]


def read_front_matter(folder: Path) -> FrontMatter:
    """Check the front matter of the README in `folder` against the schema and against the files beside it."""
    header, _ = split((folder / README).read_text(encoding="utf-8"))
    try:
        values = yaml.safe_load(header)
        front = FrontMatter.model_validate(values)
    except yaml.YAMLError as error:
        raise InputError("front matter", header[:20], "YAML") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "front matter"
        raise InputError(f"front matter's {place}", first["input"], f"as the schema has it ({first['msg']})") from error
    if front.sdk_version != (pinned := pinned_versions(folder)["gradio"]):
        raise InputError("front matter's sdk_version", front.sdk_version, f"the gradio of {REQUIREMENTS}, {pinned}")
    if not (folder / front.app_file).is_file():
        raise InputError("front matter's app_file", front.app_file, "a file of the Space")
    return front


def check_python(front: FrontMatter, project: Path) -> None:
    """Raise InputError if the Space's Python is none that `project`, a pyproject.toml, allows."""
    allowed = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["requires-python"]
    if front.python_version not in SpecifierSet(allowed):
        raise InputError("front matter's python_version", front.python_version, f"a Python {allowed}")


def with_changes(readme: str, changes: dict[str, object]) -> str:
    """The README with other values in its front matter; keys that are new come last."""
    header, body = split(readme)
    values = yaml.safe_load(header) | changes
    return FENCE + yaml.safe_dump(values, sort_keys=False, allow_unicode=True) + FENCE + body


def pinned_versions(folder: Path) -> dict[str, str]:
    """Version by name of what `requirements.txt` in `folder` pins."""
    return {each.name: str(each.specifier).removeprefix("==") for each in read_requirements(folder / REQUIREMENTS)}


def read_requirements(path: Path) -> list[Requirement]:
    """The packages that a file of requirements asks for, without comments and without pip's own options."""
    lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("-")]
