"""A class run: what is examined, what is recorded, and what an earlier run leaves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.classroom import Result, grade_class
from autograder.course import load_course
from autograder.errors import CourseError, GraderFault
from autograder.grading import Grader
from autograder.nbgrader.config import nbgrader_of
from autograder.nbgrader.gradebook import ClassGradebook
from autograder.submissions import submissions
from tests import courses
from tests.nbgrader.rows import rows

TESTS = "test_scaled_dot_product_attention"


@pytest.fixture
def folder(tmp_path: Path, one_alembic: None) -> Path:
    """A copy of the course with two submissions, and the limits of the session's grader."""
    root = courses.copy_course(tmp_path / "course", "amara", "dora")
    rules = (root / "course.yml").read_text()
    (root / "course.yml").write_text(rules.replace("call_seconds: 5 ", "call_seconds: 2 "))
    return root


Run = Callable[..., list[Result]]


@pytest.fixture
def run(folder: Path, grader: Grader) -> Run:
    """A function that grades the class in that folder."""

    def run_it(warm: Callable[[], Any] = lambda: grader, seed: int = 1, again: bool = False) -> list[Result]:
        course = load_course(folder)
        with ClassGradebook(course, nbgrader_of(course)) as gradebook:
            found = submissions(folder / "submitted", "attention")
            return list(grade_class(warm, gradebook, course, "attention", found, seed, again=again))

    return run_it


def never() -> Any:
    raise AssertionError("nothing had to be examined")


def submitted(folder: Path, student: str) -> Path:
    return folder / "submitted" / student / "attention" / "attention.ipynb"


def grades(folder: Path) -> dict[tuple[str, str], list[Any]]:
    return {(student, cell): rest for student, _, cell, *rest in rows(folder / "gradebook.db")["grade"]}


def test_unchanged_submissions_are_not_examined_again(run: Run) -> None:
    first = run()
    again = run(never)
    assert [one.unchanged for one in first] == [False, False]
    assert [one.unchanged for one in again] == [True, True]
    assert [one.report.score for one in again] == [one.report.score for one in first] == [20, 17]


def test_a_new_gradebook_gets_the_rows_of_unchanged_submissions(run: Run, folder: Path) -> None:
    run()
    before = rows(folder / "gradebook.db")
    (folder / "gradebook.db").unlink()
    run(never)
    assert rows(folder / "gradebook.db") == before


def test_a_changed_submission_another_seed_and_force_are_examined(run: Run, folder: Path) -> None:
    run()
    assert [one.unchanged for one in run(seed=2)] == [False, False]
    assert [one.unchanged for one in run(seed=2, again=True)] == [False, False]
    shutil.copy(submitted(folder, "amara"), submitted(folder, "dora"))
    assert [(one.unchanged, one.report.score) for one in run(seed=2)] == [(True, 20), (False, 20)]
    assert grades(folder)["dora", TESTS][0] == 16


def test_a_changed_suite_examines_all_again(run: Run, folder: Path) -> None:
    run()
    suite = folder / "tests" / "hidden" / "attention" / "test_project_qkv.py"
    suite.write_text(suite.read_text() + "\n# changed\n")
    assert [one.unchanged for one in run()] == [False, False]


@pytest.fixture
def break_it(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after which every examination fails through the grader's fault."""

    def gone(*_: object) -> Any:
        raise GraderFault("the examiner is gone")

    return lambda: monkeypatch.setattr(Grader, "_examine", gone)


def test_a_fault_of_the_grader_waits_for_a_human_and_is_no_zero(
    run: Run, folder: Path, break_it: Callable[[], None]
) -> None:
    break_it()
    results = run()
    assert [(one.report.status, one.kept) for one in results] == [("ungraded", False)] * 2
    assert grades(folder)["amara", TESTS] == [None, None, None, 1]
    assert "the examiner is gone" in results[0].page.read_text()


def test_a_fault_keeps_the_earlier_result_and_says_so(run: Run, folder: Path, break_it: Callable[[], None]) -> None:
    run()
    before = rows(folder / "gradebook.db")
    break_it()
    assert [one.kept for one in run(again=True)] == [True, True]
    assert rows(folder / "gradebook.db") == before


def test_a_damaged_regrade_keeps_the_earlier_result(run: Run, folder: Path) -> None:
    run()
    before = rows(folder / "gradebook.db")
    page = (folder / "autograded" / "dora" / "attention" / "attention.ipynb").read_bytes()
    submitted(folder, "dora").write_text("{")
    amara, dora = run()
    assert (amara.unchanged, dora.kept, dora.report.status) == (True, True, "unusable")
    assert rows(folder / "gradebook.db") == before
    assert (folder / "autograded" / "dora" / "attention" / "attention.ipynb").read_bytes() == page


def test_a_damaged_submission_has_rows_that_wait_for_a_human_and_a_page(run: Run, folder: Path) -> None:
    submitted(folder, "dora").write_text("{")
    _, dora = run()
    assert grades(folder)["dora", TESTS] == [None, None, None, 1]
    assert dora.page.is_file()


def test_added_cells_are_refused_once_there_are_submissions(run: Run, folder: Path) -> None:
    run()
    source = folder / "source" / "attention" / "attention.ipynb"
    notebook = json.loads(source.read_text())
    locked = next(cell for cell in notebook["cells"] if cell["id"] == "setup")
    another = json.loads(json.dumps(locked))
    another["id"] = another["metadata"]["nbgrader"]["grade_id"] = "another"
    notebook["cells"].append(another)
    source.write_text(json.dumps(notebook))
    with pytest.raises(CourseError, match=r"other cells than the gradebook \(another\)"):
        run(never)


def test_a_student_s_links_are_not_followed(run: Run, folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (submitted(folder, "dora").parent / "data.txt").symlink_to(secret)
    run()
    assert not (folder / "autograded" / "dora" / "attention" / "data.txt").exists()


def test_other_folders_than_nbgrader_s_usual_ones_are_refused(folder: Path) -> None:
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write(
            "\nget_config().CourseDirectory.directory_structure = '{assignment_id}/{student_id}/{nbgrader_step}'\n"
        )
    course = load_course(folder)
    with pytest.raises(CourseError, match="directory_structure"):
        ClassGradebook(course, nbgrader_of(course))


def test_two_class_runs_do_not_write_at_the_same_time(folder: Path) -> None:
    course = load_course(folder)
    with ClassGradebook(course, nbgrader_of(course)) as first, ClassGradebook(course, nbgrader_of(course)) as second:
        with first.alone(), pytest.raises(CourseError, match="wait until it has ended"), second.alone():
            pass
        with second.alone():
            pass
