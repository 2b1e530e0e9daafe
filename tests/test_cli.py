"""The commands: what they print where, and their exit codes. The grader itself is a stand-in here."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import os
import subprocess
import sys
import time
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from autograder import __version__
from autograder.catalogue import Answer
from autograder.cli import main
from autograder.course import Course
from autograder.errors import ConfinementUnavailable, CourseError, GraderFault
from autograder.grading import Graded
from autograder.mend import mend, released_notebook
from autograder.messages import Message, message
from autograder.report import CheckReport, ExerciseReport, GradeReport
from autograder.submissions import submissions
from autograder.verify import ExerciseProof, Line, Proof

from .conftest import REPOSITORY

REPAIRS: tuple[Message, ...] = ()
"""Of every submission."""

SCORES = {"full": 4.0, "half": 2.0, "fault": None, "bad": None}


def graded(path: Path, assignment: str | None, seed: int) -> GradeReport:
    """A report that the file's name or the student's name decides."""
    kind = next((kind for kind in SCORES if kind in str(path)), "half")
    score = SCORES[kind]
    status = {"fault": "ungraded", "bad": "unusable"}.get(kind, "graded")
    check = CheckReport("value", message("It doubles"), "passed" if score == 4 else "failed", score or 0.0, 4.0)
    return GradeReport(
        notebook=str(path),
        assignment=assignment or "recognised",
        status=status,  # type: ignore[arg-type]
        score=score,
        max_score=4.0,
        repairs=REPAIRS,
        seed=seed,
        suite_hash="ab",
        confinement="none",
        exercises=(ExerciseReport("double", score, 4.0, (check,)),) if status == "graded" else (),
        error=message("no good") if status != "graded" else None,
    )


class StandIn:
    """Looks like `autograder.grading.Grader`, and grades by names."""

    opened: list[tuple[str, int]]
    raises: BaseException | None = None

    def __init__(self, course: Course, required: str, workers: int = 1, follow: bool = True) -> None:
        self.opened.append((required, workers))
        self.course = course

    def __enter__(self) -> StandIn:
        if self.raises:
            raise self.raises
        return self

    def __exit__(self, *_: object) -> None: ...

    def grade(self, path: Path, assignment: str | None, seed: int) -> Graded:
        return Graded(graded(path, assignment, seed))

    def grade_many(self, paths: Sequence[Path], assignment: str, seed: int) -> Iterator[Graded]:
        mended = mend(released_notebook(self.course, assignment), self.course, assignment)
        for path in paths:
            report = graded(path, assignment, seed)
            yield Graded(report, None if report.status == "unusable" else mended)


@pytest.fixture
def grader(monkeypatch: pytest.MonkeyPatch, course_folder: Path) -> type[StandIn]:
    """The stand-in, in a course's folder."""

    class Fresh(StandIn):
        opened: list[tuple[str, int]] = []  # noqa: RUF012 - one for each test

    monkeypatch.setattr("autograder.grading.Grader", Fresh)
    monkeypatch.chdir(course_folder)
    return Fresh


@pytest.fixture
def submitted(course_folder: Path, one_alembic: None) -> Path:
    """Four submissions in nbgrader's layout."""
    for student in ("ada-full", "bob-half", "carl-bad", "dora-fault"):
        path = course_folder / "submitted" / student / "attention" / "attention.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    return course_folder / "submitted"


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["full"], 0),
        (["half"], 1),
        (["bad"], 2),
        (["fault"], 3),
        (["full", "full"], 0),
        (["half", "full"], 1),
        (["bad", "half"], 2),
        (["fault", "bad", "full"], 3),
    ],
)
def test_check_ends_with_the_highest_code_of_its_notebooks(grader: type[StandIn], names: list[str], code: int) -> None:
    assert main(["check", *names]) == code


def test_check_prints_a_page_for_each_notebook(grader: type[StandIn], capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "full.ipynb", "half.ipynb"])
    out = capsys.readouterr().out
    assert out.index("full.ipynb") < out.index("4 of 4 points") < out.index("half.ipynb") < out.index("2 of 4 points")


