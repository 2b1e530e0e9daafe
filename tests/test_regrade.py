"""Grading a class again: what is not done twice, what is put right, and which scores are told as changed, and why."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from autograder.changes import MAX_TOLD, REASONS
from autograder.cli import main
from autograder.course import Course, suite_hash
from autograder.errors import UnusableNotebook
from autograder.examiner.job import Examined
from autograder.grading import Graded
from autograder.mend import mend
from autograder.messages import message
from autograder.nbgrader.files import ClassFiles
from autograder.notebook import read_notebook
from autograder.report import CheckReport, ExerciseReport, GradeReport, without_score
from tests.nbgrader.rows import rows

from .conftest import HALF, SOURCE, code, notebook

STUDENTS = ("ada", "bob", "cleo")
MORE: tuple[Any, ...] = ()
"""Cells that a notebook of the course has beside its exercise."""


class ByText:
    """Looks like `autograder.grading.Grader`, and grades by what a submission says that it is worth."""

    examined: list[str]
    bonus = 0.0
    fails = False
    fails_for: tuple[str, ...] = ()
    undecided = False
    by_chance = False

    def __init__(self, course: Course, *_: object, **__: object) -> None:
        self.course = course

    def __enter__(self) -> ByText:
        return self

    def __exit__(self, *_: object) -> None: ...

    def wait(self) -> None: ...

    def close(self) -> None: ...

    def grade_many(self, submissions: Iterable[tuple[Path, str]], seed: int) -> Iterator[Graded]:
        for path, assignment in submissions:
            self.examined.append(path.parents[1].name)
            yield self._grade(path, assignment, seed)

    def _grade(self, path: Path, assignment: str, seed: int) -> Graded:
        try:
            mended = mend(read_notebook(path), self.course, assignment)
        except UnusableNotebook as error:
            said = message("{why}", why=str(error))
            return Graded(without_score(path, assignment, "unusable", said, max_score=4, seed=seed, suite_hash=""))
        fails = self.fails or path.parents[1].name in self.fails_for
        score = float(path.read_text().split("worth ")[1].split(" ")[0]) + self.bonus
        check = CheckReport("value", message("It doubles"), "passed" if score else "failed", score, 4.0)
        report = GradeReport(
            notebook=str(path),
            assignment=assignment,
            status="ungraded" if fails else "graded",
            score=None if fails else score,
            max_score=4.0,
            seed=seed,
            suite_hash=suite_hash(self.course, assignment),
            confinement="none",
            exercises=(ExerciseReport("double", None if fails else score, 4.0, (check,)),),
            error=message("the examiner is gone") if fails else None,
        )
        return Graded(report, mended, Examined(report.exercises, by_chance=self.by_chance), self.undecided)


@pytest.fixture
def grader(monkeypatch: pytest.MonkeyPatch) -> type[ByText]:
    class Fresh(ByText):
        examined: list[str] = []  # noqa: RUF012 - one for each test

    monkeypatch.setattr("autograder.grading.Grader", Fresh)
    return Fresh


@pytest.fixture
def course(course_folder: Path, monkeypatch: pytest.MonkeyPatch, one_alembic: None) -> Path:
    """A course with three submissions, in whose folder we are."""
    monkeypatch.chdir(course_folder)
    (course_folder / "nbgrader_config.py").write_text(
        "from autograder.nbgrader.config import configure\nc = get_config()\nconfigure(c, __file__)\n"
        "c.LateSubmissionPlugin.penalty_method = 'zero'\n"
    )
    for student, worth in zip(STUDENTS, (4, 2.5, 1), strict=True):
        hand_in(student, worth)
    (submitted("ada").parent / "notes.txt").write_text("mine")
    return course_folder


def submitted(student: str) -> Path:
    return Path("submitted", student, "attention", "attention.ipynb")


def graded(student: str, name: str = "attention.ipynb") -> Path:
    return Path("autograded", student, "attention", name)


def hand_in(student: str, worth: float, said: str = "") -> None:
    path = submitted(student)
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = code(
        f"def double(x):\n    return 2 * x  # {student} worth {worth} {said}", grade_id="double", solution=True
    )
    path.write_text(json.dumps(notebook(answer, *SOURCE["cells"][2:], *HALF)))


def sql(statement: str) -> None:
    with sqlite3.connect("gradebook.db") as database:
        assert database.execute(statement).rowcount != 0


def state() -> dict[str, Any]:
    """All that a class run leaves: rows and files."""
    files = {
        str(path): (path.read_bytes(), path.stat().st_mode) for path in Path("autograded").rglob("*") if path.is_file()
    }
    return {"files": files} | {table: list(found) for table, found in rows(Path("gradebook.db")).items()}


def graded_class(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, dict[str, Any]]:
    """Run ``autograder grade --json``; what it tells, by student."""
    capsys.readouterr()
    assert main(["grade", "--json", *options]) in (0, 3)
    return {one["student"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}


def change(told: dict[str, Any]) -> tuple[float | None, float | None, set[str]] | None:
    found = told["change"]
    return found and (found["from"], found["to"], set(found["why"]))


@pytest.fixture
def refuse_the_long_way(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after which a run may neither ask nbgrader nor write."""

    def asked(*_: object) -> None:
        raise AssertionError("this run has asked nbgrader")

    return lambda: monkeypatch.setattr("autograder._class_commands._nbgrader", asked)


