"""The submissions of a class, as they lie in a folder."""

from __future__ import annotations

import hashlib
import os
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
        try:
            names = os.listdir(place)
        except PermissionError:
            names = []
        others = [name for name in names if name.endswith(".ipynb") and not name.startswith(".")]
        if path.name not in names and len(others) == 1:
            path = place / others[0]
        found.append(Submission(place.parent.name, path))
    return found


def digest(path: Path) -> str:
    """SHA-256 (hex) of a submitted file, to know it again; empty where it can't be read."""
    try:
        return hashlib.sha256(file_content(path, follow=False)).hexdigest()
    except UnusableNotebook:
        return ""
