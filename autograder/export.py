"""A class's grades from nbgrader's gradebook, as CSV for people and their spreadsheets and as JSON for programs.

The columns of the CSV are those of nbgrader's ``CsvExportPlugin`` (``nbgrader/plugins/export.py``), `status`, and
`to_read`.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    TaskCell,
)
from sqlalchemy import func, select

from autograder.errors import CourseError
from autograder.notebook import TEST_PREFIX

SCHEMA = 1

Status = Literal["graded", "needs_human", "missing"]

_DIGITS = 6  # sums of tenths are no tenths in binary; finer than this nobody marks


class Exercise(msgspec.Struct, frozen=True):
    """One graded cell of one submission; `name` is its ``grade_id``, unique in its notebook.

    `score` is the human's mark where there is one, else the automatic score, with the extra credit; None while there
    is neither, and while the cell waits for a human who has not marked it (`needs_human`).

    A human's mark stands until a human changes it: grading a class again makes nbgrader flag each cell that was marked
    before, and a table that lost its marks for that would be of no use. Such a cell is `regraded`: the mark may be of
    an earlier version of the work, and is worth a look.
    """

    name: str
    notebook: str
    score: float | None
    max_score: float
    auto_score: float | None
    manual_score: float | None
    extra_credit: float | None
    needs_human: bool
    regraded: bool
    comment: str | None


class Row(msgspec.Struct, frozen=True):
    """One student's work on one assignment.

    `status` is ``missing`` (nothing was handed in), ``needs_human`` (a graded cell has no score yet) or ``graded``.
    `raw_score`, `late_submission_penalty` and `score` are None unless it is ``graded``: an unknown score is never 0,
    and nbgrader bounds the penalty by the score that it knew. `score` is the raw score without the penalty, at least 0.
    Times are UTC; `duedate` is the assignment's, without a student's extension.
    `to_read` is what an instructor should look at before the score is given out; it has cost nothing.
    """

    assignment: str
    duedate: datetime.datetime | None
    timestamp: datetime.datetime | None
    student_id: str
    last_name: str | None
    first_name: str | None
    email: str | None
    raw_score: float | None
    late_submission_penalty: float | None
    score: float | None
    max_score: float
    status: Status
    to_read: tuple[str, ...]
    exercises: tuple[Exercise, ...]


Doubts = Mapping[tuple[str, str], tuple[str, ...]]
"""Sentences by assignment and student."""
NO_DOUBTS: Doubts = {}
COLUMNS = tuple(name for name in Row.__struct_fields__ if name != "exercises")


def rows(
    gradebook: Gradebook, assignments: Sequence[str] = (), students: Sequence[str] = (), doubts: Doubts = NO_DOUBTS
) -> list[Row]:
    """A row for each of these assignments and each of these students (all by default), in nbgrader's order.

    Args:
        gradebook: nbgrader's.
        assignments: these alone.
        students: these alone.
        doubts: what is to be read, which the gradebook does not know (`autograder.classroom.doubts_of`).

    Raises:
        CourseError: the gradebook does not know an assignment or a student that is named.
    """
    # Columns, not objects, and a few queries in all: nbgrader's own properties take several for each cell.
    db = gradebook.db
    known_assignments = db.execute(
        select(Assignment.id, Assignment.name, Assignment.duedate).order_by(
            Assignment.duedate.nulls_first(), Assignment.name
        )
    ).all()
    known_students = db.execute(
        select(Student.id, Student.last_name, Student.first_name, Student.email).order_by(
            Student.last_name.nulls_first(), Student.first_name.nulls_first(), Student.id
        )
    ).all()
    _expect("assignment", assignments, [one.name for one in known_assignments])
    _expect("student", students, [one.id for one in known_students])
    wanted = set(students)
    table = []
    for assignment in known_assignments:
        if not assignments or assignment.name in assignments:
            work = _Work(db, assignment.id)
            chosen = [one for one in known_students if not wanted or one.id in wanted]
            table += [_row(assignment, one, work, doubts.get((assignment.name, one.id), ())) for one in chosen]
    return table


def to_csv(rows: Iterable[Row]) -> str:
    """The rows as CSV (RFC 4180: CRLF, quotes where they are needed), with a header, without the exercises.

    Spreadsheets take what begins with ``= + - @`` for a formula and run it, and ids and names are chosen by students.
    Such a text gets an apostrophe in front of that sign (see `defused`), so that it is the text that it is; this is
    where safety wins over fidelity. Programs that need the very text read the JSON.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in rows:
        values: dict[str, Any] = msgspec.to_builtins(row) | {"to_read": "; ".join(row.to_read)}
        writer.writerow([defused(v) if isinstance(v := values[name], str) else v for name in COLUMNS])
    return out.getvalue()


def to_json(rows: Iterable[Row]) -> str:
    """``{"schema": 1, "rows": [...]}``: each `Row` with all its fields, texts as they are; None is null."""
    text = msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, "rows": list(rows)}), indent=1)
    return text.decode() + "\n"


# Also behind what another spreadsheet, or another country's, takes for the end of a cell; and the wide signs, which
# East Asian editions take for the narrow ones.
_ARMED = re.compile(r"(?P<edge>^|[,;\t\r\n])(?P<marks>'*)(?= *[=+\-@＝＋－＠])")  # noqa: RUF001


def defused(text: str) -> str:
    """The text with an apostrophe more before each sign that would begin a formula in a spreadsheet."""
    return _ARMED.sub(r"\g<edge>\g<marks>'", text)


