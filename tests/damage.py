"""What happens to files between two runs, and to disks while they are written."""

import ctypes
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path

import pytest

# A PNG picture of nothing.
FOREIGN = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
_CAPABILITIES = 0x20080522
_READS_ANYTHING = 1 << 1 | 1 << 2


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def another_kind(path: Path) -> None:
    path.write_bytes(FOREIGN)


def a_folder(path: Path) -> None:
    path.unlink()
    (path / "within").mkdir(parents=True)


def unreadable(path: Path) -> None:
    path.chmod(0)


def a_link_to_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "no" / "where")


DAMAGES: tuple[Callable[[Path], None], ...] = (
    empty, cut_in_half, another_kind, a_folder, unreadable, a_link_to_nowhere,
)  # fmt: skip


@contextmanager
def without_privileges() -> Iterator[None]:
    """Rights of files hold for root, too: its capabilities to read anything are put aside."""
    if os.geteuid() != 0:
        yield
        return
    libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) != 0:
        pytest.skip("this system does not tell what root may do")
    held = sets[0]
    sets[0] = held & ~_READS_ANYTHING
    libc.capset(header, sets)
    try:
        yield
    finally:
        sets[0] = held
        libc.capset(header, sets)


@contextmanager
def no_room_to_write() -> Iterator[None]:
    """Every file ends after some hundred bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def no_room_to_rename() -> Iterator[None]:
    """The disk is full when a file that was written takes its place."""

    def refuse(*_: object) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        yield


FULL_DISKS = (no_room_to_write, no_room_to_rename)


def removed(path: Path) -> None:
    """Take away whatever a damage left there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
