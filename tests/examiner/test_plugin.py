"""The pytest plugin: collects once, serves often, and is nobody else's business."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent

import pytest

from autograder.errors import AutograderError, CourseError
from autograder.examiner.client import Examiner
from autograder.report import CheckReport
from tests.engine import GOOD, SEED, answered, course, exercise

SUITE = """
from autograder.suite import N_, check, fail

@check(points=1, title=N_("first"), hint=N_("h"))
def test_first(student, rng):
    {body}

@check(points=1, title=N_("second"), hint=N_("h"), needs="first")
def test_second(student, rng):
    pass
"""
CORRECT = 'from autograder.suite import correct\n\n@correct("plain")\ndef plain(x):\n    return x\n'


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    """A folder of hidden suites with one exercise, `echo`."""
    folder = tmp_path / "hidden" / "parrot"
    folder.mkdir(parents=True)
    (folder / "test_echo.py").write_text(SUITE.format(body="assert student(1) == 1"))
    (folder / "mistakes_echo.py").write_text("")
    (folder / "correct_echo.py").write_text(CORRECT)
    return tmp_path / "hidden"


def refused(hidden: Path) -> str:
    with pytest.raises(AutograderError) as caught:
        Examiner(hidden, "C").close()
    assert isinstance(caught.value, CourseError), caught.value
    return str(caught.value)


def test_it_is_no_entry_point() -> None:
    assert not [point for point in entry_points(group="pytest11") if point.value.startswith("autograder")]


def test_the_door_needs_neither_torch_nor_pytest() -> None:
    code = """
        import sys
        import autograder.cli, autograder._commands, autograder.grading, autograder.mend, autograder.report
        print(sorted({"torch", "pytest", "numpy", "IPython", "nbgrader"} & set(sys.modules)))
    """
    run = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_suite_that_can_not_be_imported_is_named_before_anything_is_graded(hidden: Path) -> None:
    (hidden / "parrot" / "test_echo.py").write_text("import nowhere\n")
    assert "test_echo.py can't be collected" in refused(hidden)


def test_a_check_without_its_declaration_is_refused(hidden: Path) -> None:
    (hidden / "parrot" / "test_echo.py").write_text("def test_first(student): pass\n")
    assert "has no @check" in refused(hidden)


def test_a_check_that_needs_an_unknown_one_is_refused(hidden: Path) -> None:
    text = SUITE.format(body="pass").replace('needs="first"', 'needs="fist"')
    (hidden / "parrot" / "test_echo.py").write_text(text)
    assert "needs 'fist', which is no check before it" in refused(hidden)


def test_a_suite_without_its_correct_answers_is_refused(hidden: Path) -> None:
    (hidden / "parrot" / "correct_echo.py").unlink()
    assert "correct_echo.py is missing" in refused(hidden)


def test_a_mistake_that_no_check_is_there_to_catch_is_refused(hidden: Path) -> None:
    text = (
        'from autograder.suite import mistake\n\n@mistake("m", caught_by="third", says="s")\ndef m(x): ...\n'
    )
    (hidden / "parrot" / "mistakes_echo.py").write_text(text)
    assert "'m' is to be caught by 'third', which is no check" in refused(hidden)


def test_points_come_from_the_suites(hidden: Path) -> None:
    with Examiner(hidden, "C") as examiner:
        assert examiner.points == {"parrot": {"echo": 2.0}}


def test_a_fault_of_a_suite_is_ungraded_and_never_a_zero(hidden: Path) -> None:
    from autograder.examiner.job import Job, JobCell, JobExercise

    # A bare assert is no verdict: suites say `fail(...)`, and anything else that they raise is our fault.
    (hidden / "parrot" / "test_echo.py").write_text(SUITE.format(body="assert student(1) == 2"))
    cells = (JobCell(0, "def echo(x):\n    return x\n"),)
    with Examiner(hidden, "C") as examiner:
        lane = examiner.lane()
        job = Job("parrot", cells, (JobExercise("echo", 1, False),), SEED, course().limits)
        [report] = lane.examine(job).exercises
        lane.close()
    assert report.score is None
    first: CheckReport = report.checks[0]
    assert first.outcome == "ungraded"
    assert first.message is not None and "a fault of the grader" in first.message.render()


def test_leaving_the_run_loop_is_not_open_to_a_suite(hidden: Path) -> None:
    from autograder.examiner.job import Job, JobCell, JobExercise

    (hidden / "parrot" / "test_echo.py").write_text(SUITE.format(body="import pytest; pytest.exit('bye')"))
    job = Job(
        "parrot", (JobCell(0, "def echo(x): return x"),), (JobExercise("echo", 1, False),), 1, course().limits
    )
    with Examiner(hidden, "C") as examiner:
        lane = examiner.lane()
        outcomes = [[check.outcome for check in lane.examine(job).exercises[0].checks] for _ in range(2)]
        lane.close()
    assert outcomes == [["ungraded", "skipped"]] * 2


def test_fixtures_are_fresh_for_every_submission(grader) -> None:  # type: ignore[no-untyped-def]
    reports = [
        grader.grade(answered(scaled_dot_product_attention=GOOD), "attention", SEED).report for _ in range(3)
    ]
    assert len({str(exercise(report)) for report in reports}) == 1
