"""Exports of a real gradebook: nothing is lost, nothing unknown is a zero, and nothing of a student's is run."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin
from sqlalchemy import event

from autograder.errors import CourseError
from autograder.export import COLUMNS, Row, defused, rows, to_csv, to_json, write
from autograder.nbgrader.plugins import CsvExport, JsonExport

pytestmark = pytest.mark.filterwarnings("ignore:Object of type .* not in session")  # of nbgrader's own

HAND_MARKED, TESTED = "explain", "test_project_qkv"
ODD_NAME = 'Łukasz "the\nquote", 王小明'
STUDENTS = {
    "amara": {"first_name": "Amara", "last_name": "Ali"},
    "bo": {"first_name": ODD_NAME, "last_name": "Bo, Jr.", "email": "bo@example.org"},
    "chen": {"last_name": "Chen"},
    "dora": {"last_name": "Dora"},
    "emil": {"last_name": "Emil"},
    "fay": {"last_name": "Fay"},
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class of six: graded, late, marked by hand, not yet marked, nothing handed in, regraded."""
    path = tmp_path_factory.mktemp("class") / "gradebook.db"
    with pytest.MonkeyPatch.context() as patch:
        # nbgrader calls alembic by its bare name when it makes a database.
        patch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        book = Gradebook(f"sqlite:///{path}")
    with book:
        book.add_assignment("attention", duedate="2026-03-01 12:00:00 UTC")
        book.add_notebook("attention", "attention")
        book.add_grade_cell(TESTED, "attention", "attention", max_score=4, cell_type="code")
        book.add_solution_cell("project_qkv", "attention", "attention")
        book.add_grade_cell(HAND_MARKED, "attention", "attention", max_score=3, cell_type="markdown")
        book.add_solution_cell(HAND_MARKED, "attention", "attention")
        book.add_assignment("heads")
        for student, about in STUDENTS.items():
            book.add_student(student, **about)
            if student != "emil":
                book.add_submission("attention", student, timestamp="2026-03-01 11:30:00 UTC")
        mark(book, "amara", TESTED, auto_score=3.1)
        mark(book, "amara", HAND_MARKED, manual_score=2.2, extra_credit=0.5)
        mark(book, "bo", TESTED, auto_score=1)
        mark(book, "bo", HAND_MARKED, auto_score=0)
        book.find_submission("attention", "bo").notebooks[0].late_submission_penalty = 5
        mark(book, "chen", TESTED, auto_score=4)  # nobody has read the other answer
        mark(book, "dora", TESTED, needs_manual_grade=True)  # the grader failed
        mark(book, "dora", HAND_MARKED, manual_score=3)
        mark(book, "fay", TESTED, auto_score=1, manual_score=4, needs_manual_grade=True)
        mark(book, "fay", HAND_MARKED, manual_score=0)
        book.db.commit()
    return path


@pytest.fixture
def gradebook(filled: Path, tmp_path: Path) -> Iterator[Gradebook]:
    """A copy of it, for one test."""
    with Gradebook(f"sqlite:///{shutil.copy(filled, tmp_path)}") as book:
        yield book


def mark(book: Gradebook, student: str, cell: str, **values: Any) -> None:
    grade = book.find_grade(cell, "attention", "attention", student)
    for name, value in {"needs_manual_grade": False, **values}.items():
        setattr(grade, name, value)
    book.db.commit()


def table(book: Gradebook, *args: Any) -> dict[str, dict[str, str]]:
    """The CSV of attention, read back, by student."""
    read = csv.DictReader(io.StringIO(to_csv(rows(book, ["attention"], *args)), newline=""), strict=True)
    return {line["student_id"]: line for line in read}


def of(book: Gradebook, student: str) -> Row:
    [row] = rows(book, ["attention"], [student])
    return row


