"""The commands: what they print where, and their exit codes. The grader itself is a stand-in here."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import os
import re
import subprocess
import sys
import time
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autograder import __version__
from autograder.catalogue import Answer
from autograder.cli import main
from autograder.course import Course, suite_hash
from autograder.errors import ConfinementUnavailable, CourseError, GraderFault
from autograder.grading import Graded
from autograder.mend import mend, released_notebook
from autograder.messages import Message, message
from autograder.nbgrader.plugins import CsvExport, JsonExport
from autograder.report import CheckReport, ExerciseReport, GradeReport
from autograder.submissions import submissions
from autograder.verify import ExerciseProof, Line, Proof

from .conftest import REPOSITORY, code, notebook

REPAIRS: tuple[Message, ...] = ()
DOUBTS: tuple[Message, ...] = ()
"""Of every submission, as the repairs are."""

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
        doubts=DOUBTS,
        seed=seed,
        suite_hash="ab",
        confinement="none",
        exercises=(ExerciseReport("double", score, 4.0, (check,)),) if status == "graded" else (),
        error=message("no good") if status != "graded" else None,
    )


class StandIn:
    """Looks like `autograder.grading.Grader`, and grades by names."""

    opened: list[tuple[str, int]]
    home: Path
    raises: BaseException | None = None

    def __init__(self, course: Course, required: str, workers: int = 1, **_: object) -> None:
        self.asked = (required, workers)
        self.course = course

    def wait(self) -> None:
        self.opened.append(self.asked)
        if self.raises:
            raise self.raises

    def close(self) -> None: ...

    def grade(self, path: Path, assignment: str | None, seed: int) -> Graded:
        return Graded(graded(path, assignment, seed))

    def grade_many(self, submissions: Iterable[tuple[Path, str]], seed: int) -> Iterator[Graded]:
        for path, assignment in submissions:
            mended = mend(released_notebook(self.course, assignment), self.course, assignment)
            suite = suite_hash(self.course, assignment)
            report = msgspec.structs.replace(graded(path, assignment, seed), suite_hash=suite)
            yield Graded(report, None if report.status == "unusable" else mended)


@pytest.fixture
def grader(monkeypatch: pytest.MonkeyPatch, course_folder: Path) -> type[StandIn]:
    """The stand-in, in a course's folder."""

    class Fresh(StandIn):
        opened: list[tuple[str, int]] = []  # noqa: RUF012 - one for each test
        home = course_folder

    monkeypatch.setattr("autograder.grading.Grader", Fresh)
    monkeypatch.setattr("autograder._commands._all_unusable", lambda *_: None)  # nothing lies where the names lead
    monkeypatch.chdir(course_folder)
    return Fresh


@pytest.fixture
def submitted(course_folder: Path, one_alembic: None) -> Path:
    """Four submissions in nbgrader's layout."""
    for student in ("ada-full", "bob-half", "carl-bad", "dora-fault"):
        path = course_folder / "submitted" / student / "attention" / "attention.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"by": student}))  # the same bytes would have the same result
    return course_folder / "submitted"


@pytest.fixture
def two_lessons(grader: type[StandIn], submitted: Path, course_folder: Path) -> Path:
    """The course with a second lesson, which the first two students have handed in; returns the submissions."""
    with (course_folder / "course.yml").open("a") as rules:
        rules.write("  masking:\n    title: Masking\n    minutes: 30\n    exercises:\n      mask:\n")
    for path, text in (
        ("source/masking/masking.ipynb", json.dumps(notebook(*MASK))),
        ("tests/hidden/masking/test_mask.py", "def test_value(student): ...\n"),
    ):
        (course_folder / path).parent.mkdir()
        (course_folder / path).write_text(text)
    for student in ("ada-full", "bob-half"):
        (submitted / student / "masking").mkdir()
        (submitted / student / "masking" / "masking.ipynb").write_text(json.dumps({"by": student}))
    return submitted


MASK = (
    code("def mask():\n    ### BEGIN SOLUTION\n    ### END SOLUTION", grade_id="mask", solution=True),
    code("mask()", grade_id="test_mask", grade=True, locked=True, solution=False, points=4),
)


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
    for ending in (".xlsx", ".XLS", ".ods"):
        assert main(["export", "--to", f"marks{ending}"]) == 2
        assert f"({ending.lower()}) can't be written; name a file that ends in .csv" in capsys.readouterr().err
        assert not (course_folder / f"marks{ending}").exists()
    assert main(["export", "--to", "marks.JSON"]) == 0
    assert json.loads((course_folder / "marks.JSON").read_text())["rows"]


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


