"""The overview page tells of the course as it is."""

from __future__ import annotations

import re

import pytest

from autograder.notebook import TEST_PREFIX, read_notebook
from tests.engine import ROOT, course

PAGE = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
ROW = re.compile(r"\| \[`(\w+)`\]\((\S+)\) \| .+ \| (.+) \| (\d+) \| (\d+) \|")
ROWS = {row[1]: row for row in ROW.finditer(PAGE)}


def test_the_lessons_stand_in_their_order() -> None:
    assert list(ROWS) == list(course().assignments)


@pytest.mark.parametrize("name", course().assignments)
def test_minutes_points_and_exercises_are_those_of_the_course(name: str) -> None:
    _, link, exercises, points, minutes = ROWS[name].groups()
    assert (ROOT / "docs" / link).resolve() == course().release_notebook(name)
    assert int(minutes) == course().assignment(name).minutes
    cells = read_notebook(course().source_notebook(name)).cells
    worth = {(cell.grade_id or "").removeprefix(TEST_PREFIX): cell.points for cell in cells if cell.is_grade}
    told = {found[1]: float(found[2]) for found in re.finditer(r"`(\w+)` (\d+)", exercises)}
    assert list(told.items()) == [(exercise, worth[exercise]) for exercise in course().assignment(name).exercises]
    assert float(points) == sum(told.values())


@pytest.mark.parametrize("name", course().assignments)
def test_the_lesson_itself_says_so_too(name: str) -> None:
    *_, minutes = ROWS[name].groups()
    assert f"After about {minutes} minutes" in read_notebook(course().release_notebook(name)).cells[0].source


def test_teachers_mark_by_the_scheme_that_students_see() -> None:
    page = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    cells = read_notebook(course().release_notebook("heads")).cells
    [scheme] = [cell.source for cell in cells if "This is how it will be marked" in cell.source]
    rows = [line for line in scheme.splitlines() if line.startswith("|")]
    assert len(rows) == 5 and "\n".join(rows) in page


def test_the_core_makes_100_points() -> None:
    assert sum(int(row[4]) for row in list(ROWS.values())[:5]) == 100
