"""Which scores of a class have changed since people were last told of them: from what to what, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autograder.ledger import Before, Entry
from autograder.nbgrader.rows import Rows
from autograder.wording import points

if TYPE_CHECKING:
    from autograder.class_result import Result

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
    "other": "another run has graded the same file again",
    "failed": "it could not be graded before",
    "clock": "a time limit or a killed process had decided, and it was graded a second time",
    "hand": "a mark by hand",
    "late": "the penalty for handing it in late is another",
    "gradebook": "the automatic scores in the gradebook were others than grading had left there",
    "fault": "the grader failed",
    "undecided": "a person has to decide",
    "unusable": "the file can't be graded",
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


def change_of(before: Before, now: Entry) -> Change | None:
    """How runs, and humans, have changed a score since people were last told; None where it is the same, or the first.

    Args:
        before: what was there.
        now: what this run leaves.
    """
    if before.found is None:
        return None
    if before.left is None or before.rules is None:
        return _change(before.found, now, ["unrecorded"])
    touched = before.found.auto != before.left.auto
    why = ["file"] if now.submission != before.submission else []
    why += now.rules.others(before.rules)
    why += ["hand"] if now.rows.hand != before.left.hand else []
    why += ["late"] if now.rows.penalty != before.left.penalty else []
    why += ["gradebook"] if touched else []
    why += _why_none(now)
    return _change(before.found if touched else before.left, now, why or [before.examined or "again"])


def _why_none(now: Entry) -> list[str]:
    """Why it has no score."""
    if now.report.status == "graded":
        return []
    if now.report.status == "unusable":
        return ["unusable"]
    return ["undecided" if now.undecided else "fault"]


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
