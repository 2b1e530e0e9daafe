"""A class run: what is examined, what is recorded, and what an earlier run leaves."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder import grading
from autograder.class_result import Result
from autograder.classroom import ClassRun
from autograder.course import load_course
from autograder.errors import CourseError, GraderFault
from autograder.grading import Grader
from autograder.nbgrader.config import nbgrader_of
from autograder.nbgrader.files import ClassFiles
from autograder.nbgrader.gradebook import ClassGradebook
from autograder.notebook import Notebook
from autograder.submissions import submissions
from tests import courses
from tests.nbgrader.rows import rows
from tests.nbgrader.test_same_rows import CONCLUSION

TESTS = "test_scaled_dot_product_attention"


@pytest.fixture
def folder(tmp_path: Path, one_alembic: None) -> Path:
    """A copy of the course with two submissions, and the limits of the warm grader."""
    root = courses.copy_course(tmp_path / "course", "amara", "dora")
    rules = (root / "course.yml").read_text()
    (root / "course.yml").write_text(rules.replace("call_seconds: 5 ", "call_seconds: 2 "))
    return root


Run = Callable[..., list[Result]]


@pytest.fixture
def run(folder: Path, grader: Grader, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that grades the class in that folder."""
    monkeypatch.setattr(grader, "_follow", False)  # as `autograder grade` makes it

    def run_it(warm: Grader | None = grader, seed: int = 1, fresh: bool = False) -> list[Result]:
        course = load_course(folder)
        app = nbgrader_of(course)
        with ClassGradebook(course, app) as gradebook:
            found = submissions(folder / "submitted", "attention")
            files = ClassFiles(course, app)
            run = ClassRun(course, gradebook, files, "attention", found, seed, fresh)
            assert warm is not None or not run.new
            results = list(run.results(warm.grade_many(run.new, seed) if warm else iter(())))
            run.told()
            return results

    return run_it


def submitted(folder: Path, student: str) -> Path:
    return folder / "submitted" / student / "attention" / "attention.ipynb"


def page_of(folder: Path, student: str) -> Path:
    return folder / "autograded" / student / "attention" / "attention.ipynb"


def grades(folder: Path) -> dict[tuple[str, str], list[Any]]:
    return {(student, cell): rest for student, _, cell, *rest in rows(folder / "gradebook.db")["grade"]}


def test_unchanged_submissions_are_not_examined_again(run: Run) -> None:
    first = run()
    again = run(None)
    assert [one.unchanged for one in first] == [False, False]
    assert [one.unchanged for one in again] == [True, True]
    assert [one.report.score for one in again] == [one.report.score for one in first] == [20, 17]


def test_a_new_gradebook_gets_the_rows_of_unchanged_submissions(run: Run, folder: Path) -> None:
    run()
    before = rows(folder / "gradebook.db")
    (folder / "gradebook.db").unlink()
    run(None)
    assert rows(folder / "gradebook.db") == before


def test_what_is_kept_makes_the_same_rows_and_files_to_the_byte(run: Run, folder: Path) -> None:
    run()

    def left() -> dict[str, Any]:
        files = {str(path): path.read_bytes() for path in (folder / "autograded").rglob("*") if path.is_file()}
        return files | rows(folder / "gradebook.db")

    before = left()
    (folder / "gradebook.db").unlink()
    shutil.rmtree(folder / "autograded")
    assert [(one.stored, one.seconds > 0) for one in run(None)] == [(True, True)] * 2
    assert left() == before and len(before) > 2


