"""The project's version; files that are whole or not there; YAML; lists of checksums of published folders."""

import hashlib
import json
import os
import platform
import re
import shutil
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from os.path import abspath
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import yaml

from pcg.errors import AssetError, InputError, PCGError, first_line

if TYPE_CHECKING:
    from torch import Tensor


__version__ = "0.1.0"

# The folders of `replacing`: of which computer, of which process, and any name.
_TEMPORARY = re.compile(r"\.pcg-([0-9a-f]{8})-(\d{1,9})-\w+")
_ABANDONED_SECONDS = 86_400


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path near `path`; on success it takes the place of `path`, on failure it is removed. What a kill leaves
    is removed by the next `replacing` in the same folder.

    Where `path` is a link, what it leads to is replaced. Raises PCGError, also for an OSError of the writing code: `path` is a
    folder or a device, or lies where nothing can be written, or the disk is full.
    """
    place, folder = Path(os.path.realpath(path)), None
    try:
        if place.exists() and not place.is_file():  # a device would be replaced like any file
            kind = "folder" if place.is_dir() else "device"
            raise PCGError(f"{path.name} cannot be written: it is a {kind}, and not a file.")
        if not place.parent.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
        sweep(place.parent)
        # A folder, as safetensors writes under a temporary name of its own, which a kill would leave, too.
        folder = Path(mkdtemp(prefix=f".pcg-{_computer()}-{os.getpid()}-", dir=place.parent))
        temporary = folder / place.name
        yield temporary
        os.replace(temporary, place)
    except OSError as error:
        raise PCGError(f"{path.name} cannot be written ({error.strerror or first_line(error)}).") from error
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what `replacing` left in `folder` when its process was killed; what another computer left, after a day."""
    with suppress(OSError):
        for path in folder.glob(".pcg-*"):
            if not (named := _TEMPORARY.fullmatch(path.name)):
                continue
            over = time.time() - path.stat().st_mtime > _ABANDONED_SECONDS
            if named[1] == _computer() and os.name == "posix":
                try:
                    os.kill(int(named[2]), 0)  # asks, and ends nothing
                except ProcessLookupError:
                    over = True
                except PermissionError:  # another user's process
                    pass
            if over:
                shutil.rmtree(path, ignore_errors=True)


def _computer() -> str:
    """Return a short name for this computer: containers may share a folder, and number their processes alike."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def write_json(path: Path, value: object, indent: int | None = 2) -> None:
    """indent: None writes one line, for files that only programs read."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=indent, ensure_ascii=False) + "\n", encoding="utf-8")


def write_safetensors(path: Path, tensors: Mapping[str, "Tensor"], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors by name, each contiguous, as one safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    with replacing(path) as temporary:
        try:
            save_file(dict(tensors), temporary, metadata and dict(metadata))
        except SafetensorError as error:  # which a full disk is to it
            raise OSError(first_line(error)) from error


def read_yaml(field: str, path: Path) -> object:
    """Read the YAML file `path`; `field` is what errors call it."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(field, str(path), "a file that can be read") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (see line {mark.line + 1})" if mark else ""
        raise InputError(field, str(path), f"YAML in UTF-8{where}") from error


LIST = "SHA256SUMS"
LEFT_OUT = ("*.sqlite*", "*.html", "steps.json")
# A digest and a path within the folder.
LINE = re.compile(r"([0-9a-f]{64})  (?!/|.*\.\.)([^\\]+)")


def write_checksums(folder: Path) -> None:
    """List every file of `folder`, whatever was listed before. It is done last: what is half written is refused meanwhile."""
    _write(folder, {name: _digest(folder / name) for name in _files(folder)})


def renew_checksums(path: Path) -> None:
    """Bring the lines for `path`, a file or a part of a published folder, up to date in the list that covers it, if any."""
    if covered := _covered(path):
        root, part, listed = covered
        folders = {PurePosixPath(name).parent for name in listed}
        kept = {name: digest for name, digest in listed.items() if not _is_in(name, part)}
        new = [name for name in _files(root) if _is_in(name, part) and PurePosixPath(name).parent in folders]
        _write(root, kept | {name: _digest(root / name) for name in new})


def check_checksums(path: Path) -> None:
    """Compare `path`, a published folder, a part of one, or a file in one, with the list that covers it; where there is none,
    as in folders from the hub, nothing is compared.

    Raises AssetError with the name of the file that is damaged or missing.
    """
    root, part, listed = _covered(path) or (path, PurePosixPath(), {})
    for name, digest in listed.items():
        if not _is_in(name, part):
            continue
        if not (root / name).is_file():
            raise AssetError(f"The file {root / name} is missing: the {LIST} of its folder lists it.")
        if _digest(root / name) != digest:
            raise AssetError(f"The file {root / name} is damaged: its SHA-256 is not the one in the {LIST} of its folder.")


def _covered(path: Path) -> tuple[Path, PurePosixPath, dict[str, str]] | None:
    """Return the folder with the list that covers `path`, the place of `path` in it, and the digests there: the folder of
    `path`, or the one above where its list names something in that."""
    root = Path(abspath(path if path.is_dir() else path.parent))
    if not (root / LIST).is_file():
        inside, root = f"  {root.name}/", root.parent
        if not (root / LIST).is_file() or inside not in (root / LIST).read_text(encoding="utf-8", errors="replace"):
            return None
    try:
        lines = [LINE.fullmatch(line) for line in (root / LIST).read_text(encoding="utf-8").splitlines()]
        if not lines or not all(lines):
            raise ValueError("a line names no file of the folder")
    except (OSError, ValueError) as error:
        raise AssetError(f"The list {root / LIST} is damaged ({first_line(error)}).") from error
    return root, PurePosixPath(Path(abspath(path)).relative_to(root).as_posix()), {line[2]: line[1] for line in lines}


def _is_in(name: str, part: PurePosixPath) -> bool:
    return PurePosixPath(name).is_relative_to(part)


def _files(root: Path) -> list[str]:
    """Return what is, or would be, published of `root`, as the list names it."""
    paths = [(path, path.relative_to(root)) for path in root.rglob("*")]
    names = [place.as_posix() for path, place in paths if path.is_file() and not any(p.startswith(".") for p in place.parts)]
    return sorted(name for name in names if name != LIST and not any(fnmatch(name, pattern) for pattern in LEFT_OUT))


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise AssetError(f"The file {file} cannot be read ({first_line(error)}).") from error


def _write(root: Path, digests: dict[str, str]) -> None:
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    with replacing(root / LIST) as temporary:
        temporary.write_bytes(lines.encode())


if __name__ == "__main__":
    for each in sys.argv[1:]:
        write_checksums(Path(each))
