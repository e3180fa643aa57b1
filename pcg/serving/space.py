"""The README's front matter, by which a Space is configured, as a schema.

Source: the Hub's "Spaces Configuration Reference". Keys that this project has no use for are not in it.
"""

import argparse
import ast
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Annotated, Literal

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pcg.errors import InputError, PCGError
from pcg.files import renew_checksums, replacing
from pcg.models.hub import EMBEDDED, NAMES, XCODEC2
from pcg.places import PROJECT

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


def third_party(folder: Path) -> dict[str, str]:
    """Packages that neither Python nor `folder` holds: name -> the first file of `folder` that imports it."""
    own = {path.stem for path in folder.iterdir()}
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        for name in _imported(ast.parse(path.read_text(encoding="utf-8"))):
            if name not in own and name not in sys.stdlib_module_names:
                found.setdefault(name, path.relative_to(folder).as_posix())
    return found


def uncovered(imported: Iterable[str], requirements: Iterable[Requirement]) -> list[str]:
    """Those of the `imported` packages that `requirements` do not bring, by themselves or by what they require in turn.

    What belongs to which package is read from what is installed here.
    """
    distributions = packages_distributions()
    brought = _closure(requirements)
    names = {package: {canonicalize_name(d) for d in distributions.get(package, [package])} for package in imported}
    return sorted(package for package, owners in names.items() if not owners & brought)