# What is not done twice


def test_an_unchanged_class_is_told_alike_without_nbgrader(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str], refuse_the_long_way: Callable[[], None]
) -> None:
    first = graded_class(capsys)
    before, times = state(), {path: path.stat().st_mtime_ns for path in Path("autograded").rglob("*")}
    refuse_the_long_way()
    again = graded_class(capsys)
    for told in (*first.values(), *again.values()):
        del told["stored"], told["unchanged"]
    assert again == first and len(first) == 3
    assert state() == before and times == {path: path.stat().st_mtime_ns for path in Path("autograded").rglob("*")}
    assert grader.examined == list(STUDENTS)
    main(["grade"])
    assert "nothing has changed since these 3 were graded; --fresh grades them again" in " ".join(
        capsys.readouterr().out.split()
    )


def test_an_unchanged_class_imports_nothing_heavy(grader: type[ByText], course: Path) -> None:
    main(["grade"])
    program = (
        "import sys\nfrom autograder.cli import main\nassert main(['grade']) == 0\n"
        "print([name for name in ('nbgrader', 'nbformat', 'sqlalchemy', 'torch', 'numpy') if name in sys.modules])"
    )
    import subprocess
    import sys

    # The fixture's folders for Jupyter are this process's; the stand-in is not there, and is not needed.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_was_graded_before_is_counted(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["grade"])
    hand_in("dan", 3)
    capsys.readouterr()
    main(["grade"])
    said = " ".join(capsys.readouterr().out.split())
    assert "graded 1 in " in said and "; 3 of 4 were looked at before; seed" in said
    assert grader.examined == [*STUDENTS, "dan"]


def _renamed() -> list[str]:
    Path("submitted/ada").rename("submitted/zoe")
    return []


def _without_graded() -> list[str]:
    shutil.rmtree("autograded")
    return []


def _without_gradebook() -> list[str]:
    Path("gradebook.db").unlink()
    return []


def _without_ledgers() -> list[str]:
    shutil.rmtree(".autograder/ledgers")
    return []


@pytest.mark.parametrize(
    "do", [_renamed, _without_graded, _without_gradebook, _without_ledgers, lambda: ["--into", "elsewhere"]]
)
def test_a_result_is_found_again_wherever_it_goes(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str], do: Callable[[], list[str]]
) -> None:
    first = graded_class(capsys)
    told = graded_class(capsys, *do())
    assert all(one["stored"] for one in told.values())
    assert [one["score"] for one in told.values()] in ([4, 2.5, 1], [2.5, 1, 4])
    assert grader.examined == [*first]
    assert all(one["change"] is None for one in told.values())


def test_fresh_ignores_what_is_kept_and_replaces_it(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["grade"])
    grader.bonus = -0.5
    told = graded_class(capsys, "--fresh")
    assert not any(one["stored"] for one in told.values()) and grader.examined == [*STUDENTS, *STUDENTS]
    assert change(told["ada"]) == (4, 3.5, {"fresh"})
    shutil.rmtree("autograded")
    assert graded_class(capsys)["ada"]["score"] == 3.5
    assert main(["grade", "--force"]) == 0
    assert len(grader.examined) == 9


