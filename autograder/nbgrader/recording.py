"""The rows of one submission in nbgrader's gradebook, read and written whole, in a few statements.

nbgrader's own way asks for every object anew behind each step, which takes several times as long as all else that is
recorded. Rows are its tables' (`nbgrader.api`), and those that it would make with a submission are made here.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbgrader.api import (
    Assignment,
    Comment,
    Grade,
    GradeCell,
    MissingEntry,
    Notebook,
    SolutionCell,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    TaskCell,
    new_uuid,
)
from sqlalchemy import Select, bindparam, insert, select, update
from sqlalchemy.orm import Session

_GRADED = ("auto_score", "manual_score", "extra_credit", "needs_manual_grade")

# Statements that are asked for each submission: building one takes longer than the database does.
_SUBMISSION = select(SubmittedAssignment.id, SubmittedAssignment.timestamp, SubmittedAssignment.extension).where(
    SubmittedAssignment.assignment_id == bindparam("assignment"), SubmittedAssignment.student_id == bindparam("student")
)
_NOTEBOOKS = select(
    SubmittedNotebook.id, SubmittedNotebook.notebook_id, SubmittedNotebook.late_submission_penalty
).where(
    SubmittedNotebook.notebook_id.in_(bindparam("notebooks", expanding=True)),
    SubmittedNotebook.assignment_id == bindparam("submission"),
)
_STUDENT = select(Student.id).where(Student.id == bindparam("student"))


def _rows_of(kind: type[Any], *columns: Any) -> Select[Any]:
    """Rows of some cells in some notebooks: both, since the tables are indexed by cells first."""
    return select(kind.notebook_id, kind.id, kind.cell_id, *columns).where(
        kind.cell_id.in_(bindparam("cells", expanding=True)),
        kind.notebook_id.in_(bindparam("notebooks", expanding=True)),
    )


_GRADES = _rows_of(Grade, *(getattr(Grade, name) for name in _GRADED))
_COMMENTS = _rows_of(Comment, Comment.auto_comment)
_INSERTS = {kind: insert(kind.__table__) for kind in (Student, SubmittedAssignment, SubmittedNotebook, Grade, Comment)}
_UPDATES = {
    kind: update(kind.__table__).where(kind.__table__.c.id == bindparam("row"))
    for kind in (Grade, Comment, SubmittedNotebook)
}


@dataclass
class GradeRow:
    """A graded cell of a submission; the names are nbgrader's."""

    id: str
    cell_id: str
    name: str
    max_score: float
    auto_score: float | None = None
    manual_score: float | None = None
    extra_credit: float | None = None
    needs_manual_grade: bool = True

    @property
    def score(self) -> float:
        """The points so far, as nbgrader counts them."""
        given = self.auto_score if self.manual_score is None else self.manual_score
        return 0.0 if given is None else given + (self.extra_credit or 0.0)


@dataclass
class CommentRow:
    """What is said about a cell of a submission."""

    id: str
    cell_id: str
    name: str
    auto_comment: str | None = None


