"""What nbgrader's gradebook says of a notebook, as the page needs it."""

from __future__ import annotations

from dataclasses import dataclass

from nbgrader.api import Grade, Gradebook

from autograder.feedback.mark import Mark
from autograder.notebook import TEST_PREFIX


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


def read_marks(gradebook: Gradebook, notebook: str, assignment: str, student: str) -> Marks:
    """The marks of one notebook of one student.

    A comment belongs to the mark of its exercise; one on a cell that earns no points stands in a mark without any.

    Raises:
        nbgrader.api.MissingEntry: the gradebook does not have it.
    """
    submitted = gradebook.find_submission_notebook(notebook, assignment, student)
    comments = {comment.name: comment.manual_comment for comment in submitted.comments if comment.manual_comment}
    marks = {}
    for grade in submitted.grades:
        comment = comments.pop(grade.name, None) or comments.pop(grade.name.removeprefix(TEST_PREFIX), None)
        marks[grade.name] = Mark(
            score=score_of(grade),
            max_score=float(grade.max_score),
            manual=grade.manual_score is not None,
            comment=comment,
            needs_human=bool(grade.needs_manual_grade),
        )
    for name, comment in comments.items():
        marks[name] = Mark(None, 0.0, comment=comment)
    name = " ".join(filter(None, [submitted.student.first_name, submitted.student.last_name]))
    return Marks(marks, float(submitted.late_submission_penalty or 0.0), name or student)


def score_of(grade: Grade) -> float | None:
    """The score of a graded cell as nbgrader counts it, but None where nobody has given one: nbgrader counts 0."""
    given = grade.auto_score if grade.manual_score is None else grade.manual_score
    return None if given is None else float(given + (grade.extra_credit or 0.0))