def _imported(tree: ast.Module) -> Iterator[str]:
    """First names of all imports, those inside functions included; what only type checkers read is not run."""
    typing_only = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    skipped = {id(child) for node in typing_only for child in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _closure(requirements: Iterable[Requirement]) -> set[str]:
    """The names of `requirements`, and of all that they require; what is not installed here requires nothing."""
    waiting, seen = list(requirements), set()
    while waiting:
        each = waiting.pop()
        name = canonicalize_name(each.name)
        if name in seen or (each.marker and not any(each.marker.evaluate({"extra": e}) for e in ("", *each.extras))):
            continue
        seen.add(name)
        try:
            waiting += map(Requirement, requires(each.name) or [])
        except PackageNotFoundError:
            continue
    return seen


DOCUMENTS = ("docs", README, "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "NOTICE")
STAGED = ("app.py", "pcg", "explorers", "assets", *DOCUMENTS, REQUIREMENTS, "pyproject.toml")
LEFT_OUT = ("assets/results/report.html", "assets/results/results.json")
"""For readers of the repository: the page reads the results from `results.jsonl.xz`."""
CLUTTER = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
ATTRIBUTES = ".gitattributes"
MARK = "# Written by `make space`.\n"
LFS = "filter=lfs diff=lfs merge=lfs -text"
LARGEST_PLAIN = 10_000_000
LARGEST_SPACE = 1_000_000_000
CPU_WHEELS = "--extra-index-url https://download.pytorch.org/whl/cpu\n"
"""Where there is no GPU, a tenth of the download."""
REPLACED = ("webrtcvad-wheels",)
"""A Space installs requirements.txt only, and so resemblyzer with all that it asks for, which this stands in for elsewhere."""


@dataclass(frozen=True)
class Staged:
    """A folder that is ready to be uploaded. `large`: its files that go through Git LFS; `size` in bytes, of all files."""

    folder: Path
    files: tuple[str, ...]
    large: tuple[str, ...]
    size: int


def stage(root: Path, out: Path, front: dict[str, object] | None = None) -> Staged:
    """Copy what a Space of the repository `root` needs into `out`, in place of what this wrote there before.

    front: keys of the README's front matter, for a Space of another model; with a GPU suggested, torch comes with CUDA.
    Raise InputError if `out` holds anything else, or if what was staged would not start, or would not be taken.
    """
    _clear(out)
    for name in STAGED:
        _copy(root / name, out / name)
    for name in LEFT_OUT:
        (out / name).unlink(missing_ok=True)
        renew_checksums(out / name)
    if front:
        _write(out / README, with_changes((out / README).read_text(encoding="utf-8"), front))
    on_cpu = read_front_matter(out).suggested_hardware in (None, "cpu-basic", "cpu-upgrade")
    _write(out / REQUIREMENTS, _requirements(root, on_cpu))
    _write(out / ATTRIBUTES, MARK + "".join(f"{pattern} {LFS}\n" for pattern in _lfs_patterns(out)))
    return check(root, out)


def check(root: Path, out: Path) -> Staged:
    """Raise InputError, in one sentence, if the folder `out` is no Space that the Hub would take and start."""
    check_python(read_front_matter(out), root / "pyproject.toml")
    optional = [each for path in sorted(root.glob("requirements-*.txt")) for each in read_requirements(path)]
    imported = third_party(out)
    if missing := uncovered(imported, [*read_requirements(out / REQUIREMENTS), *optional]):
        raise InputError(REQUIREMENTS, f"without {missing[0]}", f"with it: {imported[missing[0]]} imports it")
    patterns = [line.split()[0] for line in (out / ATTRIBUTES).read_text(encoding="utf-8").splitlines() if line.endswith(LFS)]
    sizes = {path.relative_to(out).as_posix(): path.stat().st_size for path in _files(out)}
    large = tuple(name for name in sizes if any(fnmatch(name, pattern) for pattern in patterns))
    for name in sizes.keys() - set(large):
        if _needs_lfs(out / name):
            raise InputError(ATTRIBUTES, f"without {name}", f"with it: it is binary, or over {LARGEST_PLAIN // 10**6} MB")
    if (total := sum(sizes.values())) > LARGEST_SPACE:
        raise InputError("space", f"{total / 1e6:.0f} MB", f"at most {LARGEST_SPACE / 1e6:.0f} MB")
    return Staged(out, tuple(sizes), large, total)


def _clear(out: Path) -> None:
    """Empty a folder that this wrote; a clone of the Space stays one."""
    if not out.exists():
        return
    attributes = out / ATTRIBUTES if out.is_dir() else out
    ours = attributes.is_file() and attributes.read_bytes().startswith(MARK.encode())
    there = [path for path in out.iterdir() if path.name != ".git"] if out.is_dir() else [out]
    if there and not ours:
        raise InputError("out", str(out), "a new or empty folder, or one that `make space` wrote")
    for path in there:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _copy(source: Path, place: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, place, ignore=CLUTTER)
    elif source.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place)
    else:
        raise InputError("repository", source.name, "there, as a Space needs it")


def _requirements(root: Path, on_cpu: bool) -> str:
    kept = [each for each in read_requirements(root / REQUIREMENTS) if each.name not in REPLACED]
    packages = [*kept, *read_requirements(root / "requirements-nodeps.txt")]
    return (CPU_WHEELS if on_cpu else "") + "".join(f"{each}\n" for each in packages)


def _lfs_patterns(out: Path) -> list[str]:
    """A pattern for each kind of binary file, and the path of each large text."""
    needing = [path for path in _files(out) if _needs_lfs(path)]
    return sorted({f"*{p.suffix}" if _is_binary(p) and p.suffix else p.relative_to(out).as_posix() for p in needing})


def _needs_lfs(path: Path) -> bool:
    return path.stat().st_size > LARGEST_PLAIN or _is_binary(path)


def _is_binary(path: Path) -> bool:
    """As git sees it: a zero byte near the beginning."""
    with path.open("rb") as file:
        return b"\0" in file.read(8000)


def _files(out: Path) -> list[Path]:
    return sorted(p for p in out.rglob("*") if p.is_file() and ".git" not in p.relative_to(out).parts)


def _write(path: Path, content: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pcg.serving.space", description="Stage a Hugging Face Space, and check it.")
    parser.add_argument("out", type=Path, help="a new folder, or one that this wrote")
    parser.add_argument("--model", default=EMBEDDED, help=f"{EMBEDDED} (the default), " + ", ".join(NAMES))
    options = parser.parse_args(arguments)
    try:
        staged = stage(PROJECT, options.out, front_of(options.model))
    except PCGError as error:
        print(f"space: {error}", file=sys.stderr)
        return 2
    files, large = len(staged.files), len(staged.large)
    print(f"{files} files, {staged.size / 1e6:.0f} MB, in {staged.folder}; {large} of them go through Git LFS.")
    print(f"Upload it: hf upload OWNER/NAME {staged.folder} . --repo-type space")
    if options.model != EMBEDDED:
        print(f"In the Space's settings, set the variable MODEL to {options.model}.")
    return 0


def front_of(model: str) -> dict[str, object]:
    """What the front matter says otherwise in a Space of `model`: the Hub fetches its weights while it builds."""
    if model == EMBEDDED:
        return {}
    if model not in NAMES:
        raise InputError("model", model, f"one of {EMBEDDED}, " + ", ".join(NAMES))
    repositories = [NAMES[model].repository, XCODEC2.repository]
    hardware = {"suggested_hardware": "zero-a10g", "startup_duration_timeout": "1h"}
    return {"models": repositories, "preload_from_hub": repositories, **hardware}


if __name__ == "__main__":
    sys.exit(main())
