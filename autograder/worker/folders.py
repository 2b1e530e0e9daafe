"""Removing folders in which student code has worked.

It may have left names that are not UTF-8, folders without permissions, or a thousand folders in one another,
deeper than any path reaches. No link is followed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def remove(folder: Path) -> None:
    """Remove `folder` and all that is in it. The worker that owned it must be dead.

    Somebody else may remove it at the same time: what has vanished is no error. After an error the rest is removed
    all the same.

    Raises:
        OSError: something is left; the first error says what.
    """
    if os.name != "posix":  # only tier C, trusted code, runs there
        shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        errors = _empty(top)
    finally:
        os.close(top)
    with _noting(errors):
        os.rmdir(folder)
    if errors:
        raise errors[0]


@contextlib.contextmanager
def _noting(errors: list[OSError]) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        errors.append(error)


def _empty(top: int) -> list[OSError]:
    """Empty the folder open as `top`: down by name and up by "..", step by step, so depth does not matter.

    Returns:
        What went wrong.
    """
    errors: list[OSError] = []
    current = os.dup(top)
    entered: list[str] = []
    waiting = [_folders_left(current)]
    try:
        while waiting:
            if waiting[-1]:
                name = waiting[-1].pop()
                with _noting(errors):
                    os.chmod(name, 0o700, dir_fd=current)
                    current = _step(current, name)
                    entered.append(name)
                    waiting.append([])
                    waiting[-1] = _folders_left(current)
            else:
                waiting.pop()
                if entered:
                    current = _step(current, "..")
                    with _noting(errors):
                        os.rmdir(entered.pop(), dir_fd=current)
    finally:
        os.close(current)
    return errors


def _step(folder: int, name: str) -> int:
    """From one open folder to another; the first is closed, unless there is no other."""
    other = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    os.close(folder)
    return other


def _folders_left(folder: int) -> list[str]:
    """What is left in the open folder after all that is no folder has been unlinked."""
    return [name for name in os.listdir(folder) if not _unlinked(name, folder)]


def _unlinked(name: str, parent: int) -> bool:
    """Unlink `name`; False if it is still there, as a folder is."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
