"""The report of one submission: what was checked, what it earned, and what to try next.

Inside, sentences are messages (an id with arguments); `public` turns them into one language, in the shape that
``autograder check --json`` prints.
"""

from __future__ import annotations

import gettext
import math
from pathlib import Path
from typing import Any, Literal

import msgspec

from autograder.messages import Message

SCHEMA = 1
DECIMALS = 9

Outcome = Literal[
    "passed",
    "failed",
    "not_attempted",  # the stub is still there
    "error",  # the student's code raised where it should not
    "timeout",
    "crashed",  # the student's process ended or spoke nonsense
    "out_of_memory",
    "forbidden",  # the answer calls the finished article
    "skipped",  # a check that it needs did not pass
    "ungraded",  # the fault is ours
]
Status = Literal["graded", "ungraded", "unusable"]


LOST: tuple[Outcome, ...] = ("failed", "error")
"""Outcomes that say something about the function's own code: the check saw what is wrong."""


class CheckReport(msgspec.Struct, frozen=True):
    """One check: its outcome, what it earned, and sentences that teach."""

    id: str
    title: Message
    outcome: Outcome
    score: float
    max_score: float
    message: Message | None = None
    mistake: str | None = None
    hint: Message | None = None


class ExerciseReport(msgspec.Struct, frozen=True):
    """One exercise; `score` is None while a human has to decide (graded by hand, or a fault of the grader)."""

    id: str
    score: float | None
    max_score: float
    checks: tuple[CheckReport, ...] = ()
    manual: bool = False
    mistake: str | None = None  # id of the known mistake that the answer equals
    diagnosis: Message | None = None  # the sentence that names it


class GradeReport(msgspec.Struct, frozen=True):
    """One submission. Exercises graded by hand stand outside of `score` and `max_score`.

    `repairs` are what was mended in the notebook, `notes` what else its author should know, `doubts` what an instructor
    should look at; none of them costs anything.
    """

    notebook: str
    assignment: str | None
    status: Status
    score: float | None
    max_score: float
    seed: int
    suite_hash: str
    confinement: str
    repairs: tuple[Message, ...] = ()
    notes: tuple[Message, ...] = ()
    doubts: tuple[Message, ...] = ()
    exercises: tuple[ExerciseReport, ...] = ()
    error: Message | None = None

    @property
    def complete(self) -> bool:
        """Whether every automatic point was earned."""
        return self.status == "graded" and self.score == self.max_score

    def public(self, translations: gettext.NullTranslations | None = None) -> dict[str, Any]:
        """The report as JSON values, sentences rendered; the shape is versioned by ``schema``."""
        shown: dict[str, Any] = {"schema": SCHEMA}
        shown.update(_public(self, translations))
        if self.error is None:
            del shown["error"]
        return shown


def without_score(
    path: Path, assignment: str | None, status: Status, error: Message, *, max_score: float, seed: int, suite_hash: str
) -> GradeReport:
    """The report of a notebook of which nothing was run, and why."""
    return GradeReport(
        notebook=str(path),
        assignment=assignment,
        status=status,
        score=None,
        max_score=max_score,
        seed=seed,
        suite_hash=suite_hash,
        confinement="none",
        error=error,
    )


def total(scores: list[float | None]) -> float | None:
    """The sum, or None where one of them is still open: an unknown score is never counted as 0."""
    known = [score for score in scores if score is not None and math.isfinite(score)]
    return math.fsum(known) if len(known) == len(scores) else None


def exact(score: float | None, most: float) -> float | None:
    """A score as it is recorded: within its bounds, and without what sums of fractions leave behind.

    None of what is no number: an unknown score waits for a human.
    """
    if score is None or not math.isfinite(score):
        return None
    return min(max(round(float(score), DECIMALS), 0.0), float(most))


def _public(value: Any, translations: gettext.NullTranslations | None) -> Any:
    if isinstance(value, Message):
        return value.render(translations)
    if isinstance(value, msgspec.Struct):
        return {name: _public(getattr(value, name), translations) for name in value.__struct_fields__}
    if isinstance(value, (list, tuple)):
        return [_public(item, translations) for item in value]
    if isinstance(value, float) and value == int(value):
        return int(value)
    return value
