"""The files of a published folder with their SHA-256, in the format of `sha256sum`, so that no damaged file is read unawares.

The list covers what the folder was published with. A subfolder of which it names nothing (another draft, the state of a
training), what runs and reports leave beside results, and hidden files are no part of that.
"""

import hashlib
import re
import sys
from fnmatch import fnmatch
from os.path import abspath
from pathlib import Path, PurePosixPath

from pcg.errors import AssetError, first_line
from pcg.files import replacing

LIST = "SHA256SUMS"
LEFT_OUT = ("*.sqlite*", "*.html", "steps.json")
LARGEST_LIST = 1_000_000
LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def write_checksums(folder: Path) -> None:
    """List every file of `folder`, whatever was listed before. It is done last: what is half written is refused meanwhile."""
    _write(folder, {name: _digest(folder, name) for name in _files(folder)})


def renew_checksums(path: Path) -> None:
    """Where a list covers `path`, a file or a part of a published folder, bring its lines for that up to date alone."""
    if root := _root(path):
        listed, part = _read(root), _place(path, root)
        kept = {name: digest for name, digest in listed.items() if not _is_in(name, part)}
        _write(root, kept | {name: _digest(root, name) for name in _beside(listed, root) if _is_in(name, part)})


def check_checksums(path: Path) -> None:
    """Compare `path`, a published folder, a part of one, or a file in one, with the list that covers it; where there is none,
    as in folders from the hub, nothing is compared.

    Raises AssetError with the name of the file that is damaged, missing, or not listed.
    """
    if not (root := _root(path)):
        return
    listed, part = _read(root), _place(path, root)
    for name in _beside(listed, root):
        if name not in listed and _is_in(name, part):
            raise AssetError(f"The file {root / name} is not listed in the {LIST} of its folder.")
    for name, digest in listed.items():
        if _is_in(name, part) and _digest(root, name) != digest:
            raise AssetError(f"The file {root / name} is damaged: its SHA-256 is not the one in the {LIST} of its folder.")


def _root(path: Path) -> Path | None:
    """The folder with the list that covers `path`: that of `path`, or the one above it where its list names something in it."""
    folder = Path(abspath(path if path.is_dir() else path.parent))
    if (folder / LIST).is_file():
        return folder
    above = folder.parent / LIST
    named = re.compile(rf"[ *](\./)?{re.escape(folder.name)}/")
    return folder.parent if above.is_file() and named.search(above.read_text(encoding="utf-8", errors="replace")) else None


def _place(path: Path, root: Path) -> PurePosixPath:
    return PurePosixPath(Path(abspath(path)).relative_to(root).as_posix())


def _is_in(name: str, part: PurePosixPath) -> bool:
    return PurePosixPath(name).is_relative_to(part)


def _files(root: Path) -> list[str]:
    """What is, or would be, published of `root`, as the list names it."""
    paths = [(path, path.relative_to(root)) for path in root.rglob("*")]
    names = [place.as_posix() for path, place in paths if path.is_file() and not any(p.startswith(".") for p in place.parts)]
    return sorted(name for name in names if name != LIST and not any(fnmatch(name, pattern) for pattern in LEFT_OUT))


def _beside(listed: dict[str, str], root: Path) -> list[str]:
    """The files in those folders of which the list names something."""
    folders = {PurePosixPath(name).parent for name in listed}
    return [name for name in _files(root) if PurePosixPath(name).parent in folders]


def _digest(root: Path, name: str) -> str:
    file = root / name
    if not file.is_file():
        raise AssetError(f"The file {file} is missing: the {LIST} of its folder lists it.")
    if not file.resolve().is_relative_to(root.resolve()):
        raise AssetError(f"The file {file} is a link that leads out of its folder.")
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise AssetError(f"The file {file} cannot be read ({first_line(error)}).") from error


def _read(root: Path) -> dict[str, str]:
    """The digest of every file that is listed."""
    listed: dict[str, str] = {}
    try:
        with (root / LIST).open("rb") as content:
            lines = content.read(LARGEST_LIST).decode().splitlines()
        for line in filter(None, lines):
            found = LINE.fullmatch(line)
            name = PurePosixPath(found[2]) if found else PurePosixPath("..")
            if name.is_absolute() or ".." in name.parts or "\\" in line:
                raise ValueError("a line names no file of the folder")
            listed[name.as_posix()] = found[1]
        if not listed:
            raise ValueError("it names no file")
    except (OSError, ValueError) as error:
        raise AssetError(f"The list {root / LIST} is damaged ({first_line(error)}).") from error
    return listed


def _write(root: Path, digests: dict[str, str]) -> None:
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    with replacing(root / LIST) as temporary:
        temporary.write_bytes(lines.encode())


if __name__ == "__main__":
    for each in sys.argv[1:]:
        write_checksums(Path(each))