def test_a_changed_suite_examines_its_own_assignment_alone(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = (course / "course.yml").read_text()
    second = rules[rules.index("  attention:") :].replace("attention", "masking").replace("Attention", "Masking")
    (course / "course.yml").write_text(rules + second)
    for place in ("source", "tests/hidden"):
        shutil.copytree(course / place / "attention", course / place / "masking")
    (course / "source/masking/attention.ipynb").rename(course / "source/masking/masking.ipynb")
    other = Path("submitted/ada/masking/masking.ipynb")
    other.parent.mkdir()
    shutil.copy(submitted("ada"), other)
    main(["grade"])
    assert grader.examined == [*STUDENTS, "ada"]
    with (course / "tests/hidden/masking/test_double.py").open("a") as suite:
        suite.write("# changed\n")
    main(["grade"])
    assert grader.examined == [*STUDENTS, "ada", "ada"]


# What is put right


def _rows(statement: str) -> Callable[[], None]:
    return lambda: sql(statement)


def _edit_graded() -> None:
    os.chmod(graded("bob"), 0o644)
    graded("bob").write_text(graded("bob").read_text().replace('"score": 2.5', '"score": 4.0'))


def _swap_graded() -> None:
    shutil.copy(graded("ada"), graded("bob").with_name("x"))
    graded("bob").with_name("x").replace(graded("bob"))


def _due() -> None:
    rules = Path("course.yml").read_text()
    Path("course.yml").write_text(rules.replace("2026-12-20T23:59:00", "2026-11-20T23:59:00"))


def _timestamp(text: str) -> Callable[[], None]:
    return lambda: (submitted("bob").parent / "timestamp.txt").write_text(text) and None


def _more_by_the_course() -> None:
    Path("source/attention/words.txt").write_text("the course's")


def _extension() -> None:
    _timestamp("2026-12-22 00:00:00 UTC")()
    main(["grade"])
    sql("UPDATE submitted_assignment SET extension = '1970-01-09 00:00:00.000000'")


def _penalty() -> None:
    _timestamp("2027-01-01 00:00:00 UTC")()
    main(["grade"])
    config = Path("nbgrader_config.py")
    config.write_text(config.read_text().replace("'zero'", "'none'"))


TAMPERED = {
    "a score": _rows("UPDATE grade SET auto_score = 4 WHERE auto_score = 2.5"),
    "a score that is gone": _rows("UPDATE grade SET auto_score = NULL WHERE auto_score = 2.5"),
    "waits": _rows("UPDATE grade SET needs_manual_grade = 1 WHERE auto_score = 2.5"),
    "a comment": _rows("UPDATE comment SET auto_comment = 'No response.'"),
    "a penalty": _rows("UPDATE submitted_notebook SET late_submission_penalty = 2"),
    "a timestamp in the gradebook": _rows("UPDATE submitted_assignment SET timestamp = '2027-01-01 00:00:00.000000'"),
    "a due date in the gradebook": _rows("UPDATE assignment SET duedate = '2000-01-01 00:00:00.000000'"),
    "grades are gone": _rows("DELETE FROM grade WHERE auto_score = 2.5"),
    "an extension": _extension,
    "a graded notebook is edited": _edit_graded,
    "a graded notebook is another's": _swap_graded,
    "a graded notebook is gone": lambda: graded("bob").unlink(),
    "a graded folder is gone": lambda: shutil.rmtree(graded("bob").parent),
    "a graded file is gone": lambda: graded("ada", "notes.txt").unlink(),
    "a graded file more": lambda: graded("ada", "more.txt").write_text("more") and None,
    "a graded notebook can be written": lambda: os.chmod(graded("bob"), 0o666),
    "a file is handed in": lambda: (submitted("bob").parent / "data.csv").write_text("1") and None,
    "a file is edited": lambda: (submitted("ada").parent / "notes.txt").write_text("mien") and None,
    "a file is taken back": lambda: (submitted("ada").parent / "notes.txt").unlink(),
    "handed in late": _timestamp("2027-01-01 00:00:00 UTC"),
    "another due date": _due,
    "a file of the course": _more_by_the_course,
    "another penalty": _penalty,
}


@pytest.mark.parametrize("tampered", TAMPERED)
def test_what_is_not_as_a_run_would_leave_it_is_put_right(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str], tampered: str
) -> None:
    (submitted("cleo").parent / "timestamp.txt").write_text("2026-12-01 12:00:00 UTC")
    main(["grade"])
    TAMPERED[tampered]()
    found = state()
    assert main(["grade"]) == 0
    done = state()
    assert done != found
    assert grader.examined == [*STUDENTS]  # from what is kept
    assert main(["grade", "--fresh"]) == 0
    assert state() == done


