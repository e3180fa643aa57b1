"""The folder of uploads and takes: how much a visitor may put there, how much fits, and when it is swept."""

import atexit
import shutil
import tempfile
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path
from secrets import token_hex
from time import monotonic, time

from filelock import FileLock, Timeout

from pcg.serving.limits import Limits

MINUTE, HOUR = 60.0, 3600.0
# Gradio writes each part of a form to such a file, and leaves those that no field of its own holds.
LEFTOVERS = "tmp*"


class Refused(Exception):
    """An upload that is not taken; `status` is that of the HTTP answer."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Uploads:
    """What each visitor sent in the last hour, and the room that is left."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sent: defaultdict[str, deque[tuple[float, int]]] = defaultdict(deque)

    def charge(self, visitor: str, size: int) -> None:
        """Count `size` bytes of `visitor`, or raise Refused."""
        now = monotonic()
        for other in [v for v, sent in self._sent.items() if not sent or sent[-1][0] < now - HOUR]:
            del self._sent[other]
        sent = self._sent[visitor]
        while sent and sent[0][0] < now - HOUR:
            sent.popleft()
        if sum(each for _, each in sent) + size > self._limits.uploads_each_hour:
            allowed = self._limits.uploads_each_hour >> 20
            raise Refused(429, f"You may upload {allowed} MB an hour: try again later.")
        begun = now
        if sent and sent[-1][0] > now - MINUTE:  # one entry a minute, with the time at which it began
            begun, before = sent.pop()
            size += before
        sent.append((begun, size))

    def check_room(self, folder: Path) -> None:
        """Sweep `folder`, and raise Refused where no upload fits."""
        sweep(folder, self._limits.keep_seconds)
        if size_of(folder) + self._limits.upload > self._limits.kept:
            raise Refused(507, "This server has no room for uploads at the moment: try again later.")
        if shutil.disk_usage(folder).free - self._limits.upload < self._limits.free:
            raise Refused(507, "The disk of this server is nearly full: nothing was kept.")

    def remove_leftovers(self, folder: Path) -> None:
        """Remove the parts of a form that nothing holds. Only while no form is being read."""
        for path in folder.glob(LEFTOVERS):
            if path.is_file():
                path.unlink(missing_ok=True)


def size_of(folder: Path) -> int:
    """Bytes of all files in `folder`; one that goes meanwhile counts as nothing."""
    return sum(size for _, size, _ in _files(folder))


def sweep(folder: Path, keep_seconds: float) -> None:
    """Remove files that are older, whoever made them."""
    oldest = time() - keep_seconds
    for path, _, changed in _files(folder):
        if changed < oldest:
            path.unlink(missing_ok=True)


@contextmanager
def own_folder(name: str) -> Iterator[Path]:
    """A new folder of this process among the computer's temporary files, removed at the end; those that processes left behind
    which were killed are removed first."""
    root = Path(tempfile.gettempdir()) / f"{name}-{getuser()}"
    root.mkdir(mode=0o700, exist_ok=True)
    for lock in root.glob("*.lock"):
        _remove_if_left(lock)
    for left in root.iterdir():
        if left.is_dir() and not left.with_suffix(".lock").exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = root / token_hex(8)
    with FileLock(folder.with_suffix(".lock")):
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(".lock").unlink(missing_ok=True)
            # What is still decoded as the server stops is written until its threads have ended.
            atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _remove_if_left(lock: Path) -> None:
    """A living process holds its lock."""
    try:
        with FileLock(lock, timeout=0):
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)
    except (Timeout, OSError):
        return


def _files(folder: Path) -> Iterator[tuple[Path, int, float]]:
    for path in folder.rglob("*"):
        try:
            stat = path.stat(follow_symlinks=False)
        except OSError:
            continue
        if not path.is_dir():
            yield path, stat.st_size, stat.st_mtime