def test_check_json_prints_one_object_a_line_in_the_order_given(
    grader: type[StandIn], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "half.ipynb", "bad.ipynb", "./full.ipynb", "--json", "--seed", "7"]) == 2
    out, err = capsys.readouterr()
    shown = [json.loads(line) for line in out.splitlines()]
    assert [one["notebook"] for one in shown] == ["half.ipynb", "bad.ipynb", "full.ipynb"]
    assert [one["status"] for one in shown] == ["graded", "unusable", "graded"]
    assert shown[1]["error"] == "no good"
    assert {one["seed"] for one in shown} == {7}
    assert err == ""


def test_check_opens_one_grader_with_the_tier_of_the_course(grader: type[StandIn]) -> None:
    main(["check", "full", "full", "half"])
    assert grader.opened == [("C", 1)]


def test_check_takes_the_assignment_that_is_named(grader: type[StandIn], capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "full", "--json", "--assignment", "attention"])
    assert json.loads(capsys.readouterr().out)["assignment"] == "attention"
    assert main(["check", "full", "--assignment", "atention"]) == 2
    assert capsys.readouterr().err == "autograder: course.yml has no assignment 'atention'; it has: attention.\n"


def test_the_seed_of_the_course_is_the_same_every_time(
    grader: type[StandIn], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        main(["check", "full", "half", "--json"])
    seeds = {json.loads(line)["seed"] for line in capsys.readouterr().out.splitlines()}
    assert len(seeds) == 1


def test_a_name_that_is_not_utf_8_can_be_shown(grader: type[StandIn], capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"full-\xff.ipynb")
    assert main(["check", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notebook"] == name
    assert main(["check", name]) == 0


@pytest.mark.parametrize(
    ("fault", "code", "err"),
    [
        (CourseError("course.yml is wrong."), 2, "autograder: course.yml is wrong.\n"),
        (ConfinementUnavailable("no tier B here."), 3, "autograder: no tier B here.\n"),
        (GraderFault("the examiner did not start."), 3, "autograder: the examiner did not start.\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_errors_are_one_sentence_on_stderr(
    grader: type[StandIn], capsys: pytest.CaptureFixture[str], fault: BaseException, code: int, err: str
) -> None:
    grader.raises = fault
    assert main(["check", "full", "--json"]) == code
    assert capsys.readouterr() == ("", err)


def test_grade_prints_the_table_of_the_class(
    grader: type[StandIn], submitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grade", "attention", "--workers", "2"]) == 3  # dora's was not graded through our fault
    out, err = capsys.readouterr()
    assert out.startswith("Attention (attention)\n")
    assert [line.split()[:2] for line in out.splitlines() if line.startswith(("ada", "bob", "carl", "dora"))] == [
        ["ada-full", "4"],
        ["bob-half", "2"],
        ["carl-bad", "?"],
        ["dora-fault", "?"],
    ]
    assert err == ""
    assert grader.opened == [("B", 2)]


def test_an_unusable_submission_is_listed_and_no_failure_of_grading(
    grader: type[StandIn], submitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (submitted / "dora-fault").rename(submitted / "dora-full")
    assert main(["grade"]) == 0
    assert "carl-bad" in capsys.readouterr().out


def test_grade_json_prints_one_object_for_each_submission(
    grader: type[StandIn], submitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["grade", "--json", "--submissions", str(submitted)])
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["student"] for one in shown] == ["ada-full", "bob-half", "carl-bad", "dora-fault"]
    assert shown[0]["schema"] == 1


def test_grade_records_writes_pages_and_exports(
    grader: type[StandIn], submitted: Path, course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["grade"])
    out = capsys.readouterr().out
    assert "for a human, dora-fault: no good\n" in out
    assert "gradebook: gradebook.db; graded notebooks: autograded\n" in out
    assert main(["feedback"]) == 0
    assert capsys.readouterr().out.startswith("wrote 4 pages to feedback, such as feedback/")
    assert "4 of 4 points" in (course_folder / "feedback" / "ada-full" / "attention" / "attention.html").read_text()
    assert main(["export", "--to", "marks.csv"]) == 0
    assert capsys.readouterr().out == "wrote 4 rows to marks.csv\n"
    with (course_folder / "marks.csv").open(newline="") as file:
        scores = {row["student_id"]: row["score"] for row in csv.DictReader(file)}
    assert scores["carl-bad"] == scores["dora-fault"] == ""


def test_grade_takes_one_student_into_a_folder_of_its_own(
    grader: type[StandIn], submitted: Path, course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grade", "--student", "ada-full", "--into", "elsewhere"]) == 0
    assert {path.name for path in (course_folder / "elsewhere").iterdir()} == {"gradebook.db", "autograded"}
    assert not (course_folder / "gradebook.db").exists()
    capsys.readouterr()
    assert main(["grade", "--student", "zoe"]) == 2
    assert "no submission of zoe in" in capsys.readouterr().err
    assert main(["feedback", "--into", "elsewhere", "--student", "zoe"]) == 2
    assert "there is no graded notebook of zoe in elsewhere/autograded" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["feedback", "export"])
def test_what_needs_a_gradebook_makes_none(
    command: str, course_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(course_folder)
    assert main([command]) == 2
    assert capsys.readouterr().err == "autograder: there is no gradebook gradebook.db; run `autograder grade` first.\n"
    assert not (course_folder / "gradebook.db").exists()


def test_an_interrupted_run_says_what_is_recorded(
    grader: type[StandIn], submitted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    everyone = StandIn.grade_many

    def two_then_interrupted(self: StandIn, *arguments: Any) -> Iterator[Graded]:
        yield from itertools.islice(everyone(self, *arguments), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(StandIn, "grade_many", two_then_interrupted)
    assert main(["grade"]) == 130
    assert "attention: 2 of 4 are recorded; the rest is graded by the next run." in capsys.readouterr().err


def test_what_was_repaired_alike_is_said_once(
    grader: type[StandIn], submitted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.test_cli.REPAIRS", (message("put back a cell"),))
    main(["grade"])
    said = " ".join(capsys.readouterr().out.split())
    assert "repaired, ada-full, bob-half, carl-bad, dora-fault: put back a cell" in said
    assert said.count("put back a cell") == 1


def test_grade_without_submissions_says_where_it_looked(
    grader: type[StandIn], capsys: pytest.CaptureFixture[str], course_folder: Path
) -> None:
    assert main(["grade"]) == 2
    assert "does not exist; name it with --submissions." in capsys.readouterr().err
    (course_folder / "submitted").mkdir()
    assert main(["grade"]) == 2
    assert "they are looked for as <student>/attention/attention.ipynb." in capsys.readouterr().err
    assert grader.opened == []


def test_submissions_are_found_in_the_layout_of_nbgrader(submitted: Path) -> None:
    (submitted / ".trash" / "attention").mkdir(parents=True)
    (submitted / "other" / "loss").mkdir(parents=True)
    (submitted / "a file").write_text("")
    found = submissions(submitted, "attention")
    assert [one.student for one in found] == ["ada-full", "bob-half", "carl-bad", "dora-fault"]
    assert found[0].path == submitted / "ada-full" / "attention" / "attention.ipynb"


def test_a_lone_notebook_of_another_name_is_a_submission_too(submitted: Path) -> None:
    folder = submitted / "ada-full" / "attention"
    (folder / "attention.ipynb").rename(folder / "attention (1).ipynb")
    assert submissions(submitted, "attention")[0].path.name == "attention (1).ipynb"
    (folder / "scratch.ipynb").write_text("{}")
    assert submissions(submitted, "attention")[0].path.name == "attention.ipynb"  # which is told to be missing


def test_release_writes_and_checks(
    course_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(course_folder)
    path = Path("release", "attention", "attention.ipynb")
    assert main(["release", "--check"]) == 1
    assert capsys.readouterr().out == f"{path} is out of step with its source; run `autograder release`.\n"
    assert main(["release"]) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    assert main(["release", "--check", "attention"]) == 0
    assert main(["release"]) == 0
    assert capsys.readouterr().out.endswith("nothing to write, in step with their sources: attention\n")


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_verify_ends_with_whether_the_course_holds(
    course_folder: Path, proving: list[Any], monkeypatch: pytest.MonkeyPatch, holds: bool, code: int
) -> None:
    monkeypatch.setattr(
        "autograder.verify.prove", lambda *asked: proving.extend((asked[1], asked[3])) or _proofs(holds)
    )
    assert main(["verify", "--seed", "3", "--workers", "2", "--course", str(course_folder)]) == code
    assert proving == [2, ["attention"], 3]


def test_verify_writes_its_table_and_tells_when_it_is_out_of_step(
    course_folder: Path, proving: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("autograder.verify.prove", lambda *asked: _proofs(True))
    table = tmp_path / "matrix.md"
    command = ["verify", "--seed", "3", "--course", str(course_folder), "--table", str(table)]
    assert main([*command, "--check"]) == 1
    assert "is out of step" in capsys.readouterr().out and not table.exists()
    assert main(command) == 0
    assert "seed 3" in table.read_text() and "no-scale" in table.read_text()
    assert main([*command, "--check"]) == 0
    table.write_text(table.read_text().replace("no-scale", "some-scale"))
    assert main([*command, "--check"]) == 1
    assert "some-scale" in table.read_text()


@pytest.fixture
def proving(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """No examiner is started to prove anything; how many workers one would have had."""
    opened: list[Any] = []
    monkeypatch.setattr(
        "autograder._commands.warm_grader", lambda *asked: opened.append(asked[2]) or contextlib.nullcontext()
    )
    return opened


def _proofs(holds: bool) -> list[Any]:
    """What a small proof has found."""
    caught = Line(Answer("no-scale", "", "scale"), {"scale": "failed"}, "no-scale", 2.0)
    return [
        Proof(
            "attention",
            [ExerciseProof("project_qkv", 4, ("scale",), [caught])],
            [] if holds else ["something is wrong"],
        )
    ]


@pytest.mark.parametrize("place", ["before", "behind"])
def test_the_course_may_be_named_before_or_behind_the_command(
    course_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    option = ["--course", str(course_folder)]
    assert main([*option, "release"] if place == "before" else ["release", *option]) == 0


def test_outside_of_a_course_a_command_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path.anchor)
    assert main(["check", "n.ipynb"]) == 2
    assert "name it with --course" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["chek"],
        ["check"],
        ["check", "n", "--seed", "-1"],
        ["check", "n", "--seed", "x"],
        ["grade", "--workers", "0"],
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", ["check", "grade", "feedback", "export", "release", "verify", "doctor"])
def test_the_help_of_every_command_tells_its_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert "exit code: 0" in capsys.readouterr().out


def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autograder", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, **more)


def test_the_package_is_a_command() -> None:
    assert run("--version").stdout == f"autograder {__version__}\n"


def test_help_comes_at_once_and_loads_nothing_heavy() -> None:
    started = time.perf_counter()
    done = run("--help")
    assert time.perf_counter() - started < 3  # 0.1 s on an idle machine; the imports below are the true test
    program = "import sys\nfrom autograder.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    program += "print(*[m for m in ('torch', 'numpy', 'yaml', 'rich', 'nbformat', 'msgspec') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert loaded.stdout == done.stdout + "\n"


def test_a_reader_that_has_gone_gets_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "autograder", "doctor"]
    try:
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=buffered,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")  # as if SIGPIPE had ended it, and no traceback


def test_a_terminal_that_lacks_signs_still_gets_the_line(course_folder: Path) -> None:
    root = course_folder.rename(course_folder.with_name("课程"))
    done = run("--course", str(root), "release", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\\u8bfe\\u7a0b/release/attention/attention.ipynb\n")


def test_doctor_prints_the_diagnosis_line_by_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnosis = types.SimpleNamespace(lines=lambda: iter(["tier C", "no Landlock here"]))
    fake = types.SimpleNamespace(diagnose=lambda: diagnosis)
    monkeypatch.setitem(sys.modules, "autograder.doctor", fake)  # type: ignore[arg-type]
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out == "tier C\nno Landlock here\n"
