"""Files of ours that later runs read again: written whole or not at all, and never believed when they are damaged."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from autograder.course import STATE_FOLDER, Course

MAGIC = b"autograder kept 1\n"
MAX_FILE, MAX_CONTENT = 16 << 20, 64 << 20
"""Bytes of one file, and of what it unpacks to; more is not kept."""
MAX_DAYS = 180
"""How long a file stays that no run has used."""
DAY = 86_400.0

Item = TypeVar("Item")


def results_folder(course: Course) -> Path:
    """Where the results of a course are kept (`autograder.store`)."""
    return course.root / STATE_FOLDER / "results"


def result_key(course: Course, submission: str, assignment: str, suites: str, seed: int) -> str:
    """The name of a result.

    Args:
        course: the course, whose grading requires a confinement.
        submission: SHA-256 (hex) of the submitted file; empty where it could not be read, which has no result.
        assignment: which one it answers.
        suites: `suite_hash` of that assignment.
        seed: of the suites' random draws.
    """
    if not submission:
        return ""
    parts = [submission, assignment, suites, str(seed), course.confinement.grade]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def use(paths: Iterable[Path]) -> None:
    """Note that a run has made use of these files."""
    for path in paths:
        with suppress(OSError):
            os.utime(path)


def write_kept(path: Path, content: bytes) -> bool:
    """Write a file of ours whole, or not at all: into a new file beside it, which then takes its place.

    A machine that stops in between leaves a file whose checksum is wrong, which is ignored; so nothing waits for disks.
    """
    packed = MAGIC + hashlib.sha256(content).digest() + zlib.compress(content, 6)
    if len(packed) > MAX_FILE or len(content) > MAX_CONTENT:
        return False
    draft = path.with_name(f".{secrets.token_hex(8)}.new")
    try:
        path.parent.parent.mkdir(mode=0o700, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not _is_ours(path.parent.lstat(), stat.S_ISDIR):
            return False
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(packed)
        draft.replace(path)
    except OSError:  # a full disk, a folder in its place: grading goes on without it
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        return False
    return True


def read_kept(path: Path, kind: type[Item]) -> Item | None:
    """What `write_kept` wrote; None of a file that is damaged, too large, or not ours."""
    try:
        if not _is_ours(path.parent.lstat(), stat.S_ISDIR):
            return None
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not _is_ours(status, stat.S_ISREG) or status.st_size > MAX_FILE:
                return None
            packed = file.read(MAX_FILE + 1)
        if not packed.startswith(MAGIC):
            return None
        check, packed = packed[len(MAGIC) : len(MAGIC) + 32], packed[len(MAGIC) + 32 :]
        content = zlib.decompressobj().decompress(packed, MAX_CONTENT)
        if hashlib.sha256(content).digest() != check:
            return None
        return msgspec.msgpack.decode(content, type=kind)
    except (OSError, zlib.error, msgspec.MsgspecError, RecursionError):
        return None


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


def _is_ours(status: os.stat_result, is_kind: object) -> bool:
    """Whether a file or folder is of its kind, is this user's, and can be written by nobody else."""
    return bool(
        is_kind(status.st_mode)  # type: ignore[operator]
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
