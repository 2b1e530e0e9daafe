"""The private folders of workers, seen from outside: how full they are. Nothing here follows a link."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from autograder.worker.folders import remove

__all__ = ["Watch", "make", "remove", "size"]

_BLOCK = 512  # unit of st_blocks, whatever the file system
_COST_OF_AN_ENTRY = 4096  # an empty file or folder is not free either
_DEEPEST = 64
_INTERVAL = 0.1


def make(purpose: str, inside: Path | None = None) -> Path:
    """A new empty folder that only this user can enter, `inside` another or where temporary files go."""
    return Path(tempfile.mkdtemp(prefix=f"autograder-{purpose}-", dir=inside)).resolve()


def size(folder: Path, enough: int | None = None) -> int:
    """Bytes on disk beneath `folder`; looking ends at `enough`, which too deep or closed folders count as."""
    total = 0
    waiting = [(str(folder), 0)]
    while waiting and (enough is None or total < enough):
        path, depth = waiting.pop()
        try:
            entries = os.scandir(path)
        except FileNotFoundError:
            continue
        except OSError:
            return total if enough is None else enough
        with entries:
            for entry in entries:
                try:
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK + _COST_OF_AN_ENTRY
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, depth + 1))
                except FileNotFoundError:
                    continue
                except OSError:  # deeper than any path reaches
                    return total if enough is None else enough
        if depth > _DEEPEST and enough is not None:
            return enough
    return total


class Watch:
    """Calls `overflow` once if `folder` holds more than `limit` bytes, or its disk has less left."""

    def __init__(self, folder: Path, limit: int, overflow: Callable[[], None]) -> None:
        self._folder = folder
        self._limit = limit
        self._overflow = overflow
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"watch {folder}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more; returns when the folder is no longer touched."""
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(_INTERVAL):
            if self._is_too_full():
                self._overflow()
                return

    def _is_too_full(self) -> bool:
        # Files that were unlinked while open count nowhere in the folder, but on the disk.
        disk = os.statvfs(self._folder)
        return size(self._folder, self._limit + 1) > self._limit or disk.f_bavail * disk.f_frsize < self._limit