def test_everybodys_status_and_score_stand_in_the_table(gradebook: Gradebook) -> None:
    found = {
        student: (line["status"], line["raw_score"], line["late_submission_penalty"], line["score"])
        for student, line in table(gradebook).items()
    }
    assert found == {
        "amara": ("graded", "5.8", "0.0", "5.8"),
        "bo": ("graded", "1.0", "5.0", "0.0"),
        "chen": ("needs_human", "", "", ""),
        "dora": ("needs_human", "", "", ""),
        "emil": ("missing", "", "", ""),
        "fay": ("graded", "4.0", "0.0", "4.0"),
    }


def test_where_everything_is_graded_the_table_agrees_with_nbgraders(gradebook: Gradebook, tmp_path: Path) -> None:
    plugin = CsvExportPlugin(to=str(tmp_path / "stock.csv"), assignment=["attention"], student=["amara", "fay"])
    plugin.export(gradebook)
    with (tmp_path / "stock.csv").open() as file:
        stock = list(csv.DictReader(file))
    ours = [*table(gradebook, ["amara", "fay"]).values()]
    assert list(ours[0]) == [*stock[0], "status", "to_read"] == list(COLUMNS)
    for name in set(stock[0]) - {"duedate", "timestamp"}:
        if name.endswith(("score", "penalty")):
            assert [float(line[name]) for line in ours] == pytest.approx([float(line[name]) for line in stock]), name
        else:
            assert [line[name] for line in ours] == [line[name] for line in stock], name


def test_a_sum_of_tenths_is_shown_as_tenths(gradebook: Gradebook) -> None:
    mark(gradebook, "chen", TESTED, auto_score=0.1)
    mark(gradebook, "chen", HAND_MARKED, auto_score=0.2)
    assert table(gradebook)["chen"]["score"] == "0.3"


def test_times_are_utc(gradebook: Gradebook) -> None:
    line = table(gradebook)["amara"]
    assert (line["duedate"], line["timestamp"]) == ("2026-03-01T12:00:00Z", "2026-03-01T11:30:00Z")
    assert table(gradebook)["emil"]["timestamp"] == ""


def test_the_csv_is_that_of_rfc_4180_and_a_name_is_what_it_was(gradebook: Gradebook) -> None:
    text = to_csv(rows(gradebook, ["attention"]))
    assert text.startswith(",".join(COLUMNS) + "\r\n") and text.endswith("\r\n")
    assert ',"Łukasz ""the\nquote"", 王小明",' in text
    line = table(gradebook)["bo"]
    assert (line["first_name"], line["last_name"], line["email"]) == (ODD_NAME, "Bo, Jr.", "bo@example.org")


def test_the_json_tells_of_each_exercise(gradebook: Gradebook) -> None:
    gradebook.find_comment(HAND_MARKED, "attention", "attention", "amara").manual_comment = "Well said: 好"
    gradebook.find_comment("project_qkv", "attention", "attention", "amara").auto_comment = "No response."
    gradebook.db.commit()
    told = json.loads(to_json(rows(gradebook, ["attention"], ["amara"])))
    [row] = told["rows"]
    assert told["schema"] == 1
    assert {name: row[name] for name in ("timestamp", "score", "max_score", "status", "email")} == {
        "timestamp": "2026-03-01T11:30:00Z",
        "score": 5.8,
        "max_score": 7,
        "status": "graded",
        "email": None,
    }
    common = {"notebook": "attention", "needs_human": False, "regraded": False}
    marked = {"score": 2.7, "max_score": 3, "auto_score": None, "manual_score": 2.2, "extra_credit": 0.5}
    tested = {"score": 3.1, "max_score": 4, "auto_score": 3.1, "manual_score": None, "extra_credit": None}
    assert row["exercises"] == [
        {"name": HAND_MARKED, **common, **marked, "comment": "Well said: 好"},
        {"name": TESTED, **common, **tested, "comment": "No response."},
    ]


def test_a_cell_that_nobody_has_marked_needs_a_human_and_has_no_score(gradebook: Gradebook) -> None:
    cells = {cell.name: (cell.score, cell.needs_human) for cell in of(gradebook, "chen").exercises}
    assert cells == {HAND_MARKED: (None, True), TESTED: (4, False)}


