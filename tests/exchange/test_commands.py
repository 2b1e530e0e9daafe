"""nbgrader's own commands in this course, called by their full paths: nothing of the virtual environment is on PATH."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests import courses
from tests.courses import ASSIGNMENT, REPOSITORY

NOTEBOOK = Path(ASSIGNMENT) / f"{ASSIGNMENT}.ipynb"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """The course, without a gradebook yet."""
    assert shutil.which("alembic", path=courses.SYSTEM_PATH) is None  # else these tests would prove nothing
    return courses.copy_course(tmp_path / "course")


def validate(notebook: Path, folder: Path) -> str:
    """Validate a copy of a notebook, as a student does: in a folder where no course is."""
    shutil.copy(notebook, folder)
    return courses.nbgrader("validate", notebook.name, folder=folder, home=folder / "home")


def test_validate_finds_nothing_wrong_in_a_solved_notebook(tmp_path: Path) -> None:
    said = validate(REPOSITORY / "source" / NOTEBOOK, tmp_path)
    assert said.endswith("Success! Your notebook passes all the tests.\n")


def test_validate_names_the_public_tests_that_an_unsolved_notebook_fails(tmp_path: Path) -> None:
    said = validate(REPOSITORY / "release" / NOTEBOOK, tmp_path)
    assert "VALIDATION FAILED ON 2 CELL(S)!" in said
    assert "project_qkv" in said
    assert "scaled_dot_product_attention" in said


def test_a_gradebook_is_made_and_upgraded(course: Path) -> None:
    home = course.with_name("home")
    courses.nbgrader("db", "student", "add", "noor", folder=course, home=home)
    courses.nbgrader("db", "upgrade", folder=course, home=home)
    with closing(sqlite3.connect(course / "gradebook.db")) as gradebook:
        assert gradebook.execute("SELECT id FROM student").fetchall() == [("noor",)]
        assert gradebook.execute("SELECT count(version_num) FROM alembic_version").fetchone() == (1,)
