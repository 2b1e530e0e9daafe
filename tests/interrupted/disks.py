"""A course on a small disk that is nearly full."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interrupted.classes import SmallClass

BLOCK = 4096
ROOM = 4 * BLOCK
"""What is left: less than a graded notebook takes, and than a commit to the gradebook."""


@contextlib.contextmanager
def full(small: SmallClass, part: str = "") -> Iterator[Callable[[], None]]:
    """Put a course, or a folder of it, on a disk of its own that is nearly full; yields a function that makes room.

    The test is skipped where nothing may be mounted.
    """
    folder = small.course / part
    copy = shutil.copytree(folder, small.root / "elsewhere")
    size = sum(path.stat().st_size + BLOCK for path in copy.rglob("*")) + (16 << 20)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)]
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        if not is_mounted:
            pytest.skip("a small disk can't be mounted here")
        shutil.copytree(copy, folder, dirs_exist_ok=True)
        filler = folder / ".filler.new"  # as a draft is called: nobody counts it as a graded notebook
        _fill(filler, ROOM)
        yield filler.unlink
    finally:
        if is_mounted:
            subprocess.run(["umount", str(folder)], check=True)
        shutil.rmtree(copy)


def _fill(filler: Path, room: int) -> None:
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while (free := shutil.disk_usage(filler).free) > room:
            file.write(bytes(min(1 << 16, free - room)))
            file.flush()
