"""One warm grader for all that grades in this process: its start takes longer than a class of a few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from autograder.course import Course, load_course
from autograder.grading import Grader
from autograder.nbgrader import preprocessors


@contextmanager
def one_grader(root: Path, assignments: Sequence[str] = ()) -> Iterator[None]:
    """The commands, and nbgrader's preprocessors, of any copy of the course in `root` use one grader of it."""
    course = load_course(root)
    grader = Grader(course, course.confinement.grade, workers=2, assignments=assignments)

    @contextmanager
    def warm(folder: Path) -> Iterator[tuple[Course, Grader]]:
        yield load_course(folder), grader

    with grader, pytest.MonkeyPatch.context() as patch:
        patch.setattr("autograder.grading.Grader", lambda *_, **__: Mock(wraps=grader, close=Mock()))
        patch.setattr(preprocessors, "grader_of", warm)
        yield
