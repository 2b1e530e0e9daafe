"""What nbgrader's gradebook says of a notebook, as the page needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autograder.feedback.mark import Mark
from autograder.nbgrader.rows import Execute
from autograder.notebook import TEST_PREFIX

if TYPE_CHECKING:
    from nbgrader.api import Gradebook

_WHICH = """
    FROM submitted_notebook JOIN notebook ON notebook.id = submitted_notebook.notebook_id
    JOIN submitted_assignment ON submitted_assignment.id = submitted_notebook.assignment_id
    JOIN assignment ON assignment.id = submitted_assignment.assignment_id """
# In the order in which nbgrader meets them.
_NOTEBOOKS = f"""SELECT student.id, notebook.name, first_name, last_name, late_submission_penalty
    {_WHICH} JOIN student ON student.id = student_id WHERE assignment.name = :assignment"""
_GRADES = f"""SELECT student_id, notebook.name, base_cell.name, auto_score, manual_score, extra_credit,
    coalesce(grade_cells.max_score, task_cells.max_score, 0.0), needs_manual_grade
    {_WHICH} JOIN grade ON grade.notebook_id = submitted_notebook.id JOIN base_cell ON base_cell.id = grade.cell_id
    LEFT JOIN grade_cells ON grade_cells.id = base_cell.id LEFT JOIN task_cells ON task_cells.id = base_cell.id
    WHERE assignment.name = :assignment ORDER BY grade.rowid"""
_COMMENTS = f"""SELECT student_id, notebook.name, base_cell.name, manual_comment
    {_WHICH} JOIN comment ON comment.notebook_id = submitted_notebook.id
    JOIN base_cell ON base_cell.id = comment.cell_id
    WHERE assignment.name = :assignment AND manual_comment != '' ORDER BY comment.rowid"""


@dataclass(frozen=True)
class Marks:
    """What stands in the gradebook about one submitted notebook.

    Attributes:
        marks: by grade_id.
        late_penalty: points taken off because it was late.
        name: whose it is: first and last name, or the id where the gradebook has none.
    """

    marks: dict[str, Mark]
    late_penalty: float = 0.0
    name: str = ""


@dataclass(frozen=True)
class _Grade:
    """A row of nbgrader's table of grades, as far as a mark needs it."""

    name: str
    auto_score: float | None
    manual_score: float | None
    extra_credit: float | None
    max_score: float
    needs_manual_grade: bool


def read_marks(gradebook: Gradebook, notebook: str, assignment: str, student: str) -> Marks:
    """The marks of one notebook of one student, by nbgrader.

    Raises:
        nbgrader.api.MissingEntry: the gradebook does not have it.
    """
    submitted = gradebook.find_submission_notebook(notebook, assignment, student)
    grades = [
        _Grade(one.name, one.auto_score, one.manual_score, one.extra_credit, one.max_score, one.needs_manual_grade)
        for one in submitted.grades
    ]
    comments = {comment.name: comment.manual_comment for comment in submitted.comments if comment.manual_comment}
    whose = submitted.student
    name = _name(whose.first_name, whose.last_name, student)
    return Marks(_marks(grades, comments), float(submitted.late_submission_penalty or 0.0), name)


def class_marks(execute: Execute, assignment: str) -> dict[tuple[str, str], Marks]:
    """The marks of a whole class out of an SQLite gradebook, by student and notebook, as `read_marks` reads each."""
    asked = {"assignment": assignment}
    known = {(student, notebook): rest for student, notebook, *rest in execute(_NOTEBOOKS, asked)}
    grades: dict[tuple[str, str], list[_Grade]] = {key: [] for key in known}
    comments: dict[tuple[str, str], dict[str, str]] = {key: {} for key in known}
    for student, notebook, *row in execute(_GRADES, asked):
        grades[student, notebook].append(_Grade(*row))
    for student, notebook, cell, comment in execute(_COMMENTS, asked):
        comments[student, notebook][cell] = comment
    return {
        key: Marks(_marks(grades[key], comments[key]), float(penalty or 0.0), _name(first, last, key[0]))
        for key, (first, last, penalty) in known.items()
    }


def _marks(grades: list[_Grade], comments: Mapping[str, str]) -> dict[str, Mark]:
    """Marks by grade_id.

    A comment belongs to the mark of its exercise; one on a cell that earns no points stands in a mark without any.
    """
    left, marks = dict(comments), {}
    for grade in grades:
        comment = left.pop(grade.name, None) or left.pop(grade.name.removeprefix(TEST_PREFIX), None)
        marks[grade.name] = Mark(
            score=_score(grade),
            max_score=float(grade.max_score),
            manual=grade.manual_score is not None,
            comment=comment,
            needs_human=bool(grade.needs_manual_grade),
        )
    return marks | {name: Mark(None, 0.0, comment=comment) for name, comment in left.items()}


def _score(grade: _Grade) -> float | None:
    """The score of a graded cell as nbgrader counts it, but None where nobody has given one: nbgrader counts 0."""
    given = grade.auto_score if grade.manual_score is None else grade.manual_score
    return None if given is None else float(given + (grade.extra_credit or 0.0))


def _name(first: str | None, last: str | None, student: str) -> str:
    return " ".join(filter(None, [first, last])) or student
