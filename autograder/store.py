"""The results of earlier runs, by what they were made from: an unchanged submission costs a look-up.

An entry lies in ``.autograder/results`` under a name that is a hash of the submitted bytes, of all that decides a score
beside them (`autograder.course.suite_hash`), the seed, the assignment and the confinement that grading requires. It
holds what the report, the graded notebook and the gradebook's rows are made from. Only this package writes there, and
no confined worker can look into the course's folder (tier C confines nothing: it is for one's own work alone); nothing
is ever taken from ``autograded/`` in its place.

A result in which a time limit has decided, or a process that somebody else has killed, is `provisional`: on a quieter
machine it may be another. It is kept, so that an unchanged class with an endless loop in it costs a look-up; and the
next run that examines anything of its assignment examines it once more, of which the better result stays (`second`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from autograder.course import STATE_FOLDER, Course
from autograder.examiner.job import Examined
from autograder.grading import Graded
from autograder.mend import Mended
from autograder.report import GradeReport
from autograder.statefiles import RESULTS, is_small, read_state, tidy, use, write_state

MAX_TOTAL = 1 << 30
"""Bytes of all results; those that were used last stay."""


class _Stored(msgspec.Struct, frozen=True):
    """One result; `key` tells a file that was renamed from one that belongs here."""

    key: str
    report: GradeReport
    mended: Mended
    examined: Examined | None


class ResultStore:
    """The kept results of a course. Where its folder can't be used nothing is found, and nothing is kept."""

    def __init__(self, course: Course) -> None:
        self._folder = course.root / STATE_FOLDER / RESULTS

    def get(self, key: str, path: Path) -> Graded | None:
        """A result, as if it were made just now from the file `path`; None where there is none, or a damaged one."""
        stored = read_state(self._folder / key, _Stored) if key else None
        if stored is None or stored.key != key or stored.report.status != "graded":
            return None
        self.use(key)
        return Graded(msgspec.structs.replace(stored.report, notebook=str(path)), stored.mended, stored.examined)

    def put(self, key: str, graded: Graded) -> Graded:
        """Keep a result, in place of an older one; only one that was graded, never a fault of ours.

        One that can't be kept leaves no older one in its place, but where the disk is full.

        Returns:
            the same result as `get` will give it, so that what is made from either is the same to the byte.
        """
        if not key or graded.report.status != "graded" or graded.mended is None:
            return graded
        name = graded.report.notebook
        stored = _Stored(key, msgspec.structs.replace(graded.report, notebook=""), graded.mended, graded.examined)
        try:
            content = msgspec.msgpack.encode(stored)
            same = msgspec.msgpack.decode(content, type=_Stored)
        except (TypeError, ValueError, OverflowError, RecursionError):  # what crosses no channel is not kept
            self._drop(key)
            return graded
        if not write_state(self._folder / key, content) and not is_small(content):
            self._drop(key)
        return Graded(msgspec.structs.replace(same.report, notebook=name), same.mended, same.examined)

    def _drop(self, key: str) -> None:
        with suppress(OSError):
            (self._folder / key).unlink(missing_ok=True)

    def use(self, key: str) -> None:
        """Note that a run has made use of a result."""
        use([self._folder / key])

    def tidy(self) -> None:
        """Drop what no run has used for `MAX_DAYS`, and beyond `MAX_TOTAL` bytes what was used longest ago."""
        tidy(self._folder, MAX_TOTAL)


def provisional(graded: Graded) -> bool:
    """Whether a time limit or a killed process has decided in a result, which nobody has looked at twice."""
    return graded.examined is not None and graded.examined.by_chance


def second(first: Graded, again: Graded) -> Graded:
    """The better one of two results for the same file, of which the first was `provisional`; it is none any more."""
    better = first if (first.report.score or 0.0) > (again.report.score or 0.0) else again
    if better.examined is None:
        return better
    return replace(better, examined=msgspec.structs.replace(better.examined, by_chance=False))
