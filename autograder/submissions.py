"""The submissions of a class, as they lie in a folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from autograder.errors import CourseError


class Submission(NamedTuple):
    """One student's notebook in a folder of submissions."""

    student: str
    path: Path


def submissions(folder: Path, assignment: str) -> list[Submission]:
    """The submissions to one assignment in nbgrader's layout, ``<student>/<assignment>/<assignment>.ipynb``.

    A lone notebook of another name counts too: students rename files.
    """
    if not folder.is_dir():
        raise CourseError(f"the folder of submissions {folder} does not exist; name it with --submissions.")
    found = []
    for place in sorted(folder.glob(f"*/{assignment}")):
        if place.parent.name.startswith(".") or not place.is_dir():
            continue
        path = place / f"{assignment}.ipynb"
        others = [other for other in place.glob("*.ipynb") if not other.name.startswith(".")]
        if not path.exists() and len(others) == 1:
            [path] = others
        found.append(Submission(place.parent.name, path))
    return found


def digest(path: Path) -> str:
    """SHA-256 (hex) of a file, to know it again; empty where it can't be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
