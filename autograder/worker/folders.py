"""Removing folders in which student code has worked.

It may have left names that are not UTF-8, folders without permissions, or a thousand folders in one another,
deeper than any path reaches. No link is followed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def remove(folder: Path) -> None:
    """Remove `folder` and all that is in it. The worker that owned it must be dead."""
    if os.name != "posix":  # only tier C, trusted code, runs there
        shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        _empty(top)
    finally:
        os.close(top)
    os.rmdir(folder)


def _empty(top: int) -> None:
    """Empty the folder open as `top`: down by name and up by "..", step by step, so depth does not matter."""
    current = os.dup(top)
    entered: list[str] = []
    waiting = [_folders_left(current)]
    try:
        while waiting:
            if waiting[-1]:
                name = waiting[-1].pop()
                os.chmod(name, 0o700, dir_fd=current)
                current = _step(current, name)
                entered.append(name)
                waiting.append(_folders_left(current))
            else:
                waiting.pop()
                if entered:
                    current = _step(current, "..")
                    os.rmdir(entered.pop(), dir_fd=current)
    finally:
        os.close(current)


def _step(folder: int, name: str) -> int:
    """From one open folder to another; the first is closed."""
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)


def _folders_left(folder: int) -> list[str]:
    """The folders in the open folder, after all else in it has been unlinked."""
    return [name for name in os.listdir(folder) if not _unlinked(name, folder)]


def _unlinked(name: str, parent: int) -> bool:
    """Unlink `name`; False if it is a folder."""
    try:
        os.unlink(name, dir_fd=parent)
    except (IsADirectoryError, PermissionError):
        return False
    return True
