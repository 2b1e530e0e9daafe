"""The report, and its public shape."""

from __future__ import annotations

import json

import msgspec
import pytest

from autograder.messages import message
from autograder.report import CheckReport, ExerciseReport, GradeReport, total

FAILED = CheckReport(
    id="rows_sum_to_one",
    title=message("Each query's weights sum to 1"),
    outcome="failed",
    score=0.0,
    max_score=2.0,
    message=message("row {row} sums to {sum}", row=0, sum=0.53),
    mistake="scale-after-softmax",
    hint=message("Check the sums of the rows."),
)
PASSED = CheckReport("shape", message("The shape is right"), "passed", 1.5, 1.5)
EXERCISE = ExerciseReport("attention", 1.5, 3.5, (FAILED, PASSED), mistake="scale-after-softmax")
BY_HAND = ExerciseReport("conclusion", None, 6.0, manual=True)
REPORT = GradeReport(
    notebook="n.ipynb",
    assignment="attention",
    status="graded",
    score=1.5,
    max_score=3.5,
    seed=20261129,
    suite_hash="ab" * 32,
    confinement="namespaces+landlock+seccomp",
    repairs=(message("cell {index} was put back", index=3),),
    exercises=(EXERCISE, BY_HAND),
)


def test_the_public_report_has_the_shape_that_other_programs_read() -> None:
    shown = json.loads(json.dumps(REPORT.public()))
    assert list(shown)[:7] == ["schema", "notebook", "assignment", "status", "score", "max_score", "seed"]
    assert shown["schema"] == 1
    assert shown["repairs"] == ["cell 3 was put back"]
    assert shown["exercises"][0]["checks"][0] == {
        "id": "rows_sum_to_one",
        "title": "Each query's weights sum to 1",
        "outcome": "failed",
        "score": 0,
        "max_score": 2,
        "message": "row 0 sums to 0.53",
        "mistake": "scale-after-softmax",
        "hint": "Check the sums of the rows.",
    }


def test_an_exercise_graded_by_hand_has_no_score_yet() -> None:
    conclusion = REPORT.public()["exercises"][1]
    assert conclusion["manual"] is True
    assert conclusion["score"] is None


def test_whole_points_are_shown_without_a_fraction() -> None:
    text = json.dumps(REPORT.public())
    assert '"max_score": 2,' in text
    assert '"score": 1.5' in text


def test_only_a_report_with_an_error_shows_one() -> None:
    assert "error" not in REPORT.public()
    unusable = msgspec.structs.replace(REPORT, status="unusable", error=message("it is empty"))
    assert unusable.public()["error"] == "it is empty"


@pytest.mark.parametrize(
    ("status", "score", "complete"),
    [("graded", 3.5, True), ("graded", 1.5, False), ("ungraded", None, False), ("unusable", None, False)],
)
def test_a_report_is_complete_when_every_automatic_point_is_earned(
    status: str, score: float | None, complete: bool
) -> None:
    assert msgspec.structs.replace(REPORT, status=status, score=score).complete is complete


def test_an_open_score_is_never_counted_as_zero() -> None:
    assert total([1.0, 2.5]) == 3.5
    assert total([1.0, None]) is None
    assert total([]) == 0


def test_a_report_survives_being_stored() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(REPORT), type=GradeReport)
    assert stored == REPORT
    assert stored.public() == REPORT.public()
