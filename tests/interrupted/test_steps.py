"""A class run that is killed before four of its steps, changes of files and commits to the gradebook; see `MOST`."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from nbgrader import api

from autograder.cli import main
from autograder.nbgrader.config import provide_alembic
from tests.interrupted.classes import copied
from tests.nbgrader.rows import rows
from tests.test_regrade import STUDENTS, ByText, hand_in, state

MOST = {"commit": 3, "os.rename": 1}
"""How many steps are tried that follow one of these, after which something could be half done; spread over the run."""
CHANGES = frozenset({"commit", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.link"})
KILLED = 99


@pytest.fixture
def course(course_folder: Path, monkeypatch: pytest.MonkeyPatch, one_alembic: None) -> Path:
    """A course with three submissions, in whose folder we are; grading takes no examiner."""

    class Quiet(ByText):
        examined: list[str] = []  # noqa: RUF012 - nobody looks

    monkeypatch.setattr("autograder.grading.Grader", Quiet)
    for name in ("classroom", "nbgrader.files", "nbgrader.gradebook"):  # once here, and not in each process
        importlib.import_module(f"autograder.{name}")
    provide_alembic()
    api.get_alembic_version()
    monkeypatch.chdir(course_folder)
    for student, worth in zip(STUDENTS, (4, 2.5, 1), strict=True):
        hand_in(student, worth)
    return course_folder


def test_a_first_run_that_is_killed_before_one_of_four_steps_is_completed(course: Path, tmp_path: Path) -> None:
    expect_completed(course, tmp_path, ["grade"])


def test_a_later_run_that_is_killed_before_one_of_four_steps_is_completed(course: Path, tmp_path: Path) -> None:
    assert main(["grade"]) == 0
    hand_in("ada", 3)
    hand_in("dan", 2)
    expect_completed(course, tmp_path, ["grade", "--fresh"])


def test_a_result_that_was_kept_takes_the_place_of_a_fault_for_the_same_file(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["grade"]) == 0
    right = state()
    hand_in("ada", 3)
    assert main(["grade"]) == 0
    hand_in("ada", 4)
    monkeypatch.setattr(ByText, "fails", True)
    assert main(["grade", "--fresh"]) == 3
    monkeypatch.setattr(ByText, "fails", False)
    assert main(["grade"]) == 0
    assert state() == right


def expect_completed(course: Path, tmp_path: Path, command: list[str]) -> None:
    (course / ".autograder").mkdir(exist_ok=True)
    (course / ".autograder" / "seed").write_text("1\n")
    copy = shutil.copytree(course, tmp_path / "copy")
    old = graded_rows()
    steps = forked(lambda: main(command))
    right, right_rows = state(), graded_rows()
    for step in chosen(steps):
        restore(course, copy)
        assert killed(lambda: main(command), step)
        for student, found in graded_rows().items():
            assert found in (old.get(student), right_rows[student]), (step, student, found)
        assert old.keys() <= graded_rows().keys()
        for path in Path("autograded").glob("*/attention/*.ipynb"):
            json.loads(path.read_text())
        forked(lambda: main(["grade"]))
        assert state() == right, step
        assert [path for path in Path().rglob(".*") if path.parts[0] != ".autograder"] == [], step


def graded_rows() -> dict[str, list[tuple[Any, ...]]]:
    """The grades by student; a copy is read, so that a look changes nothing."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    # It may be about to be made.
    with copied(Path("gradebook.db")) as copy, contextlib.suppress(sqlite3.OperationalError):
        for student, *grade in rows(copy)["grade"] if copy else ():
            found.setdefault(student, []).append(tuple(grade))
    return found


def restore(course: Path, copy: Path) -> None:
    """Put the copy in the place of what is in the course's folder, which stays itself."""
    for path in course.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(copy, course, dirs_exist_ok=True)


def chosen(steps: list[str]) -> list[int]:
    """The steps before which a run is killed."""
    found = []
    for kind, most in MOST.items():
        after = [place + 1 for place, step in enumerate(steps[:-1]) if step == kind]
        assert len(after) >= most
        found += [after[(2 * number + 1) * len(after) // (2 * most)] for number in range(most)]
    return found


def killed(run: Callable[[], int], step: int) -> bool:
    """Run in a process of its own, which ends at once before that step; whether it came so far."""
    return _forked(run, step)[0] == KILLED


def forked(run: Callable[[], int]) -> list[str]:
    """Run in a process of its own; returns its steps."""
    code, steps = _forked(run, None)
    assert code == 0
    return steps


def _forked(run: Callable[[], int], last: int | None) -> tuple[int, list[str]]:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        steps = noted(last)
        code = 1
        with contextlib.suppress(BaseException):
            code = run()
        os.write(writer, json.dumps(steps).encode())
        os._exit(code)
    os.close(writer)
    with open(reader) as said:
        told = said.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), json.loads(told or "[]")


def noted(last: int | None) -> list[str]:
    """A list to which the steps of this process are added from now on; it ends before the `last`."""
    steps: list[str] = []

    def step(event: str, arguments: tuple[Any, ...]) -> None:
        is_written = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in CHANGES or is_written:
            if len(steps) == last:
                os._exit(KILLED)
            steps.append(event)

    sys.addaudithook(step)
    sqlalchemy.event.listen(sqlalchemy.Engine, "commit", lambda _: step("commit", ()))
    return steps
