"""What came of each submission of a class, and which scores this run has changed, from what to what, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from autograder.ledger import Entry
from autograder.nbgrader.rows import Rows
from autograder.report import GradeReport
from autograder.wording import points

MAX_TOLD = 20
"""How many changed scores are told one by one."""
REASONS = {
    "file": "another file was handed in",
    "suite": "the hidden tests, the course's notebook or rules, or the grader are others",
    "limits": "other limits",
    "version": "another version of the grader",
    "seed": "another seed",
    "tier": "another confinement is required",
    "fresh": "graded again with --fresh",
    "again": "graded again, for its result was no longer kept",
    "hand": "a mark by hand",
    "late": "the penalty for handing it in late is another",
    "gradebook": "the automatic scores in the gradebook were others than grading had left there",
    "fault": "it could not be graded",
    "unrecorded": "no record is left of how it was graded before",
}
"""Why a score is another."""


@dataclass(frozen=True)
class Change:
    """A score that is another than before: points given so far, by checks and by hand, less penalties.

    Attributes:
        before, after: the score; None where nobody has given any points yet.
        why: keys of `REASONS`.
    """

    before: float | None
    after: float | None
    why: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What came of one submission.

    Attributes:
        report: of this run, or, of one that was graded before, of the run that graded it.
        seconds: of examining it; 0 where that was not needed.
        stored: it was not examined: an earlier run has graded the same file by the same suites with the same seed.
        unchanged: that was this student's own, in this gradebook.
        kept: the grader failed, and what an earlier run recorded for the same file stays.
        waiting: the exercises that wait for a human, by what the gradebook says.
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
    kept: bool = False
    waiting: tuple[str, ...] = ()
    adjusted: bool = False
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    change: Change | None = None


def standing(student: str, entry: Entry, path: Path) -> Result:
    """The result of a submission of which all stands as the last run left it."""
    report = msgspec.structs.replace(entry.report, notebook=str(path))
    more = (entry.waiting, entry.adjusted, entry.remarks, entry.left_out)
    return Result(student, report, 0.0, True, True, False, *more)


def change_of(then: Entry | None, found: Rows | None, now: Entry, examined: str) -> Change | None:
    """How this run, and humans since the last one, changed a score; None where it is the same, or the first.

    Args:
        then: what the last run left; None where that is not known.
        found: the rows as this run found them.
        now: what this run leaves.
        examined: why it was examined where nothing has changed, a key of `REASONS`; empty where it was not.
    """
    if found is None:
        return None
    if then is None:
        return _change(found, now, ["unrecorded"])
    touched = found.auto != then.rows.auto
    why = ["file"] if now.submission != then.submission else []
    why += now.rules.others(then.rules)
    why += ["hand"] if now.rows.hand != then.rows.hand else []
    why += ["late"] if now.rows.penalty != then.rows.penalty else []
    why += ["gradebook"] if touched else []
    why += ["fault"] if now.report.status != "graded" else []
    return _change(found if touched else then.rows, now, why or [examined or "again"])


def _change(before: Rows, now: Entry, why: Sequence[str]) -> Change | None:
    after = now.rows.score
    return Change(before.score, after, tuple(why)) if before.score != after else None


def changes(results: Sequence[Result], several: bool) -> Iterator[str]:
    """One line for each changed score, the first ones; of `several` assignments, in which."""
    changed = [(result, result.change) for result in results if result.change is not None]
    for result, change in changed[:MAX_TOLD]:
        where = f", {result.report.assignment}" if several else ""
        why = ", ".join(REASONS[reason] for reason in change.why)
        yield f"changed, {result.student}{where}: from {points(change.before)} to {points(change.after)} ({why})"
    if len(changed) > MAX_TOLD:
        yield f"changed: {len(changed) - MAX_TOLD} more"
