"""The submissions of a class, as they lie in a folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from autograder.errors import CourseError, UnusableNotebook
from autograder.notebook import file_content


class Submission(NamedTuple):
    """One student's notebook in a folder of submissions."""

    student: str
    path: Path


def submissions(folder: Path, assignment: str) -> list[Submission]:
    """The submissions to one assignment in nbgrader's layout, ``<student>/<assignment>/<assignment>.ipynb``.

    A lone notebook of another name counts too: students rename files. Links to folders are not followed: what they
    lead to is not the student's.
    """
    if not folder.is_dir():
        raise CourseError(f"the folder of submissions {folder} does not exist; name it with --submissions.")
    found = []
    for place in sorted(folder.glob(f"*/{assignment}")):
        if place.parent.name.startswith(".") or place.is_symlink() or place.parent.is_symlink() or not place.is_dir():
            continue
        path = place / f"{assignment}.ipynb"
        names = visible(place)
        others = [name for name in names if name.endswith(".ipynb")]
        if path.name not in names and len(others) == 1:
            path = place / others[0]
        found.append(Submission(place.parent.name, path))
    return found


def strange_folders(folder: Path, assignments: Collection[str]) -> list[tuple[str, str]]:
    """The folders in students' folders that no assignment is called by, each behind its student."""
    return [
        (place.parent.name, place.name)
        for place in sorted(folder.glob("*/*"))
        if place.is_dir() and place.name not in assignments and "." not in (place.name[0], place.parent.name[0])
    ]


def visible(folder: Path) -> list[str]:
    """The names in a folder, sorted, without hidden ones; none where it can't be looked into."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def digest(path: Path) -> str:
    """SHA-256 (hex) of a submitted file, to know it again; empty where it can't be read."""
    try:
        return hashlib.sha256(file_content(path, follow=False)).hexdigest()
    except UnusableNotebook:
        return ""