@dataclass
class NotebookRow:
    """A notebook of a submission."""

    id: str
    notebook_id: str
    name: str
    late_submission_penalty: float | None = None
    grades: list[GradeRow] = field(default_factory=list)
    comments: list[CommentRow] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The points so far, before a late penalty."""
        return sum(grade.score for grade in self.grades)


@dataclass
class SubmissionRow:
    """A submission with all its rows.

    Attributes:
        seconds_late: past the due date and the student's extension.
        waiting: the cells that wait for a human, and `marked`, those that have a human's mark.
        adjusted: marks by hand or a late penalty make the score another than the checks gave.
    """

    id: str
    student: str
    notebooks: list[NotebookRow]
    seconds_late: float

    @property
    def waiting(self) -> tuple[str, ...]:
        return tuple(grade.name for one in self.notebooks for grade in one.grades if grade.needs_manual_grade)

    @property
    def marked(self) -> tuple[str, ...]:
        return tuple(grade.name for one in self.notebooks for grade in one.grades if grade.manual_score is not None)

    @property
    def adjusted(self) -> bool:
        return any(
            one.late_submission_penalty
            or any(grade.manual_score is not None or grade.extra_credit for grade in one.grades)
            for one in self.notebooks
        )


class AssignmentRows:
    """An assignment's own rows, which those of all submissions hang on; read once.

    Args:
        database: nbgrader's session.
        name: of the assignment.
    """

    def __init__(self, database: Session, name: str) -> None:
        self._database = database
        self.id, self._due = database.execute(
            select(Assignment.id, Assignment.duedate).where(Assignment.name == name)
        ).one()
        rows = database.execute(select(Notebook.id, Notebook.name).where(Notebook.assignment_id == self.id))
        self._notebooks: dict[str, str] = dict(map(tuple, rows))
        self._graded, self._commented = self._cells(GradeCell, TaskCell), self._cells(SolutionCell, TaskCell)

    @property
    def notebooks(self) -> list[str]:
        """The names of its notebooks."""
        return list(self._notebooks.values())

    def _cells(self, *kinds: type[Any]) -> dict[str, list[Any]]:
        """The cells of these kinds, by notebook, as (id, name, points)."""
        found: dict[str, list[Any]] = {id: [] for id in self._notebooks}
        for kind in kinds:
            points = (kind.max_score,) if hasattr(kind, "max_score") else ()
            query = select(kind.notebook_id, kind.id, kind.name, *points).where(kind.notebook_id.in_(self._notebooks))
            for notebook, *cell in self._database.execute(query):
                found[notebook].append(cell)
        return found

    def find(self, student: str, timestamp: datetime.datetime | None = None) -> SubmissionRow | None:
        """The rows of a student's submission; None where there are none.

        Args:
            student: who handed it in.
            timestamp: when, in UTC and without a zone; None leaves what is known.
        """
        asked = {"assignment": self.id, "student": student}
        known = self._database.execute(_SUBMISSION, asked).one_or_none()
        if known is None:
            return None
        id, before, extension = known
        if timestamp is not None and timestamp != before:
            table = SubmittedAssignment.__table__
            self._database.execute(update(table).where(table.c.id == id).values(timestamp=timestamp))
        return SubmissionRow(id, student, self._read(id), self._late(timestamp or before, extension))

    def make(self, student: str, timestamp: datetime.datetime | None, create: bool) -> SubmissionRow:
        """The rows of a student's submission, made where they are missing.

        Args:
            student: who handed it in.
            timestamp: when, as in `find`.
            create: make the student, too.

        Raises:
            MissingEntry: there is no such student, and none is to be made.
        """
        found = self.find(student, timestamp)
        if found is None:
            found = SubmissionRow(new_uuid(), student, [], self._late(timestamp, None))
            self._add(found, timestamp, create)
        self._complete(found)
        return found

    def _late(self, timestamp: datetime.datetime | None, extension: datetime.timedelta | None) -> float:
        if timestamp is None or self._due is None:
            return 0.0
        due = self._due if extension is None else self._due + extension
        return max(0.0, float((timestamp - due).total_seconds()))

    def _add(self, new: SubmissionRow, timestamp: datetime.datetime | None, create: bool) -> None:
        if self._database.execute(_STUDENT, {"student": new.student}).one_or_none() is None:
            if not create:
                raise MissingEntry(f"No such student: {new.student}")
            self._insert(Student, [{"id": new.student}])
        row = {"id": new.id, "assignment_id": self.id, "student_id": new.student, "timestamp": timestamp}
        self._insert(SubmittedAssignment, [row])

    def _read(self, submission: str) -> list[NotebookRow]:
        """The notebooks of a submission with their rows."""
        rows = self._database.execute(_NOTEBOOKS, {"notebooks": list(self._notebooks), "submission": submission})
        found = {id: NotebookRow(id, of, self._notebooks.get(of, ""), penalty) for id, of, penalty in rows}
        graded = {id: (name, most) for cells in self._graded.values() for id, name, most in cells}
        for notebook, id, cell, *values in self._of(_GRADES, found, graded):
            found[notebook].grades.append(GradeRow(id, cell, *graded[cell], *values))
        commented = {id: name for cells in self._commented.values() for id, name, *_ in cells}
        for notebook, id, cell, said in self._of(_COMMENTS, found, commented):
            found[notebook].comments.append(CommentRow(id, cell, commented[cell], said))
        return list(found.values())

    def _of(self, query: Select[Any], notebooks: Iterable[str], cells: Iterable[str]) -> Iterator[Sequence[Any]]:
        return map(tuple, self._database.execute(query, {"notebooks": list(notebooks), "cells": list(cells)}))

    def _complete(self, submission: SubmissionRow) -> None:
        """Add the rows that nbgrader makes with a submission, where they are missing: deleted, or of later cells."""
        known = {one.notebook_id: one for one in submission.notebooks}
        new = [NotebookRow(new_uuid(), id, name) for id, name in self._notebooks.items() if id not in known]
        rows = [{"id": one.id, "assignment_id": submission.id, "notebook_id": one.notebook_id} for one in new]
        self._insert(SubmittedNotebook, rows)
        submission.notebooks += new
        grades, comments = [], []
        for one in submission.notebooks:
            graded, commented = {grade.cell_id for grade in one.grades}, {said.cell_id for said in one.comments}
            for id, name, most in self._graded.get(one.notebook_id, ()):
                if id not in graded:
                    one.grades.append(GradeRow(new_uuid(), id, name, most))
                    grades.append({"id": one.grades[-1].id, "cell_id": id, "notebook_id": one.id})
            for id, name, *_ in self._commented.get(one.notebook_id, ()):
                if id not in commented:
                    one.comments.append(CommentRow(new_uuid(), id, name))
                    comments.append({"id": one.comments[-1].id, "cell_id": id, "notebook_id": one.id})
        self._insert(Grade, [{**row, "needs_manual_grade": True} for row in grades])
        self._insert(Comment, comments)

    def _insert(self, kind: type[Any], rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            self._database.execute(_INSERTS[kind], list(rows))

    def write(self, submission: SubmissionRow) -> None:
        """Write what may have changed: automatic scores, who waits for a human, remarks, late penalties."""
        grades = [
            {"row": grade.id, "auto_score": grade.auto_score, "needs_manual_grade": grade.needs_manual_grade}
            for one in submission.notebooks
            for grade in one.grades
        ]
        comments = [
            {"row": said.id, "auto_comment": said.auto_comment} for one in submission.notebooks for said in one.comments
        ]
        penalties = [
            {"row": one.id, "late_submission_penalty": one.late_submission_penalty} for one in submission.notebooks
        ]
        for kind, rows in ((Grade, grades), (Comment, comments), (SubmittedNotebook, penalties)):
            if rows:
                self._database.execute(_UPDATES[kind], rows)
