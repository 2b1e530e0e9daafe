"""The rows of a class as they stand in nbgrader's gradebook, read without nbgrader, whose import takes seconds.

They are read to know whether a run would leave them as they are, and from which score to which a submission went.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

Execute = Callable[[str, Mapping[str, Any]], Iterable[Sequence[Any]]]
"""Runs a query with named parameters (``:name``)."""

_ASSIGNMENT = (
    "SELECT duedate, course_id FROM assignment WHERE name = :assignment",
    """SELECT notebook.name, source_cell.name, source_cell.cell_type, source, locked, checksum
       FROM source_cell JOIN notebook ON notebook.id = source_cell.notebook_id
       JOIN assignment ON assignment.id = notebook.assignment_id WHERE assignment.name = :assignment""",
    """SELECT notebook.name, base_cell.name, base_cell.type, grade_cells.max_score, grade_cells.cell_type
       FROM notebook JOIN assignment ON assignment.id = notebook.assignment_id
       LEFT JOIN base_cell ON notebook.id = base_cell.notebook_id
       LEFT JOIN grade_cells ON grade_cells.id = base_cell.id WHERE assignment.name = :assignment""",
)
# From the assignment to its submissions, by keys alone: nbgrader's tables have no index for any other way, and a class
# of thousands would be read anew for each of its students.
_SUBMITTED = """
    FROM assignment JOIN submitted_assignment ON submitted_assignment.assignment_id = assignment.id
    LEFT JOIN notebook ON notebook.assignment_id = assignment.id
    LEFT JOIN submitted_notebook ON submitted_notebook.notebook_id = notebook.id
    AND submitted_notebook.assignment_id = submitted_assignment.id"""
_CELLS = " JOIN base_cell ON base_cell.notebook_id = notebook.id"
_WHOSE = " WHERE assignment.name = :assignment"
_ONE = " AND student_id = :student"
_NOTEBOOKS = f"""SELECT student_id, notebook.name, late_submission_penalty, submitted_notebook.id IS NULL, timestamp,
    extension {_SUBMITTED}{_WHOSE}"""
_GRADES = f"""SELECT student_id, notebook.name, base_cell.name,
    auto_score, needs_manual_grade, manual_score, extra_credit
    {_SUBMITTED}{_CELLS}
    JOIN grade ON grade.cell_id = base_cell.id AND grade.notebook_id = submitted_notebook.id{_WHOSE}"""
_COMMENTS = f"""SELECT student_id, notebook.name, base_cell.name, auto_comment {_SUBMITTED}{_CELLS}
    JOIN comment ON comment.cell_id = base_cell.id AND comment.notebook_id = submitted_notebook.id{_WHOSE}"""


class Rows(msgspec.Struct, frozen=True):
    """What the gradebook says of one submission.

    Attributes:
        all: a hash of all that grading reads and writes.
        auto: a hash of the automatic scores alone, and `hand` of what humans give: marks and extra credit.
        penalty: points taken off because it was late.
        score: the points given so far, less the penalty, by whomever; None where none are given.
    """

    all: str
    auto: str
    hand: str
    penalty: float
    score: float | None


def assignment_rows(execute: Execute, assignment: str) -> str:
    """A hash of an assignment's own rows: its cells, their points, its due date."""
    return _hash([sorted(map(repr, map(tuple, execute(query, {"assignment": assignment})))) for query in _ASSIGNMENT])


def submitted_rows(execute: Execute, assignment: str, student: str = "") -> dict[str, Rows]:
    """The rows of all submissions to an assignment, or of one student's, by student."""
    asked = {"assignment": assignment} | ({"student": student} if student else {})
    whose = _ONE if student else ""
    found: dict[str, _Found] = {}
    for name, notebook, penalty, *rest in execute(_NOTEBOOKS + whose, asked):
        one = found.setdefault(name, _Found())
        one.all.append((notebook, penalty, *rest))
        one.penalties.append(penalty or 0.0)
    for name, notebook, cell, score, waits, mark, extra in execute(_GRADES + whose, asked):
        one = found[name]
        one.all.append((notebook, cell, score, waits, mark, extra))
        one.auto.append((notebook, cell, score))
        if mark is not None or extra is not None:
            one.hand.append((notebook, cell, mark, extra))
        given = score if mark is None else mark
        if given is not None:
            one.scores.append(given + (extra or 0.0))
    for name, *comment in execute(_COMMENTS + whose, asked):
        found[name].all.append(comment)
    return {name: one.rows() for name, one in found.items()}


@dataclass
class _Found:
    all: list[Any] = field(default_factory=list)
    auto: list[Any] = field(default_factory=list)
    hand: list[Any] = field(default_factory=list)
    penalties: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def rows(self) -> Rows:
        penalty = max(0.0, math.fsum(self.penalties))  # of the whole work, as `autograder export` counts it
        score = max(0.0, math.fsum(self.scores) - penalty) if self.scores else None
        everything, auto, hand = (_hash(sorted(map(repr, rows))) for rows in (self.all, self.auto, self.hand))
        return Rows(everything, auto, hand, penalty, score)


@contextlib.contextmanager
def reading(database: Path) -> Iterator[Execute]:
    """Read an SQLite gradebook, and change nothing.

    Raises:
        sqlite3.Error: it can't be read.
    """
    connection = sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)
    try:
        yield connection.execute
    finally:
        connection.close()


def _hash(rows: Sequence[Any]) -> str:
    return hashlib.sha256(repr(rows).encode(errors="replace")).hexdigest()
