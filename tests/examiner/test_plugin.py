"""The pytest plugin: collects once, serves often, and is nobody else's business."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent

import pytest

from autograder.errors import CourseError
from autograder.examiner.__main__ import OPTIONS
from autograder.examiner.client import Examiner
from autograder.examiner.job import Job, JobCell, JobExercise
from autograder.examiner.plugin import SuitePlugin
from autograder.examiner.rehearsal import rehearse
from autograder.report import ExerciseReport
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
    """Why the suites of this folder can't be used, as the plugin says when it collects them."""
    for name in [name for name in sys.modules if name.startswith("parrot")]:
        del sys.modules[name]  # of another test's folder
    plugin = SuitePlugin(rehearse)
    pytest.main([*OPTIONS, f"--rootdir={hidden}", str(hidden)], plugins=[plugin])
    assert isinstance(plugin.problem, CourseError)
    return str(plugin.problem)


def examined(hidden: Path, *answers: str) -> list[ExerciseReport]:
    """The reports of answers to `echo`, one after the other through one lane of an examiner of its own."""
    with Examiner(hidden, "ABC") as examiner:
        assert examiner.points == {"parrot": {"echo": 2.0}}
        lane = examiner.lane()
        exercise = JobExercise("echo", 1, False)
        jobs = [Job("parrot", (JobCell(0, answer),), (exercise,), SEED, course().limits) for answer in answers]
        reports = [lane.examine(job).exercises[0] for job in jobs]
        lane.close()
    return reports


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
    text = 'from autograder.suite import mistake\n\n@mistake("m", caught_by="third", says="s")\ndef m(x): ...\n'
    (hidden / "parrot" / "mistakes_echo.py").write_text(text)
    assert "'m' is to be caught by 'third', which is no check" in refused(hidden)


def test_a_suite_that_fails_its_own_reference_judges_nobody(hidden: Path) -> None:
    (hidden / "parrot" / "test_echo.py").write_text(SUITE.format(body="fail(N_('no'))"))
    assert "test_first does not pass its own reference: CheckFailed: no" in refused(hidden)


def test_the_examiner_imports_nothing_that_lies_about(
    hidden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beside a notebook there may be a student's random.py, and above a course anybody's conftest.py.
    (tmp_path / "torch.py").write_text("raise SystemExit(7)")
    (tmp_path / "conftest.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    assert [report.score for report in examined(hidden, "def echo(x):\n    return x\n")] == [2]


def test_the_door_is_told_why_the_examiner_did_not_start(hidden: Path) -> None:
    (hidden / "parrot" / "correct_echo.py").unlink()
    with pytest.raises(CourseError, match=r"correct_echo\.py is missing"):
        Examiner(hidden, "C").__enter__()


def test_a_fault_of_a_suite_is_ungraded_and_never_a_zero_and_does_not_end_the_loop(hidden: Path) -> None:
    # Suites say `fail(...)`. A bare assert is no verdict, and leaving pytest's loop is not theirs to decide.
    body = "value = student(1)\n    assert value != 2\n    if value == 3: import pytest; pytest.exit('bye')"
    (hidden / "parrot" / "test_echo.py").write_text(SUITE.format(body=body))
    answers = [f"def echo(x):\n    return {value}\n" for value in (2, 3, 1)]
    *faults, good = examined(hidden, *answers)
    assert good.score == 2
    for report in faults:
        assert report.score is None
        assert [check.outcome for check in report.checks] == ["ungraded", "skipped"]
        said = report.checks[0].message
        assert said is not None and "a fault of the grader" in said.render()


def test_fixtures_are_fresh_for_every_submission(grader) -> None:  # type: ignore[no-untyped-def]
    reports = [grader.grade(answered(scaled_dot_product_attention=GOOD), "attention", SEED).report for _ in range(3)]
    assert len({str(exercise(report)) for report in reports}) == 1
