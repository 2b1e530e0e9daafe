"""Files of ours that later runs read again: written whole or not at all, and never believed when they are damaged."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

MAGIC = b"autograder state 1\n"
MAX_CONTENT = 64 << 20
"""Bytes of what one file holds, by default; more is not written."""
RESULTS, LEDGERS = "results", "ledgers"
"""The folders of such files, within `STATE_FOLDER`: results of submissions, and what runs note about classes."""
PACKED = 4
"""How much smaller the file has to be."""
MAX_DAYS = 180
"""How long a file stays that no run has used."""
DAY = 86_400.0
HASH = 32
"""Bytes of a checksum."""

Item = TypeVar("Item")


def use(paths: Iterable[Path]) -> None:
    """Note that a run has made use of these files."""
    for path in paths:
        with suppress(OSError):
            os.utime(path)


def write_state(path: Path, content: bytes, most: int = MAX_CONTENT) -> bool:
    """Write a file of ours whole, or not at all: into a new file beside it, which then takes its place.

    Returns:
        whether it is there now; not where it is too large (`most` bytes before it is packed), or can't be written.

    A machine that stops in between leaves a file whose checksum is wrong, which is ignored; so nothing waits for disks.
    """
    packed = _packed(content) if len(content) <= most else b""
    if not packed or len(packed) > most // PACKED:
        return False
    draft = path.with_name(f".{secrets.token_hex(8)}.new")
    try:
        if not _make_folder(path.parent):
            return False
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(packed)
        draft.replace(path)
    except OSError:  # a full disk, a folder in its place: grading goes on without it
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        return False
    return True


def is_small(content: bytes, most: int = MAX_CONTENT) -> bool:
    """Whether `write_state` writes so much."""
    return len(content) <= most and len(_packed(content)) <= most // PACKED


def read_state(path: Path, kind: type[Item], most: int = MAX_CONTENT) -> Item | None:
    """What `write_state` wrote; None of a file that is damaged, too large, or not ours."""
    try:
        packed = _read(path, most // PACKED)
        if packed is None or not packed.startswith(MAGIC):
            return None
        check, packed = packed[len(MAGIC) : len(MAGIC) + HASH], packed[len(MAGIC) + HASH :]
        content = zlib.decompressobj().decompress(packed, most)
        if hashlib.sha256(content).digest() != check:
            return None
        return msgspec.msgpack.decode(content, type=kind)
    except (OSError, zlib.error, msgspec.MsgspecError, RecursionError):
        return None


class Journal:
    """A file of records that grows while a run is at work; one that was cut off within a record ends before it."""

    MAGIC = b"autograder journal 1\n"
    MAX = 1 << 30
    """Bytes of a journal; more is neither written nor read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end: int | None = None

    def read(self) -> list[bytes]:
        """The records so far."""
        try:
            content = _read(self._path, self.MAX) or b""
        except OSError:
            content = b""
        self._end = 0
        return list(self._records(content))

    def _records(self, content: bytes) -> Iterator[bytes]:
        place = len(self.MAGIC)
        while content.startswith(self.MAGIC) and place < len(content):
            size = int.from_bytes(content[place + HASH : place + HASH + 4], "big")
            record = content[place + HASH + 4 : place + HASH + 4 + size]
            if hashlib.sha256(record).digest() != content[place : place + HASH]:
                return
            try:
                yield zlib.decompressobj().decompress(record, MAX_CONTENT)
            except zlib.error:
                return
            place += HASH + 4 + size
            self._end = place

    def append(self, record: bytes) -> None:
        """Add a record. Where that can't be done, a run that is killed leaves less to the next one, and no more."""
        if self._end is None:
            self.read()
        end = self._end or 0
        content = zlib.compress(record)
        packed = hashlib.sha256(content).digest() + len(content).to_bytes(4, "big") + content
        packed = packed if end else self.MAGIC + packed
        if end + len(packed) > self.MAX:
            return
        with suppress(OSError):
            flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            if _make_folder(self._path.parent):
                with os.fdopen(os.open(self._path, flags, 0o600), "wb") as file:
                    if _is_ours(os.fstat(file.fileno()), stat.S_ISREG):
                        file.truncate(end)  # of a run that was killed within a record
                        file.seek(end)
                        file.write(packed)
                        file.flush()
                        self._end = end + len(packed)

    def remove(self) -> None:
        """Begin anew."""
        self._end = 0
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def tidy(folder: Path, room: int) -> None:
    """Drop files that were not used for long, drafts of runs that were stopped, and what there is no room for."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                found.append((status.st_mtime, status.st_size, entry))
    now = time.time()
    for used, size, entry in sorted(found, key=lambda one: one[0], reverse=True):
        room -= size
        too_old = DAY if entry.name.startswith(".") else MAX_DAYS * DAY
        if room < 0 or now - used > too_old:
            with suppress(OSError):
                os.unlink(entry.path)


def _packed(content: bytes) -> bytes:
    # A tenth larger than by level 6, in half the time.
    return MAGIC + hashlib.sha256(content).digest() + zlib.compress(content, 3)


def _make_folder(folder: Path) -> bool:
    """Make a folder of ours, for this user alone; whether it is one now."""
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return _is_ours(folder.lstat(), stat.S_ISDIR)


def _read(path: Path, most: int) -> bytes | None:
    """A file of ours; None of one that is too large, or not ours."""
    if not _is_ours(path.parent.lstat(), stat.S_ISDIR):
        return None
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not _is_ours(status, stat.S_ISREG) or status.st_size > most:
            return None
        return file.read(most + 1)


def _is_ours(status: os.stat_result, is_kind: object) -> bool:
    """Whether a file or folder is of its kind, is this user's, and can be written by nobody else."""
    return bool(
        is_kind(status.st_mode)  # type: ignore[operator]
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
