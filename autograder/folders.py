"""A folder as it was: what is in it, remembered so that a change is seen without reading everything again."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

MAX_FILES = 1_000
"""Files of one folder that are remembered; a submission with more is recorded anew by every run."""
MAX_COMPARED = 32 << 20
"""Bytes of a file whose content is compared where its times have changed."""
MAX_READ = 1 << 20
"""Bytes of a submitted file whose content is always compared."""


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was: its status, and SHA-256 of its content (a link's is where it leads)."""

    mode: int
    size: int
    times: tuple[int, int]
    inode: int
    content: bytes = b""


Snapshot = dict[str, Seen]
"""What a folder holds, by the names in it."""


def snapshot(folder: Path) -> Snapshot | None:
    """What a folder holds now; None where that is too much to remember, or can't be read."""
    found: Snapshot = {}
    try:
        for name, path, status in _files(folder):
            found[name] = Seen(*_status(status), _content(path, status, MAX_COMPARED) or b"")
    except (OSError, OverflowError, UnicodeError):
        return None
    return found


def drafts(folder: Path) -> tuple[Path, Path]:
    """Where a new folder is made before it takes the place of one, and where the old one goes until then."""
    return folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")


def is_as(folder: Path, then: Snapshot | None, read: bool = False) -> bool:
    """Whether a folder holds what it held `then`.

    A file whose times, size and inode are the same is the same; where they are not, its content decides.

    Args:
        folder: the folder.
        then: what it held; None never holds.
        read: compare the content of small files in any case.
    """
    if then is None:
        return False
    met = 0
    try:
        for name, path, status in _files(folder):
            seen = then.get(name)
            if seen is None or (seen.mode, seen.size) != _status(status)[:2]:
                return False
            met += 1
            is_same = _status(status)[2:] == (seen.times, seen.inode)
            if is_same and not (read and status.st_size <= MAX_READ):
                continue
            if stat.S_ISDIR(status.st_mode):
                continue  # what it holds decides
            if not seen.content or _content(path, status, MAX_COMPARED) != seen.content:
                return False
    except (OSError, OverflowError):  # it can't be read, or holds too much by now
        return False
    return met == len(then)


def fingerprints_in(folder: Path) -> list[bytes]:
    """What tells a folder of the course, of any size, from another: names, modes, and contents.

    Large files are not read: their times, which no copy and no editor leaves alone, stand for their content.

    Raises:
        OSError: something can't be read.
    """
    parts = []
    for name, path, status in sorted(_files(folder, sys.maxsize), key=lambda one: one[0]):
        mode, size, times, inode = _status(status)
        content = _content(path, status, MAX_READ)
        known = content if content is not None else f"{size} {times} {inode}".encode()
        parts += [name.encode(), str(mode).encode(), known]
    return parts


def _files(folder: Path, most: int = MAX_FILES) -> Iterator[tuple[str, str, os.stat_result]]:
    """All that a folder holds, at any depth, links not followed.

    Raises:
        OverflowError: that is more than `most`.
    """
    room, folders = most, [("", os.fspath(folder))]
    while folders:
        prefix, place = folders.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                room -= 1
                if room < 0:
                    raise OverflowError
                status, name = entry.stat(follow_symlinks=False), prefix + entry.name
                yield as_text(name), entry.path, status
                if stat.S_ISDIR(status.st_mode):
                    folders.append((f"{name}/", entry.path))


def as_text(name: str) -> str:
    """A file's name as text, even where its bytes are none."""
    return os.fsencode(name).decode("latin-1")


def _status(status: os.stat_result) -> tuple[int, int, tuple[int, int], int]:
    if stat.S_ISDIR(status.st_mode):  # its times and size tell nothing that its entries do not
        return status.st_mode, 0, (0, 0), 0
    return status.st_mode, status.st_size, (status.st_mtime_ns, status.st_ctime_ns), status.st_ino


def _content(path: str, status: os.stat_result, room: int) -> bytes | None:
    if stat.S_ISLNK(status.st_mode):
        return hashlib.sha256(os.fsencode(os.readlink(path))).digest()
    if not stat.S_ISREG(status.st_mode) or status.st_size > room:
        return None
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
