"""What a Space needs, copied into one folder: code, weights, the example, requirements, and the README that configures it.

A Space takes binary files, and any file over 10 MB, through Git LFS alone: the folder's `.gitattributes` names them.
"""

import shutil
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from pcg.errors import InputError
from pcg.files import replacing
from pcg.files.checksums import renew_checksums
from pcg.serving.space.front_matter import (
    README,
    REQUIREMENTS,
    check_python,
    read_front_matter,
    read_requirements,
    with_changes,
)
from pcg.serving.space.imports import third_party, uncovered

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