def test_what_a_configuration_hangs_on_counts_too(
    grader: type[ByText],
    course: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    refuse_the_long_way: Callable[[], None],
) -> None:
    monkeypatch.setenv("PENALTY_OF_THIS_YEAR", "none")
    monkeypatch.syspath_prepend(str(course))
    Path("rules_of_the_house.py").write_text("METHOD = 'zero'\n")
    with Path("nbgrader_config.py").open("a") as config:
        config.write("import os, rules_of_the_house\nos.environ['PENALTY_OF_THIS_YEAR']\n")
    main(["grade"])
    refuse_the_long_way()
    main(["grade"])
    for do in (
        lambda: Path("rules_of_the_house.py").write_text("METHOD = 'none'\n"),
        lambda: (
            Path("rules_of_the_house.py").write_text("METHOD = 'zero'\n")
            and monkeypatch.setenv("PENALTY_OF_THIS_YEAR", "zero")
        ),
    ):
        do()
        with pytest.raises(AssertionError, match="asked nbgrader"):
            main(["grade"])


def test_a_damaged_ledger_is_no_ledger(grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["grade"])
    before = state()
    for path in Path(".autograder/ledgers").iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    told = graded_class(capsys)
    assert all(one["stored"] for one in told.values()) and state() == before


# Arithmetic


def grades(student: str) -> dict[str, list[Any]]:
    return {cell: rest for who, _, cell, *rest in rows(Path("gradebook.db"))["grade"] if who == student}


