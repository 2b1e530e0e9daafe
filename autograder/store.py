"""The results of earlier runs, by what they were made from: an unchanged submission costs a look-up.

An entry lies in ``.autograder/results`` under a name that is a hash of the submitted bytes, of all that decides a score
beside them (`autograder.course.suite_hash`), the seed, the assignment and the confinement that grading requires. It
holds what the report, the graded notebook and the gradebook's rows are made from. Only this package writes there, and
no confined worker can look into the course's folder (tier C confines nothing: it is for one's own work alone); nothing
is ever taken from ``autograded/`` in its place.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from autograder.course import Course
from autograder.examiner.job import Examined
from autograder.grading import Graded
from autograder.kept import read_kept, results_folder, tidy, use, write_kept
from autograder.mend import Mended
from autograder.report import GradeReport

MAX_TOTAL = 1 << 30
"""Bytes of all results; those that were used last stay."""


class _Kept(msgspec.Struct, frozen=True):
    """One result; `key` tells a file that was renamed from one that belongs here."""

    key: str
    report: GradeReport
    mended: Mended
    examined: Examined | None


class ResultStore:
    """The kept results of a course. Where its folder can't be used nothing is found, and nothing is kept."""

    def __init__(self, course: Course) -> None:
        self._folder = results_folder(course)

    def get(self, key: str, path: Path) -> Graded | None:
        """A result, as if it were made just now from the file `path`; None where there is none, or a damaged one."""
        kept = read_kept(self._folder / key, _Kept) if key else None
        if kept is None or kept.key != key or kept.report.status != "graded":
            return None
        self.use(key)
        return Graded(msgspec.structs.replace(kept.report, notebook=str(path)), kept.mended, kept.examined)

    def put(self, key: str, graded: Graded) -> Graded:
        """Keep a result, in place of an older one; only one that was graded, never a fault of ours.

        Returns:
            the same result as `get` will give it, so that what is made from either is the same to the byte.
        """
        if not key or graded.report.status != "graded" or graded.mended is None:
            return graded
        name = graded.report.notebook
        kept = _Kept(key, msgspec.structs.replace(graded.report, notebook=""), graded.mended, graded.examined)
        try:
            content = msgspec.msgpack.encode(kept)
            same = msgspec.msgpack.decode(content, type=_Kept)
        except (TypeError, ValueError, OverflowError, RecursionError):  # what crosses no channel is not kept
            return graded
        write_kept(self._folder / key, content)
        return Graded(msgspec.structs.replace(same.report, notebook=name), same.mended, same.examined)

    def use(self, key: str) -> None:
        """Note that a run has made use of a result."""
        use([self._folder / key])

    def tidy(self) -> None:
        """Drop what no run has used for `MAX_DAYS`, and beyond `MAX_TOTAL` bytes what was used longest ago."""
        tidy(self._folder, MAX_TOTAL)
