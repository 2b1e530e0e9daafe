"""The sample class gets what its students deserve."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autograder.grading import Grader
from autograder.submissions import submissions
from tests.engine import ROOT, SEED, exercise, outcomes

FOLDER = ROOT / "examples" / "submissions"
SUBMITTED = dict(submissions(FOLDER, "attention"))

# project_qkv, scaled_dot_product_attention, and an outcome that must be among the latter's checks
DESERVED = {
    "amara": (4, 16, "passed"),
    "ben": (0, 0, "not_attempted"),
    "chen": (4, 0, "not_attempted"),
    "dora": (4, 13, "failed"),
    "emil": (2, 5, "failed"),
    "farah": (4, 14.5, "error"),
    "goran": (4, 16, "passed"),
    "hugo": (4, 0, "failed"),
    "ines": (4, 0, "timeout"),
    "jonas": (4, 0, "crashed"),
    "kaito": (4, 0, "error"),
    "lena": (4, 16, "passed"),
    "mei": (4, 0, "forbidden"),
    "noor": (4, 0, "failed"),
}


@pytest.mark.parametrize("student", DESERVED)
def test_every_student_of_the_sample_class_gets_what_they_deserve(grader: Grader, student: str) -> None:
    report = grader.grade(SUBMITTED[student], None, SEED).report
    projection, attention, outcome = DESERVED[student]
    assert (exercise(report, "project_qkv").score, exercise(report).score) == (projection, attention)
    assert outcome in outcomes(report)


def test_no_student_was_forgotten() -> None:
    assert set(SUBMITTED) == set(DESERVED)


def test_the_sample_class_is_in_step_with_the_release_notebook() -> None:
    subprocess.run([sys.executable, ROOT / "examples" / "students.py", "--check"], check=True)
