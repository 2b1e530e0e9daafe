"""What is equal in the reports of a class is held once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from autograder.messages import message
from autograder.report import CheckReport, ExerciseReport, GradeReport, without_score
from autograder.sharing import Sharing


def report(**said: Any) -> GradeReport:
    """A report in which one check fails and says this; nothing in it is shared with another one."""
    passed = CheckReport("shape", message("Its shape"), "passed", 2.0, 2.0)
    failed = CheckReport("sum", message("Its sums"), "failed", 0.0, 2.0, message("{seen}", **said))
    exercise = ExerciseReport("attention", 2.0, 4.0, (passed, failed))
    empty = without_score(Path("/here"), "attention", "graded", message("odd"), max_score=4.0, seed=1, suite_hash="")
    return replace(empty, score=2.0, repairs=(message("mended"),), exercises=(exercise,))


def test_equal_parts_are_one_and_others_stay_as_they_are() -> None:
    sharing = Sharing()
    first, same, other = (sharing.shared(report(seen=seen)) for seen in ("0.5", "0.5", "0.7"))
    assert (first, same, other) == (report(seen="0.5"), report(seen="0.5"), report(seen="0.7"))
    assert same.exercises[0] is first.exercises[0]
    assert other.exercises[0] is not first.exercises[0]
    assert other.exercises[0].checks[0] is first.exercises[0].checks[0]
    assert other.repairs[0] is first.repairs[0]


def test_what_looks_alike_but_is_not_stays_apart() -> None:
    sharing = Sharing()
    seen = [sharing.shared(report(seen=value)).exercises[0].checks[1].message for value in (1, 1.0, True, "1")]
    assert [type(one.args["seen"]) for one in seen if one] == [int, float, bool, str]


def test_what_can_not_be_written_down_is_nobody_else_s() -> None:
    sharing = Sharing()
    for odd in ("\udc80", 1 << 70):
        assert sharing.shared(report(seen=odd)) == report(seen=odd)
