"""An exercise that another one's suite judges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.channel.proxy import Student
from autograder.examiner.outcomes import verdict_of
from autograder.examiner.rehearsal import SameProcess
from autograder.suite import CheckFailed, Draws, Judge, StudentRaised, judged_by

ORIGINAL = """
from autograder.suite import N_, check, fail

@check(points=1, title=N_("It is a number"), hint=N_("Look at its type."))
def test_number(student, rng):
    if not isinstance(student(1.0), float):
        fail(N_("no number came back"), says_all=True)

@check(points=2, title=N_("It is twice the input"), hint=N_("Call it with 1."), needs="number")
def test_twice(student, rng):
    x = float(rng.normal(1))
    if (seen := student(x)) == x * x:
        fail(N_("the square came back"), hint=N_("Squares are no doubles."))
    if seen != 2 * x:
        fail(N_("for {x} came {seen}"), x=x, seen=seen)
"""


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "test_double.py").write_text(ORIGINAL)
    return judged_by(str(tmp_path / "clinic" / "test_clinic_double.py"), "first", "double")


def ask(judge: Judge, function: Callable[..., Any]) -> None:
    judge.expect_all(Student("double", SameProcess(function)), Draws(1, "clinic"))


def test_an_answer_that_passes_all_of_its_checks_passes(judge: Judge) -> None:
    ask(judge, lambda x: 2 * x)


def test_the_first_check_that_fails_speaks_with_its_title_and_its_hint(judge: Judge) -> None:
    with pytest.raises(CheckFailed, match="“It is twice the input” does not hold: for ") as failed:
        ask(judge, lambda x: x)
    verdict = verdict_of(failed.value)
    assert verdict.outcome == "failed" and not verdict.ask_check
    assert verdict.hint is not None and verdict.hint.render() == "Call it with 1."


def test_a_hint_that_fits_better_than_the_check_s_is_kept(judge: Judge) -> None:
    with pytest.raises(CheckFailed, match="the square came back") as failed:
        ask(judge, lambda x: x * x)
    hint = verdict_of(failed.value).hint
    assert hint is not None and hint.render() == "Squares are no doubles."


def test_where_the_sentence_says_all_no_hint_follows(judge: Judge) -> None:
    with pytest.raises(CheckFailed, match="“It is a number” does not hold: no number came back") as failed:
        ask(judge, lambda x: "two")
    verdict = verdict_of(failed.value)
    assert verdict.hint is None and not verdict.ask_check


def test_what_the_function_raises_is_told_as_it_is(judge: Judge) -> None:
    with pytest.raises(StudentRaised, match="ZeroDivisionError"):
        ask(judge, lambda x: 1 / 0)


def test_a_suite_that_is_not_there_is_missed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        judged_by(str(tmp_path / "clinic" / "test_clinic_double.py"), "first", "double")