def test_extra_credit_alone_is_no_score(gradebook: Gradebook) -> None:
    mark(gradebook, "chen", HAND_MARKED, extra_credit=1)
    assert of(gradebook, "chen").status == "needs_human"


def test_an_automatic_score_that_waits_for_a_human_is_no_score_yet(gradebook: Gradebook) -> None:
    mark(gradebook, "amara", TESTED, auto_score=4, needs_manual_grade=True)
    row = of(gradebook, "amara")
    assert (row.status, row.score) == ("needs_human", None)


def test_a_humans_mark_stands_after_grading_again_and_is_said_to_be_older(gradebook: Gradebook) -> None:
    row = of(gradebook, "fay")
    assert (row.status, row.score) == ("graded", 4)
    assert {cell.name: cell.regraded for cell in row.exercises} == {HAND_MARKED: False, TESTED: True}


def test_who_handed_in_nothing_has_no_scores_and_waits_for_nobody(gradebook: Gradebook) -> None:
    row = of(gradebook, "emil")
    assert (row.status, row.score, row.max_score) == ("missing", None, 7)
    assert [(cell.score, cell.needs_human) for cell in row.exercises] == [(None, False)] * 2


def test_a_graded_cell_that_came_after_the_submission_is_not_taken_for_marked(gradebook: Gradebook) -> None:
    gradebook.add_task_cell("draw", "attention", "attention", max_score=2, cell_type="markdown")
    row = of(gradebook, "amara")
    assert (row.status, row.score, row.max_score) == ("needs_human", None, 9)


def test_late_penalties_of_several_notebooks_add_up(gradebook: Gradebook) -> None:
    gradebook.remove_submission("attention", "amara")
    gradebook.add_notebook("second", "attention")
    gradebook.add_submission("attention", "amara")
    mark(gradebook, "amara", TESTED, auto_score=4)
    mark(gradebook, "amara", HAND_MARKED, auto_score=3)
    for notebook in gradebook.find_submission("attention", "amara").notebooks:
        notebook.late_submission_penalty = 0.1
    gradebook.db.commit()
    row = of(gradebook, "amara")
    assert (row.raw_score, row.late_submission_penalty, row.score) == (7, 0.2, 6.8)


def test_rows_come_in_nbgraders_order_and_can_be_chosen(gradebook: Gradebook) -> None:
    gradebook.add_submission("heads", "chen")
    found = [(row.assignment, row.student_id, row.status) for row in rows(gradebook, (), ["chen", "amara"])]
    assert found == [
        ("heads", "amara", "missing"),  # without a due date
        ("heads", "chen", "graded"),
        ("attention", "amara", "graded"),
        ("attention", "chen", "needs_human"),
    ]
    assert len(rows(gradebook)) == 12


@pytest.mark.parametrize("choice", [(["atention"],), ((), ["nobody"])])
def test_an_unknown_name_is_told_and_not_exported_as_nothing(gradebook: Gradebook, choice: Any) -> None:
    with pytest.raises(CourseError, match=r"^the gradebook knows no (assignment 'atention'|student 'nobody'); .*\.$"):
        rows(gradebook, *choice)