@pytest.mark.parametrize(
    ("worth", "recorded"),
    [
        (2.5, 2.5),
        (0.1 + 0.2, 0.3),
        (4.000000001, 4.0),
        (4 + 1e-13, 4.0),
        (-1e-12, 0.0),
        (100, 4.0),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_a_score_is_exact_and_within_its_bounds(
    grader: type[ByText], course: Path, worth: float, recorded: float | None
) -> None:
    hand_in("ada", worth)
    main(["grade"])
    score, _, _, waits = grades("ada")["test_double"]
    assert (score, waits) == (recorded, recorded is None)


def test_a_regrade_replaces_automatic_scores_and_never_touches_marks_by_hand(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["grade"])
    sql("UPDATE grade SET manual_score = 3, extra_credit = 0.5")
    sql("UPDATE comment SET manual_comment = 'Well seen.'")
    for options in ([], ["--fresh"]):
        hand_in("ada", 2, said=str(options))
        told = graded_class(capsys, *options)
        assert told["ada"]["marked"] == ["double", "half"]
        assert grades("ada")["test_double"] == [2, 3, 0.5, 1]
        assert grades("bob")["test_double"] == [2.5, 3, 0.5, 0]
    assert {row[4] for row in rows(Path("gradebook.db"))["comment"]} == {"Well seen."}


def test_what_reports_have_in_common_is_held_once(
    grader: type[ByText], course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Mock()
    monkeypatch.setattr("autograder._class_commands.tell", told)
    hand_in("ada", 2)
    hand_in("bob", 2, said="again")
    main(["grade"])
    ada, bob, _ = (one.report.exercises[0] for one in told.call_args.args[0].results)
    assert ada.checks[0].score == 2 and ada is bob


def test_the_automatic_scores_of_a_notebook_that_the_course_has_no_more_do_not_stay(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worth = {"grade": True, "locked": False, "solution": True, "points": 6}
    second = notebook(code("# what did you see?", grade_id="seen", **worth))
    Path("source/attention/more.ipynb").write_text(json.dumps(second))
    (submitted("ada").parent / "more.ipynb").write_text(json.dumps(second))
    main(["grade"])
    sql("UPDATE grade SET auto_score = 5 WHERE needs_manual_grade OR auto_score = 0")
    Path("source/attention/more.ipynb").unlink()
    told = graded_class(capsys)
    assert grades("ada")["seen"] == [0, None, None, 0]
    assert "seen" not in told["ada"]["waiting"]


def test_a_fault_of_ours_keeps_the_earlier_result_and_says_so(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["grade"])
    before = state()
    grader.fails = True
    told = graded_class(capsys, "--fresh")
    assert all(one["retained"] and one["status"] == "ungraded" and one["change"] is None for one in told.values())
    assert state() == before
    main(["grade", "--fresh"])
    said = " ".join(capsys.readouterr().out.split())
    assert "for a human, ada: the examiner is gone; the earlier result of the same file was kept" in said
    told = graded_class(capsys)  # of which nothing is to be examined: what is kept is right
    assert [one["score"] for one in told.values()] == [4, 2.5, 1]


def test_what_cannot_be_decided_is_no_fault_of_ours_and_keeps_nothing(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["grade"])
    grader.fails = grader.undecided = True
    told = graded_class(capsys, "--fresh")
    assert not told["ada"]["retained"] and change(told["ada"]) == (4, None, {"undecided"})
    assert grades("ada")["test_double"] == [None, None, None, 1]


def test_a_fault_of_ours_on_another_file_keeps_nothing(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["grade"])
    hand_in("ada", 3)
    grader.fails = True
    told = graded_class(capsys)
    assert (told["ada"]["retained"], told["ada"]["score"], change(told["ada"])) == (
        False,
        None,
        (4, None, {"file", "fault"}),
    )
    assert grades("ada")["test_double"] == [None, None, None, 1]
    assert told["bob"]["score"] == 2.5
    grader.fails = False
    assert change(graded_class(capsys)["ada"]) == (None, 3, {"failed"})


def test_files_that_cannot_be_handled_keep_the_earlier_result_of_the_same_submission(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["grade"])
    before = rows(Path("gradebook.db"))

    def fails(*_: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(ClassFiles, "write", fails)
        told = graded_class(capsys, "--fresh")
        assert all(one["retained"] and "Permission denied" in one["error"] for one in told.values())
        assert rows(Path("gradebook.db")) == before
        hand_in("ada", 3)
        assert not graded_class(capsys)["ada"]["retained"]
        assert grades("ada")["test_double"][0] is None
    assert graded_class(capsys)["ada"]["score"] == 3


# What has changed, and why


def _another_file() -> None:
    hand_in("ada", 3)


def _another_suite(grader: type[ByText]) -> None:
    grader.bonus = -1
    with Path("tests/hidden/attention/test_double.py").open("a") as suite:
        suite.write("# changed\n")


def _other_limits(grader: type[ByText]) -> None:
    grader.bonus = -1
    Path("course.yml").write_text(Path("course.yml").read_text().replace("call_seconds: 2", "call_seconds: 3"))


def _another_seed(grader: type[ByText]) -> None:
    grader.bonus = -1
    Path(".autograder/seed").write_text("1\n")


def _by_hand() -> None:
    sql("UPDATE grade SET manual_score = 3 WHERE auto_score = 4")


def _late() -> None:
    (submitted("ada").parent / "timestamp.txt").write_text("2027-01-01 00:00:00 UTC")


def _auto_by_hand() -> None:
    sql("UPDATE grade SET auto_score = 3 WHERE auto_score = 4")


def _file_and_seed(grader: type[ByText]) -> None:
    hand_in("ada", 4, said="again")
    _another_seed(grader)


@pytest.mark.parametrize(
    ("do", "before", "after", "why"),
    [
        (_another_file, 4, 3, {"file"}),
        (_another_suite, 4, 3, {"suite"}),
        (_other_limits, 4, 3, {"limits"}),
        (_another_seed, 4, 3, {"seed"}),
        (_file_and_seed, 4, 3, {"file", "seed"}),
        (_by_hand, 4, 3, {"hand"}),
        (_late, 4, 0, {"late"}),
        (_auto_by_hand, 3, 4, {"gradebook"}),
    ],
)
def test_a_changed_score_is_told_with_its_reason(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str],
    do: Callable[..., None], before: float, after: float, why: set[str],
) -> None:  # fmt: skip
    main(["grade"])
    do(grader) if do.__code__.co_argcount else do()
    told = graded_class(capsys)
    assert change(told["ada"]) == (before, after, why)
    assert all(change(graded_class(capsys)[student]) is None for student in STUDENTS)


def test_changed_scores_are_lines_of_the_outcome_the_first_ones(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [f"s{number:02}" for number in range(MAX_TOLD)]
    for student in more:
        hand_in(student, 2)
    main(["grade"])
    assert "changed" not in capsys.readouterr().out
    grader.bonus = 0.5
    hand_in("ada", 3)
    main(["grade", "--fresh"])
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("changed")]
    assert said[0] == f"changed, ada: from 4 to 3.5 ({REASONS['file']})"
    assert said[1] == f"changed, bob: from 2.5 to 3 ({REASONS['fresh']})"
    assert len(said) == MAX_TOLD + 1 and said[-1] == "changed: 3 more"


def test_without_a_record_it_is_said_that_the_reason_is_not_known(
    grader: type[ByText], course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["grade"])
    shutil.rmtree(".autograder")
    hand_in("ada", 3)
    told = graded_class(capsys)
    assert change(told["ada"]) == (4, 3, {"unrecorded"}) and told["bob"]["change"] is None
