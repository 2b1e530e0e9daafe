"""One class run at a time."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograder.course import STATE_FOLDER, Course
from autograder.errors import CourseError


@contextmanager
def alone(course: Course, graded: Path) -> Iterator[None]:
    """Keep other class runs out while this one writes; the lock ends with the process, however it ends.

    It does not keep out nbgrader's own commands, which know nothing of it.

    Args:
        course: the course.
        graded: the folder of graded notebooks.

    Raises:
        CourseError: another run is at work here.
    """
    place = hashlib.sha256(str(graded.resolve()).encode()).hexdigest()[:16]
    path = course.root / STATE_FOLDER / f"grade-{place}.lock"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CourseError(f"another `autograder grade` is writing to {graded}; wait until it has ended.") from None
        yield
