"""The submissions of a class, as they lie in a folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from autograder.errors import CourseError, UnusableNotebook

SUFFIX, CHECKPOINTS = ".ipynb", ".ipynb_checkpoints"
MAX_NESTED = 50
"""Folders of a submission that are looked into."""


class Submission(NamedTuple):
    """One student's notebook in a folder of submissions.

    Attributes:
        student: whose.
        path: the notebook, or where it should be.
        folder: all that the student handed in; the notebook may lie one folder deeper.
    """

    student: str
    path: Path
    folder: Path

    @property
    def name(self) -> str:
        """The notebook's name within the folder."""
        return self.path.relative_to(self.folder).as_posix()


def submissions(folder: Path, assignment: str) -> list[Submission]:
    """The submissions to one assignment in nbgrader's layout, ``<student>/<assignment>/<assignment>.ipynb``.

    A lone notebook of another name, or one folder deeper, counts too: students rename files and unpack archives. Links
    to folders are not followed: what they lead to is not the student's.
    """
    if folder.is_file():
        raise CourseError(f"{folder} is a file, and no folder of submissions; name one with --submissions.")
    if not folder.is_dir():
        raise CourseError(f"the folder of submissions {folder} does not exist; name it with --submissions.")
    return [
        Submission(place.parent.name, _notebook_in(place, assignment), place)
        for place in sorted(folder.glob(f"*/{assignment}"))
        if not place.parent.name.startswith(".")
        and is_text(place.parent.name)
        and not place.is_symlink()
        and not place.parent.is_symlink()
        and place.is_dir()
    ]


def notebooks_in(folder: Path) -> list[Path]:
    """The notebooks in a folder, by their names, and behind them those one folder deeper. No hidden ones."""
    deeper = [folder / name for name in visible(folder) if not (folder / name).is_symlink()]
    places = [folder, *[place for place in deeper if place.is_dir()][:MAX_NESTED]]
    return [path for place in places for path in _notebooks(place)]


def checkpoints_in(folder: Path) -> list[str]:
    """The copies that Jupyter makes beside a notebook, by name. They are told, never graded: they are older."""
    try:
        return sorted(name for name in os.listdir(folder / CHECKPOINTS) if name.lower().endswith(SUFFIX))
    except OSError:
        return []


def _notebook_in(folder: Path, assignment: str) -> Path:
    """The one notebook that is meant, or where it should be."""
    expected = folder / f"{assignment}{SUFFIX}"
    found = notebooks_in(folder)
    at_hand = [path for path in found if path.parent == folder] or found
    if expected in at_hand:
        return expected
    for candidates in ([path for path in at_hand if _is_named(path, assignment)],
                       [path for path in found if _is_named(path, assignment)], at_hand):  # fmt: skip
        if len(candidates) == 1 or (candidates and _are_copies(candidates)):
            return candidates[0]
    return expected


def _is_named(path: Path, assignment: str) -> bool:
    return path.name.lower() == f"{assignment}{SUFFIX}".lower()


def _are_copies(paths: list[Path]) -> bool:
    """Whether these files hold the same bytes, and some."""
    if len(paths) > MAX_NESTED or any(path.is_symlink() or not path.stat().st_size for path in paths):
        return False
    digests = {digest(path) for path in paths}
    return len(digests) == 1 and "" not in digests


def _notebooks(folder: Path) -> list[Path]:
    named = [folder / name for name in visible(folder) if name.lower().endswith(SUFFIX)]
    return [path for path in named if path.is_symlink() or not path.is_dir()]


def strange_folders(folder: Path, assignments: Collection[str]) -> list[tuple[str, str]]:
    """The folders in students' folders that no assignment is called by, each behind its student."""
    return [
        (place.parent.name, place.name)
        for place in sorted(folder.glob("*/*"))
        if place.is_dir()
        and place.name not in assignments
        and "." not in (place.name[0], place.parent.name[0])
        and is_text(place.parent.name)
    ]


def is_text(name: str) -> bool:
    """Whether a file's name is text, which not all are that a disk can hold; a gradebook takes no other."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def visible(folder: Path) -> list[str]:
    """The names in a folder, sorted, without hidden ones; none where it can't be looked into."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def digest(path: Path) -> str:
    """SHA-256 (hex) of a submitted file, to know it again; empty where it can't be read."""
    from autograder.notebook import file_content  # with libraries that `--help` does without

    try:
        return hashlib.sha256(file_content(path, follow=False)).hexdigest()
    except UnusableNotebook:
        return ""
