"""What several test modules need: a small course in a folder of its own, and notebooks to put there."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autograder.grading import Grader
from tests import engine
from tests.damaged import summary as of_damaged
from tests.redteam import summary as of_redteam

REPOSITORY = Path(__file__).parent.parent

COURSE = """\
title: A course
limits:
  call_seconds: 2
confinement:
  grade: B
forbidden:
  finished:
    - torch.nn.MultiheadAttention
    - torch.nn.functional.scaled_dot_product_attention
  loss:
    - torch.nn.functional.cross_entropy
assignments:
  attention:
    title: Attention
    minutes: 30
    due: 2026-12-20T23:59:00+08:00
    exercises:
      double:
        forbidden: [finished, loss]
      half:
"""


def pytest_configure(config: pytest.Config) -> None:
    """The lines at the end of a run; under xdist the process that prints loads this file alone."""
    for summary in (of_damaged, of_redteam):
        config.pluginmanager.register(summary)


def code(source: str, **nbgrader: Any) -> dict[str, Any]:
    """A code cell; with keywords, one that nbgrader knows. Its id comes from the source."""
    metadata: dict[str, Any] = {}
    if nbgrader:
        metadata["nbgrader"] = {
            "schema_version": 3,
            "task": False,
            "grade": False,
            "locked": False,
        } | nbgrader
    return {
        "cell_type": "code",
        "id": f"c{abs(hash(source)) % 10**8}",
        "metadata": metadata,
        "execution_count": None,
        "outputs": [],
        "source": source,
    }


def notebook(*cells: dict[str, Any]) -> dict[str, Any]:
    """A notebook of format 4.5 as JSON values."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": list(cells), "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


SOURCE = notebook(
    {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# Twice"},
    code(
        "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION",
        grade_id="double",
        solution=True,
    ),
    code("assert double(2) == 4", grade_id="test_double", grade=True, locked=True, solution=False, points=4),
)

HALF = (
    code(
        "def half(x):\n    ### BEGIN SOLUTION\n    return x / 2\n    ### END SOLUTION",
        grade_id="half",
        solution=True,
    ),
    code("assert half(2) == 1", grade_id="test_half", grade=True, locked=True, solution=False, points=2),
)


@pytest.fixture
def course_folder(tmp_path: Path) -> Path:
    """A course with one assignment, `attention`: a source notebook and a hidden suite, no release yet."""
    root = tmp_path / "course"
    source = root / "source" / "attention" / "attention.ipynb"
    suite = root / "tests" / "hidden" / "attention" / "test_double.py"
    for folder in (source.parent, suite.parent):
        folder.mkdir(parents=True)
    (root / "course.yml").write_text(COURSE)
    source.write_text(json.dumps(notebook(*SOURCE["cells"], *HALF)))
    suite.write_text("def test_value(student): ...\n")
    return root


@pytest.fixture
def write_course(course_folder: Path) -> Callable[[str, str], Path]:
    """A function that replaces one piece of the course file, and returns the course's folder."""

    def write(old: str, new: str) -> Path:
        assert COURSE.count(old) == 1
        (course_folder / "course.yml").write_text(COURSE.replace(old, new))
        return course_folder

    return write


@pytest.fixture(scope="session")
def one_alembic() -> None:
    """Ask alembic for its version once in a test run: nbgrader starts a process for it for each new gradebook."""
    from nbgrader import api

    from autograder.nbgrader.config import provide_alembic

    provide_alembic()
    api.get_alembic_version = functools.cache(api.get_alembic_version)


@pytest.fixture(scope="session")
def grader() -> Iterator[Grader]:
    """A warm grader of the real course: its start takes seconds, a submission tenths of one."""
    course = engine.course()
    limits = msgspec.structs.replace(course.limits, call_seconds=2.0)  # hangs are waited for
    with Grader(msgspec.structs.replace(course, limits=limits), "B", workers=2) as grader:
        yield grader