def outcome(capsys: pytest.CaptureFixture[str]) -> str:
    """What a class run printed on stdout, on one line."""
    return " ".join(capsys.readouterr().out.split())


def test_the_outcome_of_several_lessons_says_which(
    two_lessons: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.test_cli.REPAIRS", (message("put back a cell"),))
    monkeypatch.setattr("tests.test_cli.DOUBTS", (message("may have called it"),))
    main(["grade"])
    said = outcome(capsys)
    assert "repaired, ada-full, bob-half, carl-bad, dora-fault, attention: put back a cell" in said
    assert "repaired, ada-full, bob-half, masking: put back a cell" in said
    assert "for a human, dora-fault, attention: no good" in said
    assert "for a human, bob-half, masking: may have called it" in said
    main(["grade", "masking"])
    said = outcome(capsys)
    assert "for a human, bob-half: may have called it" in said and "repaired, ada-full, bob-half: put" in said


def test_what_an_instructor_should_read_is_exported_and_outlasts_an_unchanged_run(
    grader: type[StandIn], submitted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tests.test_cli.DOUBTS", (message("may have called it"), message("=1+1 is odd")))
        main(["grade"])
    for _ in range(2):
        capsys.readouterr()
        main(["export"])
        found = {row["student_id"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
        assert found["bob-half"]["to_read"] == "may have called it;' =1+1 is odd"
        main(["export", "--format", "json"])
        told = {row["student_id"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
        assert told["bob-half"]["to_read"] == ["may have called it", "=1+1 is odd"]
        doubled = next(one for one in told["bob-half"]["exercises"] if one["name"] == "test_double")
        assert (doubled["score"], doubled["needs_human"]) == (2, False)  # it costs nothing
        main(["grade"])
        assert "for a human, bob-half: may have called it" in outcome(capsys)
    main(["grade", "--force"])
    capsys.readouterr()
    main(["export"])
    assert "may have called it" not in capsys.readouterr().out


def test_the_summary_counts_apart_what_could_not_be_graded(
    grader: type[StandIn], submitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["grade"])
    assert "graded 2, 2 could not be, in " in outcome(capsys)
    main(["grade", "--student", "ada-full"])
    assert "nothing has changed since this one was graded; --fresh grades it again" in outcome(capsys)
    main(["grade", "--student", "ada-full", "--student", "bob-half"])
    assert "nothing has changed since these 2 were graded; --fresh grades them again" in outcome(capsys)
    main(["grade"])
    said = outcome(capsys)
    assert "graded none, 1 could not be, in " in said and "; 3 of 4 were looked at before; seed" in said


def test_a_missing_lesson_is_told_at_the_end_and_marked_among_the_totals(
    two_lessons: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (two_lessons / "bob-half" / "masking" / "masking.ipynb").unlink()
    (two_lessons / "bob-half" / "masking").rmdir()
    main(["grade"])
    printed = capsys.readouterr()
    told = "no folder masking/ in: bob-half, carl-bad, dora-fault"
    assert told not in printed.err, "it is told once"
    main(["grade", "--json"])
    assert told in capsys.readouterr().err
    assert told in printed.out[printed.out.index("All of them") :]
    [row] = [line.split() for line in printed.out.splitlines() if line.startswith("bob-half") and "s " not in line][-1:]
    assert row == ["bob-half", "2", "–", "2"]
    assert "?: no score yet, a human looks at it; –: not handed in" in printed.out


def test_what_was_handed_in_and_not_looked_at_is_told(two_lessons: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (two_lessons / "bob-half" / "msking").mkdir()
    (two_lessons / "carl-bad" / "Masking").mkdir()
    (two_lessons / "bob-half" / "attention" / "attention-copy.ipynb").write_text("{}")
    (two_lessons / "bob-half" / "masking" / "old").mkdir()
    (two_lessons / "bob-half" / "masking" / "old" / "masking.ipynb").write_text("{}")
    main(["grade"])
    said = outcome(capsys)
    assert "not looked at, bob-half, masking: old/masking.ipynb, beside masking.ipynb" in said
    assert "not looked at, bob-half: the folder msking/, which is no assignment's name not" in said, "he has masking/"
    stray = "not looked at, carl-bad: the folder Masking/, which is no assignment's name"
    assert f"{stray}; rename it, if masking/ is meant" in said
    assert "not looked at, bob-half, attention: attention-copy.ipynb, beside attention.ipynb" in said
    assert said.count("not looked at") == 4
    main(["grade", "attention"])  # of the other lesson, and of no other folder
    said = outcome(capsys)
    assert "masking.ipynb" not in said and "no folder masking" not in said


@pytest.mark.parametrize(("held", "said"), [
    (["multihead.py", "notes.txt"], "the folder holds multihead.py, notes.txt and no notebook"),
    (["a.ipynb", "b.ipynb"], "the folder holds a.ipynb, b.ipynb and no attention.ipynb"),
    (list("abcdef"), "the folder holds a, b, c, 3 more and no notebook"),
    ([], "the folder is empty"),
    (["a/x.ipynb", "b/y.ipynb"], "the folder holds a/x.ipynb, b/y.ipynb and no attention.ipynb"),
    ([".ipynb_checkpoints/a-checkpoint.ipynb"],
     "the folder holds no notebook, but a copy that Jupyter made earlier: a-checkpoint.ipynb in .ipynb_checkpoints"),
])  # fmt: skip
def test_a_folder_without_a_notebook_says_what_it_holds(
    grader: type[StandIn], submitted: Path, capsys: pytest.CaptureFixture[str], held: list[str], said: str
) -> None:
    folder = submitted / "carl-bad" / "attention"
    (folder / "attention.ipynb").unlink()
    for name in held:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    main(["grade"])
    assert f"for a human, carl-bad: {said}" in outcome(capsys)


def test_a_notebook_of_another_lesson_says_whose_it_is(two_lessons: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (two_lessons / "carl-bad" / "attention" / "attention.ipynb").write_text(json.dumps(notebook(*MASK)))
    main(["grade"])
    said = outcome(capsys)
    assert "for a human, carl-bad, attention: attention.ipynb is a notebook of masking, not of attention" in said


def test_a_notebook_one_folder_deeper_keeps_the_files_of_its_submission(
    grader: type[StandIn], submitted: Path, course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = submitted / "ada-full" / "attention"
    (folder / "unpacked").mkdir()
    (folder / "attention.ipynb").rename(folder / "unpacked" / "final.ipynb")
    (folder / "timestamp.txt").write_text("2026-12-24 12:00:00 UTC")
    main(["grade"])
    assert "remark, ada-full: took unpacked/final.ipynb, for there is no attention.ipynb" in outcome(capsys)
    kept = {path.name for path in (course_folder / "autograded" / "ada-full" / "attention").iterdir()}
    assert kept >= {"attention.ipynb", "timestamp.txt"}


def test_pages_can_be_released_as_nbgraders_can(
    grader: type[StandIn], submitted: Path, course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handed_in = submitted / "ada-full" / "attention"
    (handed_in / "timestamp.txt").write_text("2026-12-01 12:00:00 UTC")
    (handed_in / "submission_secret.txt").write_text("0f")
    main(["grade"])
    main(["feedback"])
    folder = course_folder / "feedback" / "ada-full" / "attention"
    assert {path.name for path in folder.iterdir()} == {"attention.html", "timestamp.txt", "submission_secret.txt"}
    assert (folder / "submission_secret.txt").read_text() == "0f"
    (handed_in / "submission_secret.txt").unlink()  # another submission, put in by hand
    main(["grade", "--force"])
    main(["feedback"])
    assert {path.name for path in folder.iterdir()} == {"attention.html", "timestamp.txt"}


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_opened(
    grader: type[StandIn], submitted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "elsewhere")  # root may write anywhere
    assert main(["grade", "--into", "elsewhere"]) == 2
    assert capsys.readouterr().err == "autograder: the folder elsewhere can't be written; name another with --into.\n"
    assert grader.opened == []


def test_a_file_in_the_place_of_a_folder_is_called_one(
    grader: type[StandIn], submitted: Path, course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (course_folder / "notes.txt").touch()
    assert main(["grade", "--submissions", "notes.txt"]) == 2
    assert "notes.txt is a file, and no folder of submissions; name one with" in capsys.readouterr().err
    assert main(["grade", "--into", "notes.txt"]) == 2
    assert "notes.txt can't be made a folder: a file is in its place; name another" in capsys.readouterr().err
    assert main(["grade", "--into", "notes.txt/deeper"]) == 2
    assert "notes.txt/deeper can't be made a folder" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--assignment", "attention"]])
def test_check_looks_at_its_files_before_it_warms_up(
    grader: type[StandIn], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(grader.home)
    monkeypatch.setattr("autograder.grading.Grader", grader)
    Path("other.ipynb").write_text(json.dumps(notebook(code("1"))))
    assert main(["check", "nosuch.ipynb", *options]) == 2
    assert capsys.readouterr().out == "nosuch.ipynb does not exist.\n"
    assert main(["check", "nosuch.ipynb", "other.ipynb", "--json", *options]) == 2
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["error"], first["status"], first["score"]) == ("nosuch.ipynb does not exist.", "unusable", None)
    assert first["max_score"] == (6 if options else 0) and "holds no" in second["error"]
    assert grader.opened == []
    Path("right.ipynb").write_text(json.dumps(notebook(*MASK[:0], code("def double(x): ...", grade_id="double"))))
    assert main(["check", "right.ipynb", "nosuch.ipynb", *options]) == 1
    assert len(grader.opened) == 1


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
    (folder / "scratch.ipynb").write_text("another")
    assert submissions(submitted, "attention")[0].path.name == "attention.ipynb"  # which is told to be missing


@pytest.mark.parametrize(("held", "taken"), [
    ({"attention.ipynb": "1", "Attention.ipynb": "2", "x/attention.ipynb": "3"}, "attention.ipynb"),
    ({"ATTENTION.IPYNB": "1", "b.ipynb": "2"}, "ATTENTION.IPYNB"),
    ({"Attention.ipynb": "1", "ATTENTION.ipynb": "2"}, "attention.ipynb"),  # which is missing
    ({"注意力 作业.ipynb": "1", "notes.txt": "2"}, "注意力 作业.ipynb"),
    ({"a (1).ipynb": "1", "a (2).ipynb": "1"}, "a (1).ipynb"),
    ({"a (1).ipynb": "", "a (2).ipynb": ""}, "attention.ipynb"),
    ({"attention.ipynb/attention.ipynb": "1"}, "attention.ipynb/attention.ipynb"),
    ({"b.ipynb": "1", "x/attention.ipynb": "2"}, "x/attention.ipynb"),
    ({"x/b.ipynb": "1", "y/attention.ipynb": "2"}, "y/attention.ipynb"),
    ({"x/attention.ipynb": "1", "y/attention.ipynb": "2"}, "attention.ipynb"),
    ({"x/y/attention.ipynb": "1"}, "attention.ipynb"),
    ({".ipynb_checkpoints/attention-checkpoint.ipynb": "1", "__MACOSX/._attention.ipynb": "2"}, "attention.ipynb"),
    ({"._attention.ipynb": "1", "b.ipynb": "2"}, "b.ipynb"),
])  # fmt: skip
def test_of_several_notebooks_one_is_taken_where_that_can_be_told(
    tmp_path: Path, held: dict[str, str], taken: str
) -> None:
    folder = tmp_path / "ada" / "attention"
    for name, text in held.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    [found] = submissions(tmp_path, "attention")
    assert (found.student, found.folder, found.name) == ("ada", folder, taken)


def test_folders_behind_links_are_no_submission(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "attention.ipynb").write_text("another's")
    folder = tmp_path / "submitted" / "ada" / "attention"
    folder.mkdir(parents=True)
    (folder / "deeper").symlink_to(tmp_path / "elsewhere")
    assert [one.name for one in submissions(tmp_path / "submitted", "attention")] == ["attention.ipynb"]


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


def test_doctor_tells_of_a_broken_course(
    course_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    diagnosis = types.SimpleNamespace(lines=lambda: iter(["tier C"]))
    fake = types.SimpleNamespace(diagnose=lambda: diagnosis)
    monkeypatch.setitem(sys.modules, "autograder.doctor", fake)  # type: ignore[arg-type]
    monkeypatch.chdir(course_folder)
    assert main(["doctor"]) == 0
    (course_folder / "course.yml").write_text("titel: A course\n")
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.startswith("tier C\ntier C\nThe course can't be used: ")
    monkeypatch.chdir(tmp_path.anchor)  # outside of any course there is none to tell of
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out == "tier C\n"


@pytest.mark.parametrize("tier", ["Z", "A B"])
def test_the_bank_is_run_in_a_tier_that_exists(tier: str) -> None:
    done = subprocess.run(
        ["make", "-n", "redteam", f"TIER={tier}"], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and f"TIER is A or B, and not {tier}" in done.stderr
    assert subprocess.run(["make", "-n", "redteam", "TIER=B"], cwd=REPOSITORY, capture_output=True).returncode == 0


def test_what_the_readme_s_commands_write_is_ignored_by_git() -> None:
    ignored = (REPOSITORY / ".gitignore").read_text().splitlines()
    written = set(re.findall(r"--to (\S+)", (REPOSITORY / "README.md").read_text()))
    written |= {CsvExport.default, JsonExport.default}
    assert "marks.csv" in written
    assert [name for name in written if f"/{name}" not in ignored] == []