def test_a_file_that_changes_while_it_is_examined_is_not_kept(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = grading.read_notebook

    def read_another(path: Path, follow: bool = True) -> Notebook:
        if "dora" in str(path):
            shutil.copy(submitted(folder, "amara"), path)
        return read(path, follow)

    original = submitted(folder, "dora").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(grading, "read_notebook", read_another)
        assert [one.report.score for one in run()] == [20, 20]
    submitted(folder, "dora").write_bytes(original)
    assert [(one.stored, one.report.score) for one in run()] == [(True, 20), (False, 17)]


def test_a_changed_submission_another_seed_and_fresh_are_examined(run: Run, folder: Path) -> None:
    run()
    assert [one.unchanged for one in run(seed=2)] == [False, False]
    assert [one.unchanged for one in run(seed=2, fresh=True)] == [False, False]
    shutil.copy(submitted(folder, "amara"), submitted(folder, "dora"))
    again = run(None, seed=2)  # the same bytes have the same result, whoever hands them in
    assert [(one.unchanged, one.stored, one.report.score) for one in again] == [(True, True, 20), (False, True, 20)]
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
    assert [(one.report.status, one.retained) for one in results] == [("ungraded", False)] * 2
    assert grades(folder)["amara", TESTS] == [None, None, None, 1]
    assert "the examiner is gone" in page_of(folder, "amara").read_text()


def test_a_fault_keeps_the_earlier_result_and_says_so(run: Run, folder: Path, break_it: Callable[[], None]) -> None:
    run()
    before = rows(folder / "gradebook.db")
    break_it()
    assert [one.retained for one in run(fresh=True)] == [True, True]
    assert rows(folder / "gradebook.db") == before


def test_a_file_that_took_the_place_of_a_graded_one_does_not_keep_its_score(
    run: Run, folder: Path, break_it: Callable[[], None]
) -> None:
    run()
    submitted(folder, "dora").write_text("{")
    (submitted(folder, "dora").parent / "timestamp.txt").write_text("2026-12-24 12:00:00 UTC")
    amara, dora = run()
    assert (amara.unchanged, dora.retained, dora.report.status) == (True, False, "unusable")
    assert grades(folder)["dora", TESTS] == [None, None, None, 1]
    assert dora.waiting == ("project_qkv", "scaled_dot_product_attention")
    assert [row[2] for row in rows(folder / "gradebook.db")["submitted_assignment"] if row[0] == "dora"] == [
        "2026-12-24 12:00:00.000000"
    ]
    assert "execute_result" not in page_of(folder, "dora").read_text()


def test_a_damaged_submission_has_rows_that_wait_for_a_human_and_a_page(run: Run, folder: Path) -> None:
    submitted(folder, "dora").write_text("{")
    run()
    assert grades(folder)["dora", TESTS] == [None, None, None, 1]
    assert page_of(folder, "dora").is_file()


def test_a_student_s_folder_in_the_place_of_a_course_s_file_makes_way(run: Run, folder: Path) -> None:
    (folder / "source" / "attention" / "words.txt").write_text("the course's")
    (folder / "source" / "attention" / "data").mkdir()
    (folder / "source" / "attention" / "data" / "more.txt").write_text("the course's")
    (submitted(folder, "amara").parent / "words.txt").mkdir()
    (submitted(folder, "amara").parent / "words.txt" / "x").write_text("a student's")
    (submitted(folder, "amara").parent / "data").write_text("a student's")
    assert [one.report.status for one in run()] == ["graded", "graded"]
    assert (page_of(folder, "amara").parent / "words.txt").read_text() == "the course's"
    assert (page_of(folder, "amara").parent / "data" / "more.txt").read_text() == "the course's"


def test_files_that_stop_one_submission_do_not_stop_the_class(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ClassFiles.write

    def fails_for_amara(self: ClassFiles, student: str, *rest: Any) -> None:
        if student == "amara":
            raise PermissionError(13, "Permission denied", "data.csv")
        write(self, student, *rest)

    monkeypatch.setattr(ClassFiles, "write", fails_for_amara)
    amara, dora = run()
    assert (amara.report.status, dora.report.status) == ("ungraded", "graded")
    assert amara.report.error is not None and "data.csv" in amara.report.error.render()
    assert grades(folder)["amara", TESTS] == [None, None, None, 1]
    assert grades(folder)["dora", TESTS] == [13, None, None, 0]


@pytest.mark.parametrize("make", ["mkdir", "mkfifo", "link", "garbage", "huge"])
def test_an_odd_timestamp_is_no_timestamp(run: Run, folder: Path, make: str) -> None:
    path = submitted(folder, "amara").parent / "timestamp.txt"
    if make == "mkdir":
        path.mkdir()
    elif make == "mkfifo":
        os.mkfifo(path)
    elif make == "link":
        path.symlink_to(folder / "course.yml")
    else:
        path.write_text("soon" if make == "garbage" else "9" * 10_000)
    assert [one.report.status for one in run()] == ["graded", "graded"]
    assert [row[2] for row in rows(folder / "gradebook.db")["submitted_assignment"]] == [None, None]


def test_a_damaged_second_notebook_waits_for_a_human(run: Run, folder: Path) -> None:
    second = {"cells": [CONCLUSION], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "source" / "attention" / "more.ipynb").write_text(json.dumps(second))
    (submitted(folder, "amara").parent / "more.ipynb").write_text("{")
    amara, dora = run()
    assert grades(folder)["amara", "conclusion"] == [None, None, None, 1]
    assert grades(folder)["dora", "conclusion"] == [0, None, None, 0]  # not handed in
    assert (amara.waiting, dora.waiting) == (("conclusion",), ())


def test_a_gradebook_that_is_none_is_told_in_a_sentence(run: Run, folder: Path) -> None:
    (folder / "gradebook.db").write_text("this is no database" * 100)
    with pytest.raises(CourseError, match="gradebook"):
        run()


def test_a_broken_configuration_of_nbgrader_is_told(run: Run, folder: Path) -> None:
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write("\n1 / 0\n")
    with pytest.raises(CourseError, match="ZeroDivisionError"):
        run()


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
        run(None)


def test_a_due_date_that_is_taken_back_leaves_the_gradebook_and_takes_its_penalty_along(run: Run, folder: Path) -> None:
    rules = (folder / "course.yml").read_text()
    before, after = rules.split("  attention:\n")
    due = after.replace("    minutes: 45\n", "    minutes: 45\n    due: 2026-12-01T12:00:00+08:00\n", 1)
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write("\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    (submitted(folder, "dora").parent / "timestamp.txt").write_text("2026-12-24 12:00:00 UTC")

    def recorded(text: str) -> tuple[Any, dict[str, Any]]:
        (folder / "course.yml").write_text(text)
        run()
        found = rows(folder / "gradebook.db")
        [(_, date, _)] = found["assignment"]
        return date, {student: penalty for student, _, _, penalty in found["submitted_notebook"]}

    assert recorded(f"{before}  attention:\n{due}") == (
        "2026-12-01 04:00:00.000000",
        {"amara": None, "dora": 17},
    )
    assert recorded(rules) == (None, {"amara": None, "dora": None})


def test_a_student_s_links_are_not_followed(run: Run, folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (submitted(folder, "dora").parent / "data.txt").symlink_to(secret)
    run()
    assert not (folder / "autograded" / "dora" / "attention" / "data.txt").exists()


@pytest.mark.parametrize("kind", ["file", "folder", "pipe", "zero"])
def test_a_submission_that_is_a_link_or_a_pipe_earns_nothing_and_stops_nobody(
    run: Run, folder: Path, kind: str
) -> None:
    place = submitted(folder, "amara")
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.parent.rmdir()
        place.parent.symlink_to(folder / "source" / "attention")
    else:
        place.symlink_to("/dev/zero" if kind == "zero" else folder / "source" / "attention" / "attention.ipynb")
    *rest, dora = run()
    assert dora.report.score == 17
    assert [one.report.status for one in rest] == ([] if kind == "folder" else ["unusable"])
    assert ("amara", TESTS) not in grades(folder) or grades(folder)["amara", TESTS][0] is None


def test_live_pages_and_links_of_a_student_are_left_out(run: Run, folder: Path) -> None:
    place = submitted(folder, "amara").parent
    for page in ("page.html", "PAGE.XHTM", "page.atom", "page.of-a-kind-nobody-knows", "page"):
        (place / page).write_text("<script>alert(1)</script>")
    (place / "notes.txt").write_text("mine")
    run()
    kept = {path.name for path in page_of(folder, "amara").parent.iterdir()}
    assert kept == {"attention.ipynb", "notes.txt"}


def test_a_name_that_is_no_text_stops_nobody(run: Run, folder: Path) -> None:
    os.rename(submitted(folder, "amara"), os.fsencode(submitted(folder, "amara").parent) + b"/\xff.ipynb")
    assert [one.report.status for one in run()] == ["graded", "graded"]


def test_other_folders_than_nbgrader_s_usual_ones_are_refused(folder: Path) -> None:
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write("\nc.CourseDirectory.directory_structure = '{assignment_id}/{student_id}/{nbgrader_step}'\n")
    course = load_course(folder)
    with pytest.raises(CourseError, match="directory_structure"):
        ClassFiles(course, nbgrader_of(course))


def test_two_class_runs_do_not_write_at_the_same_time(folder: Path) -> None:
    course = load_course(folder)
    first, second = ClassFiles(course, nbgrader_of(course)), ClassFiles(course, nbgrader_of(course))
    with first.alone(), pytest.raises(CourseError, match="wait until it has ended"), second.alone():
        pass
    with second.alone():
        pass