def test_the_number_of_queries_does_not_grow_with_the_class(gradebook: Gradebook) -> None:
    asked: list[str] = []
    event.listen(gradebook.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    rows(gradebook)
    before = len(asked)
    for number in range(20):
        gradebook.add_student(f"s{number}")
        gradebook.add_submission("attention", f"s{number}")
    asked.clear()
    rows(gradebook)
    assert len(asked) == before < 20


# Formulas


@pytest.mark.parametrize(
    "text",
    [
        "=HYPERLINK(1)",
        "+1",
        "-2",
        "@SUM(1)",
        "  =1",
        "\t=1",
        "\r=1",
        "x;=1",  # where the semicolon parts cells
        "a\n-1",
        "＝1",  # noqa: RUF001
        "'=1",
        "''=1",
        ",;=1",
    ],
)
def test_a_spreadsheet_finds_no_formula_and_only_apostrophes_are_added(text: str) -> None:
    safe = defused(text)
    for cell in re.split(r"[,;\t\r\n]", safe):
        assert not cell.strip().startswith(tuple("=+-@＝")), cell  # noqa: RUF001
    assert safe != text
    assert re.sub(r"'(?='* *[=+\-@＝＋－＠])", "", safe) == re.sub(r"'(?='* *[=+\-@＝＋－＠])", "", text)  # noqa: RUF001


@pytest.mark.parametrize("text", ["", "a@b.c", "Smith-Jones", "'t Hooft", "O'Neil", "1-2=3", "x; y", "王", "''"])
def test_an_ordinary_text_is_left_alone(text: str) -> None:
    assert defused(text) == text


def test_formulas_are_defused_in_the_csv_and_left_alone_in_the_json(gradebook: Gradebook) -> None:
    name, student = "@SUM(1+1)*cmd|' /C calc'!A0", '=HYPERLINK("x")'
    gradebook.add_student(student, first_name=name, last_name="-5", email="+1@x.y")
    chosen = rows(gradebook, ["attention"], [student])
    [line] = csv.DictReader(io.StringIO(to_csv(chosen), newline=""))
    assert (line["student_id"], line["first_name"]) == ("'" + student, "'" + name)
    assert (line["last_name"], line["email"]) == ("'-5", "'+1@x.y")
    [row] = json.loads(to_json(chosen))["rows"]
    assert (row["student_id"], row["first_name"], row["last_name"]) == (student, name, "-5")


# Files


def test_a_file_is_written_as_it_is_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "成绩.csv"
    path.write_text("old")
    path.chmod(0o640)
    write(path, "a,王\r\n")
    assert path.read_bytes() == "a,王\r\n".encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_goes_on_leading_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_where_writing_fails_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grades.csv"
    path.write_text("old")

    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CourseError, match=r"grades\.csv can't be written \(No space left on device\)"):
        write(path, "new")
    assert [one.read_text() for one in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize(("place", "why"), [("none/grades.csv", "folder does not exist"), (".", "Is a directory")])
def test_a_place_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path, place: str, why: str) -> None:
    with pytest.raises(CourseError, match=rf"^{re.escape(str(tmp_path / place))} can't be written \(.*{why}\); .*\.$"):
        write(tmp_path / place, "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="a system without /dev/fd")
def test_a_pipe_is_written_into_and_not_replaced() -> None:
    reader, writer = os.pipe()
    try:
        write(Path(f"/dev/fd/{writer}"), "a\r\n")
        assert os.read(reader, 10) == b"a\r\n"
    finally:
        os.close(reader)
        os.close(writer)


# nbgrader export


def test_nbgrader_export_writes_the_same(gradebook: Gradebook, tmp_path: Path) -> None:
    options = ("--assignment=['attention']", "--student=['amara','chen']", "--to=some.json")
    exporter = "--exporter=autograder.nbgrader.plugins.JsonExport"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "export", exporter, *options],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "some.json").read_text() == to_json(rows(gradebook, ["attention"], ["amara", "chen"]))


def test_the_plugins_write_everything_into_the_present_folder_by_default(
    gradebook: Gradebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    CsvExport().export(gradebook)
    JsonExport().export(gradebook)
    assert Path("grades.csv").read_bytes().decode() == to_csv(rows(gradebook))
    assert Path("grades.json").read_text() == to_json(rows(gradebook))


def test_what_a_plugin_cannot_do_is_a_sentence_in_the_log_and_an_exit(
    gradebook: Gradebook, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = CsvExport(to=str(tmp_path / "other.csv"), student=[7], log=logging.getLogger("export"))
    with pytest.raises(SystemExit) as info:
        plugin.export(gradebook)
    assert info.value.code == 1
    assert caplog.messages == ["the gradebook knows no student '7'; check the spelling, or grade first."]
    assert not (tmp_path / "other.csv").exists()


def test_the_plugins_import_nothing_heavy() -> None:
    script = (
        "import sys\nimport autograder.nbgrader.plugins\n"
        "print(sorted({'torch', 'pytest', 'IPython', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
