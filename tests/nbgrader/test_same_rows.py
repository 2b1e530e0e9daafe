"""A class graded by ``autograder grade`` and by ``nbgrader autograde``: the same rows, and the same files.

Both have one warm grader, which is not what is compared.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.utils import temp_attrs

from autograder.cli import main
from autograder.course import load_course
from autograder.nbgrader.config import nbgrader_of
from tests import courses
from tests.nbgrader.rows import TABLES, rows
from tests.shared import one_grader

CONCLUSION = {
    "cell_type": "markdown",
    "id": "conclusion",
    "metadata": {
        "nbgrader": {
            "grade": True, "grade_id": "conclusion", "locked": False, "points": 6, "schema_version": 3,
            "solution": True, "task": False,
        }
    },
    "source": "*What did you see?*",
}  # fmt: skip
REGRADED = ("amara", "ben", "chen", "dora", "goran", "hugo", "kaito")
"""Who differs in what a regrade has to keep; nbgrader grades all of these once more, the others hang or crash."""
LATE = "\nc.LateSubmissionPlugin.penalty_method = 'zero'\n"


class Graded(NamedTuple):
    """Two courses with the same submissions: graded by us, and by nbgrader with our preprocessors."""

    ours: Path
    theirs: Path


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, one_alembic: None) -> Iterator[Graded]:
    root = tmp_path_factory.mktemp("rows")
    both = Graded(root / "ours", root / "theirs")
    students = sorted(path.name for path in (courses.REPOSITORY / "examples" / "submissions").iterdir())
    for course in both:
        courses.copy_course(course, *students)
        _prepare(course)
    with one_grader(both.ours, ["attention"]):
        _grade(both)
        yield both


def _prepare(course: Path) -> None:
    """A due date, a penalty, an exercise for a human, a second notebook, and students who make use of them."""
    (course / ".autograder").mkdir(mode=0o700)
    (course / ".autograder" / "seed").write_text("20261129\n")
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(LATE)
    rules = (course / "course.yml").read_text().replace("call_seconds: 5 ", "call_seconds: 2 ")
    rules = rules.replace("    minutes: 45\n", "    minutes: 45\n    due: 2026-12-01T12:00:00+08:00\n")
    rules = rules.replace("      project_qkv:\n", "      conclusion:\n        manual: true\n      project_qkv:\n")
    (course / "course.yml").write_text(rules)
    source = course / "source" / "attention"
    _edit(source / "attention.ipynb", lambda cells: cells.append(CONCLUSION))
    second = {"cells": [CONCLUSION | {"id": "more"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (source / "more.ipynb").write_text(json.dumps(second))
    (source / "words.txt").write_text("the course's\n")

    submitted = course / "submitted"
    shutil.copy(source / "more.ipynb", submitted / "amara" / "attention")
    _edit(submitted / "amara" / "attention" / "more.ipynb", _written)
    for student, time in (("amara", "2026-12-01 03:59:59 UTC"), ("dora", "2026-12-01 04:00:01 UTC"), ("emil", "")):
        (submitted / student / "attention" / "timestamp.txt").write_text(time)
    for name in ("words.txt", "notes/mine.txt", ".ipynb_checkpoints/old.txt"):
        path = submitted / "chen" / "attention" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("a student's\n")
    for student, text in (("goran", "*What did you see?*"), ("hugo", "Much.")):
        answer = CONCLUSION | {"source": text}
        _edit(submitted / student / "attention" / "attention.ipynb", lambda cells, answer=answer: cells.append(answer))
    _edit(submitted / "kaito" / "attention" / "attention.ipynb", _damaged)


def _written(cells: list[dict[str, Any]]) -> None:
    cells[0]["source"] = "Heads look at different things."


def _damaged(cells: list[dict[str, Any]]) -> None:
    """The cell with the examples is gone, another is copied, and a third says that it is worth 100 points."""
    del cells[next(n for n, cell in enumerate(cells) if cell["id"] == "test_project_qkv")]
    tests = next(cell for cell in cells if cell["id"] == "test_scaled_dot_product_attention")
    tests["metadata"]["nbgrader"]["points"] = 100
    answer = next(cell for cell in cells if cell["id"] == "project_qkv")
    cells.insert(2, json.loads(json.dumps(answer)) | {"id": "a-copy"})


def _edit(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    notebook = json.loads(path.read_text())
    change(notebook["cells"])
    path.write_text(json.dumps(notebook))


def _grade(both: Graded, *students: str) -> None:
    """Grade both; nbgrader these students alone, or else all."""
    assert main(["--course", str(both.ours), "grade", "attention", "--workers", "2"]) == 0
    app = nbgrader_of(load_course(both.theirs))
    with temp_attrs(app.coursedir, assignment_id="attention"):
        GenerateAssignment(coursedir=app.coursedir, parent=app).start()
        for student in students or ("*",):
            with temp_attrs(app.coursedir, student_id=student):
                converter = Autograde(coursedir=app.coursedir, parent=app)
                converter.force = True
                converter.start()


@pytest.mark.parametrize("table", TABLES)
def test_the_rows_are_the_same(graded: Graded, table: str) -> None:
    ours, theirs = (rows(course / "gradebook.db")[table] for course in graded)
    assert ours == theirs
    assert ours


def test_the_rows_are_those_of_this_class(graded: Graded) -> None:
    found = rows(graded.ours / "gradebook.db")
    grades = {(student, cell): rest for student, notebook, cell, *rest in found["grade"] if notebook == "attention"}
    assert grades["amara", "test_scaled_dot_product_attention"] == [16, None, None, 0]
    assert grades["farah", "test_scaled_dot_product_attention"] == [14.5, None, None, 0]
    assert grades["kaito", "test_project_qkv"] == [4, None, None, 0]
    assert grades["goran", "conclusion"] == [0, None, None, 0]  # left as it was released
    assert grades["hugo", "conclusion"] == [None, None, None, 1]
    assert grades["amara", "conclusion"] == [None, None, None, 1]  # the cell is missing: a human looks for it
    second = {student: rest for student, notebook, _, *rest in found["grade"] if notebook == "more"}
    assert second["amara"] == [None, None, None, 1]
    assert second["ben"] == [0, None, None, 0]  # not handed in
    penalties = {
        student: penalty for student, notebook, _, penalty in found["submitted_notebook"] if notebook != "more"
    }
    assert penalties["dora"] == 17 and penalties["amara"] is None
    [(_, due, course)] = found["assignment"]
    assert (due, course) == ("2026-12-01 04:00:00.000000", "attention-by-hand")


def test_the_files_are_the_same(graded: Graded) -> None:
    ours, theirs = (
        {path.relative_to(course): _content(path) for path in (course / "autograded").rglob("*") if path.is_file()}
        for course in graded
    )
    assert ours.keys() == theirs.keys()
    assert [path for path in ours if ours[path] != theirs[path]] == []
    assert ours[Path("autograded/chen/attention/words.txt")] == "the course's\n"
    assert Path("autograded/chen/attention/notes/mine.txt") in ours


def test_what_lies_in_autograded_is_read_only(graded: Graded) -> None:
    for course in graded:
        modes = {path.stat().st_mode & 0o777 for path in (course / "autograded").rglob("*") if path.is_file()}
        assert modes == {0o444}


def test_a_human_s_mark_and_comment_survive_a_regrade_in_both(graded: Graded) -> None:
    for course in graded:
        with sqlite3.connect(course / "gradebook.db") as database:
            database.execute("UPDATE grade SET manual_score = 3, extra_credit = 1, needs_manual_grade = 0")
            database.execute("UPDATE comment SET manual_comment = 'Well seen.'")
    _grade(graded, *REGRADED)
    ours, theirs = (rows(course / "gradebook.db") for course in graded)
    # nbgrader's own command makes each cell wait that a human has marked: it does not know what the mark was given for.
    waits = [{row[-1] for row in each["grade"]} for each in (ours, theirs)]
    assert waits == [{0}, {0, 1}]  # a notebook that was not handed in waits for nobody
    ours["grade"], theirs["grade"] = ([row[:-1] for row in each["grade"]] for each in (ours, theirs))
    assert ours == theirs
    assert {row[4] for row in ours["grade"]} == {3}
    assert {row[4] for row in ours["comment"]} == {"Well seen."}


def _content(path: Path) -> Any:
    text = path.read_text()
    return json.loads(text) if path.suffix == ".ipynb" else text


def test_the_comparison_sees_a_difference(graded: Graded, tmp_path: Path) -> None:
    copy = tmp_path / "gradebook.db"
    shutil.copy(graded.ours / "gradebook.db", copy)
    os.chmod(copy, 0o600)
    with sqlite3.connect(copy) as database:
        database.execute("UPDATE grade SET auto_score = 15.5 WHERE auto_score = 16")
    assert rows(copy)["grade"] != rows(graded.ours / "gradebook.db")["grade"]
