"""The sample class gets what its students deserve."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from autograder.grading import Grader
from autograder.report import GradeReport
from autograder.submissions import submissions
from tests.engine import ROOT, SEED

# Of each exercise the score, in the notebook's order, and None where a human gives it; then the outcome of a check, or
# the mistake by its name, that the report must hold.
DESERVED = {
    "sequences": {
        "amara": (4, 4, 4, "passed"),
        "ben": (0, 0, 0, "not_attempted"),
        "chen": (3.5, 0, 2, "h0-ignored"),
        "dora": (3, 4, 3.5, "heads-by-default"),
        "emil": (3.5, 3.5, 3, "sentences-for-words"),
        "farah": (3, 3.5, 4, "list-overwritten"),
        "goran": (4, 4, 4, "passed"),
        "ines": (3.5, 4, 3.5, "last-state-only"),
        "mei": (0, 0, 4, "forbidden"),
        "noor": (3.5, 3.5, 3.5, "new-tensor-in-float32"),
    },
    "attention": {
        "amara": (4, 16, "passed"),
        "ben": (0, 0, "not_attempted"),
        "chen": (4, 0, "not_attempted"),
        "dora": (4, 13, "no-scale"),
        "emil": (2, 5, "softmax-over-queries"),
        "farah": (4, 14.5, "scaled-in-place"),
        "goran": (4, 16, "passed"),
        "hugo": (4, 0, "failed"),
        "ines": (4, 0, "timeout"),
        "jonas": (4, 0, "crashed"),
        "kaito": (4, 0, "error"),
        "lena": (4, 16, "passed"),
        "mei": (4, 0, "forbidden"),
        "noor": (4, 0, "numpy-results"),
    },
    "masking": {
        "amara": (4, 4, 14, "passed"),
        "ben": (0, 0, 0, "not_attempted"),
        "chen": (4, 4, 0, "not_attempted"),
        "dora": (4, 4, 12, "nan-rows"),
        "emil": (4, 1.5, 3, "padding-along-queries"),
        "farah": (4, 4, 13.5, "failed"),
        "goran": (4, 4, 14, "passed"),
        "hugo": (4, 0, 0, "failed"),
        "ines": (4, 4, 14, "passed"),
        "jonas": (4, 4, 0.5, "error"),
        "kaito": (4, 4, 3, "error"),
        "lena": (4, 4, 14, "passed"),
        "mei": (4, 4, 0, "forbidden"),
        "noor": (0, 0, 10.5, "list-of-rows"),
    },
    "loss": {
        "amara": (4, 12, 6, "passed"),
        "ben": (0, 0, 0, "not_attempted"),
        "chen": (4, 0, 0, "not_attempted"),
        "dora": (4, 9.5, 4, "mean-over-all-places"),
        "emil": (4, 4, 3.5, "softmax-over-positions"),
        "farah": (3.5, 11.5, 5.5, "targets-overwritten"),
        "goran": (4, 12, 6, "passed"),
        "hugo": (0, 0, 0, "failed"),
        "ines": (4, 9.5, 6, "mean-of-sentence-means"),
        "jonas": (4, 0, 6, "crashed"),
        "kaito": (4, 0, 6, "error"),
        "lena": (4, 12, 6, "passed"),
        "mei": (4, 0, 6, "forbidden"),
        "noor": (0, 9.5, 5, "plain-number"),
    },
    "multihead": {
        "amara": (6, 4, 14, "passed"),
        "ben": (0, 0, 0, "not_attempted"),
        "chen": (6, 4, 0, "not_attempted"),
        "dora": (3, 1.5, 8, "view-there-and-back"),
        "emil": (4, 1.5, 10, "interleaved-heads"),
        "farah": (5, 4, 13.5, "mask-turned-in-place"),
        "goran": (6, 4, 14, "passed"),
        "hugo": (0, 0, 0, "crashed"),
        "ines": (6, 4, 10.5, "weights-averaged"),
        "jonas": (6, 4, 14, "passed"),
        "kaito": (6, 4, 0, "error"),
        "lena": (6, 4, 14, "passed"),
        "mei": (6, 4, 0, "forbidden"),
        "noor": (1, 0, 7.5, "failed"),
    },
    "heads": {
        "amara": (4, 6, 4, None, "passed"),
        "chen": (4, 0, 2, None, "failed"),
        "dora": (3.5, 5, 3, None, "halves"),
        "hugo": (0, 0, 0.5, None, "failed"),
        "noor": (3.5, 0.5, 0, None, "float-result"),
    },
    "clinic": {
        "amara": (2, 2, 2, 2, 2, 2, "passed"),
        "ben": (0, 0, 0, 0, 0, 0, "not_attempted"),
        "chen": (2, 2, 0, 2, 0, 0, "not_attempted"),
        "dora": (0, 0, 2, 0, 0, 2, "old-bans-kept"),
        "hugo": (0, 0, 0, 0, 0, 0, "as-sick-as-before"),
        "kaito": (2, 0, 0, 0, 0, 0, "error"),
        "mei": (0, 0, 0, 0, 2, 0, "forbidden"),
    },
}
EVERYBODY = [(assignment, student) for assignment, students in DESERVED.items() for student in students]


@pytest.mark.parametrize(("assignment", "student"), EVERYBODY)
def test_every_student_of_the_sample_class_gets_what_they_deserve(
    grader: Grader, assignment: str, student: str
) -> None:
    report = grader.grade(submitted(assignment)[student], None, SEED).report
    *scores, said = DESERVED[assignment][student]
    assert [exercise.score for exercise in report.exercises] == scores
    assert said in everything_said(report)


def test_no_student_was_forgotten() -> None:
    for assignment, students in DESERVED.items():
        assert set(submitted(assignment)) == set(students)


def test_the_sample_class_is_in_step_with_the_release_notebooks() -> None:
    subprocess.run([sys.executable, ROOT / "examples" / "students.py", "--check"], check=True)


@cache
def submitted(assignment: str) -> dict[str, Path]:
    """Where each student's notebook lies."""
    return {one.student: one.path for one in submissions(ROOT / "examples" / "submissions", assignment)}


def everything_said(report: GradeReport) -> set[str]:
    """The outcomes of all checks, and the mistakes that are named."""
    outcomes = {check.outcome for exercise in report.exercises for check in exercise.checks}
    return outcomes | {exercise.mistake for exercise in report.exercises if exercise.mistake}
