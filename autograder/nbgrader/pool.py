"""One warm grader for each course, shared by preprocessors, which nbgrader makes anew for every notebook."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autograder.course import Course, load_course, suite_hash
from autograder.grading import Grader

IDLE_SECONDS = 600.0
"""How long a grader is kept for the next click in formgrader; its two processes hold 400 MB."""


@dataclass
class _Kept:
    course: Course
    hashes: tuple[str, ...]
    grader: Grader
    closing: threading.Timer | None = None


_kept: dict[Path, _Kept] = {}
_lock = threading.RLock()


@contextmanager
def grader_of(root: Path) -> Iterator[tuple[Course, Grader]]:
    """The course in `root` as it is now, and a warm grader for it; one caller at a time.

    Raises:
        CourseError, ConfinementUnavailable, GraderFault: as `Grader` does.
    """
    with _lock:
        kept = _current(root)
        if kept.closing is not None:
            kept.closing.cancel()
        try:
            yield kept.course, kept.grader
        finally:
            kept.closing = threading.Timer(IDLE_SECONDS, _close, [root])
            kept.closing.daemon = True
            kept.closing.start()


def forget(root: Path) -> None:
    """End the grader of a course, after a fault of it: the next submission gets a new one."""
    _close(root)


def close_all() -> None:
    """End all graders."""
    for root in list(_kept):
        _close(root)


def _current(root: Path) -> _Kept:
    """The kept grader, or a new one where the course or its hidden suites have changed since."""
    course = load_course(root)
    hashes = tuple(suite_hash(course, name) for name in course.assignments if course.suites(name))
    kept = _kept.get(root)
    if kept is None or (kept.course, kept.hashes) != (course, hashes):
        _close(root)
        grader = Grader(course, course.confinement.grade)
        try:
            grader.wait()
        except BaseException:
            grader.close()
            raise
        kept = _kept[root] = _Kept(course, hashes, grader)
    return kept


def _close(root: Path) -> None:
    with _lock:
        kept = _kept.pop(root, None)
        if kept is not None:
            if kept.closing is not None:
                kept.closing.cancel()
            kept.grader.close()


atexit.register(close_all)