def write(path: Path, text: str) -> None:
    """Write a file as UTF-8, whole or not at all; one that exists keeps its permissions.

    Raises:
        CourseError: one sentence with the path and the reason.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a terminal, a pipe
            path.write_bytes(text.encode())
            return
        target = path.resolve()
        draft = target.with_name(f".export-{os.getpid()}")
        try:
            draft.touch()
            if target.exists():
                shutil.copymode(target, draft)
            draft.write_bytes(text.encode())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        reason = "its folder does not exist" if isinstance(error, FileNotFoundError) else error.strerror
        raise CourseError(f"{path} can't be written ({reason}); choose another file.") from None


class _Work:
    """All that was handed in for one assignment, and what it earned."""

    def __init__(self, db: Any, assignment: str) -> None:
        of_it = SubmittedAssignment.assignment_id == assignment
        self.cells = sorted(
            (
                cell
                for kind in (GradeCell, TaskCell)
                for cell in db.execute(
                    select(kind.id, kind.name, kind.max_score, Notebook.name.label("notebook"))
                    .join(Notebook, Notebook.id == kind.notebook_id)
                    .where(Notebook.assignment_id == assignment)
                )
            ),
            key=lambda cell: (cell.notebook, cell.name),
        )
        self.max_score = _sum(cell.max_score for cell in self.cells)
        penalty = func.coalesce(func.sum(SubmittedNotebook.late_submission_penalty), 0.0).label("penalty")
        self.submissions = {
            one.student_id: one
            for one in db.execute(
                select(SubmittedAssignment.student_id, SubmittedAssignment.timestamp, penalty)
                .outerjoin(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
                .where(of_it)
                .group_by(SubmittedAssignment.id)
            )
        }
        self._grades = {
            (one.student_id, one.cell_id): one
            for one in db.execute(
                select(
                    SubmittedAssignment.student_id,
                    Grade.cell_id,
                    Grade.auto_score,
                    Grade.manual_score,
                    Grade.extra_credit,
                    Grade.needs_manual_grade,
                )
                .join(SubmittedNotebook, SubmittedNotebook.id == Grade.notebook_id)
                .join(SubmittedAssignment, SubmittedAssignment.id == SubmittedNotebook.assignment_id)
                .where(of_it)
            )
        }
        self._comments: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
        for one in db.execute(
            select(SubmittedAssignment.student_id, Notebook.name.label("notebook"), BaseCell.name, Comment.comment)
            .join(SubmittedNotebook, SubmittedNotebook.id == Comment.notebook_id)
            .join(SubmittedAssignment, SubmittedAssignment.id == SubmittedNotebook.assignment_id)
            .join(BaseCell, BaseCell.id == Comment.cell_id)
            .join(Notebook, Notebook.id == BaseCell.notebook_id)
            .where(of_it, Comment.comment != "")
        ):
            self._comments[one.student_id][one.notebook, one.name] = one.comment

    def exercises(self, student: str) -> tuple[Exercise, ...]:
        """The graded cells of a student's submission, without scores where there is none."""
        return tuple(self._exercise(cell, student) for cell in self.cells)

    def _exercise(self, cell: Any, student: str) -> Exercise:
        grade = self._grades.get((student, cell.id))
        auto, manual, extra, waits = (
            (grade.auto_score, grade.manual_score, grade.extra_credit, grade.needs_manual_grade)
            if grade is not None
            else (None, None, None, False)
        )
        score = manual if manual is not None else None if waits else auto
        comments = self._comments.get(student, {})
        return Exercise(
            name=cell.name,
            notebook=cell.notebook,
            score=None if score is None else _sum((score, extra or 0.0)),
            max_score=cell.max_score,
            auto_score=auto,
            manual_score=manual,
            extra_credit=extra,
            needs_human=score is None and student in self.submissions,
            regraded=manual is not None and waits,
            # nbgrader keeps comments with the cell of the answer, and scores with the cell of its tests.
            comment=comments.get((cell.notebook, cell.name.removeprefix(TEST_PREFIX)))
            or comments.get((cell.notebook, cell.name)),
        )


def _to_see_again(exercises: Iterable[Exercise]) -> Iterator[str]:
    for exercise in exercises:
        if exercise.regraded:
            yield f"{exercise.name.removeprefix(TEST_PREFIX)} was marked by hand before it was graded again"


def _row(assignment: Any, student: Any, work: _Work, doubts: tuple[str, ...]) -> Row:
    submission, exercises = work.submissions.get(student.id), work.exercises(student.id)
    status: Status = "graded"
    raw = penalty = score = None
    if submission is None:
        status = "missing"
    elif any(exercise.score is None for exercise in exercises):
        status = "needs_human"
    else:
        raw = _sum(exercise.score or 0.0 for exercise in exercises)
        penalty = max(0.0, submission.penalty)
        score = max(0.0, _sum((raw, -penalty)))
    return Row(
        assignment=assignment.name,
        duedate=_utc(assignment.duedate),
        timestamp=_utc(submission.timestamp) if submission is not None else None,
        student_id=student.id,
        last_name=student.last_name,
        first_name=student.first_name,
        email=student.email,
        raw_score=raw,
        late_submission_penalty=penalty,
        score=score,
        max_score=work.max_score,
        status=status,
        to_read=(*doubts, *_to_see_again(exercises)) if submission is not None else (),
        exercises=exercises,
    )


def _expect(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise CourseError(f"the gradebook knows no {what} '{name}'; check the spelling, or grade first.")


def _sum(numbers: Iterable[float]) -> float:
    return round(math.fsum(numbers), _DIGITS)


def _utc(naive: datetime.datetime | None) -> datetime.datetime | None:
    return None if naive is None else naive.replace(tzinfo=datetime.UTC)
