"""What came of one submission of a class."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from autograder.changes import Change
from autograder.ledger import Entry
from autograder.report import GradeReport


@dataclass(frozen=True)
class Result:
    """What came of one submission.

    Attributes:
        report: of this run, or, of one that was graded before, of the run that graded it.
        seconds: of examining it; 0 where that was not needed.
        stored: it was not examined: an earlier run has graded the same file by the same suites with the same seed.
        unchanged: that was this student's own, in this gradebook.
        retained: the grader failed, and what an earlier run recorded for the same file stays.
        undecided: why there is no score is in the submission, and no fault of the grader.
        again: it was examined a second time, since a time limit, or a process that was killed, had decided in it.
        provisional: a time limit, or a process that was killed, has decided in it, and it was examined only once.
        waiting: the exercises that wait for a human, by what the gradebook says.
        marked: the exercises that have a human's mark, by what the gradebook says.
        reopened: why those of them wait that a human has marked, by name, as keys of `REOPENED`.
        adjusted: marks by hand or a late penalty make the score another than the checks gave.
        remarks: what else an instructor should know of the files.
        left_out: the notebooks beside it that nobody looked at.
        change: of its score, where that is another than before.
    """

    student: str
    report: GradeReport
    seconds: float = 0.0
    stored: bool = False
    unchanged: bool = False
    retained: bool = False
    undecided: bool = False
    again: bool = False
    provisional: bool = False
    waiting: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    reopened: dict[str, str] = field(default_factory=dict)
    adjusted: bool = False
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    change: Change | None = None


def standing(student: str, entry: Entry, path: Path) -> Result:
    """The result of a submission of which all stands as the last run left it."""
    return Result(
        student,
        msgspec.structs.replace(entry.report, notebook=str(path)),
        stored=True,
        unchanged=True,
        undecided=entry.undecided,
        provisional=entry.provisional,
        waiting=entry.waiting,
        marked=entry.marked,
        reopened=entry.reopened,
        adjusted=entry.adjusted,
        remarks=entry.remarks,
        left_out=entry.left_out,
    )
