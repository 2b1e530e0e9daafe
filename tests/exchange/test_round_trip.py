"""One student's work on its way through nbgrader's exchange: to the student, back, and back again with feedback."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from autograder.course import load_course
from tests import courses
from tests.courses import ASSIGNMENT, REPOSITORY
from tests.exchange.forks import forked

NOTEBOOK = f"{ASSIGNMENT}.ipynb"


@dataclass(frozen=True)
class Travelled:
    """What the student has at the end of the way."""

    fetched: Path
    feedback: Path
    course: Path
    exchange: Path


@pytest.fixture(scope="module")
def travelled(tmp_path_factory: pytest.TempPathFactory) -> Travelled:
    """Dora's answers, who forgot the scale, sent all the way."""
    root = tmp_path_factory.mktemp("exchange")
    course, desk, exchange = courses.copy_course(root / "course"), root / "desk", root / "exchange"
    desk.mkdir()
    exchange.mkdir()
    exchange.chmod(0o777)  # as nbgrader wants it: students put their work there

    def instructor(command: str, *options: str) -> None:
        options = (f"--Exchange.root={exchange}", *options)
        run = courses.nbgrader if command == "autograde" else forked  # that one is started as it is
        run(command, ASSIGNMENT, *options, folder=course, home=root / "instructor")

    def student(command: str) -> None:
        options = (f"--Exchange.root={exchange}", f"--course={load_course(course).id}")
        forked(command, ASSIGNMENT, *options, folder=desk, home=root / "student")

    instructor("generate_assignment")
    instructor("release_assignment")
    student("fetch_assignment")
    fetched = root / "fetched.ipynb"
    shutil.copy(desk / ASSIGNMENT / NOTEBOOK, fetched)
    answer(desk / ASSIGNMENT / NOTEBOOK, "dora")
    student("submit")
    instructor("collect")
    instructor("autograde")
    instructor("generate_feedback")
    instructor("release_feedback")
    student("fetch_feedback")
    [feedback] = (desk / ASSIGNMENT / "feedback").glob("*/*.html")
    return Travelled(fetched, feedback, course, exchange)


def answer(notebook: Path, student: str) -> None:
    """Write a student's answers of the sample class into a notebook, as if they were typed there."""
    sample = json.loads((REPOSITORY / "examples" / "submissions" / student / ASSIGNMENT / NOTEBOOK).read_text())
    answers = {cell["id"]: cell["source"] for cell in sample["cells"]}
    content = json.loads(notebook.read_text())
    for cell in content["cells"]:
        cell["source"] = answers[cell["id"]]
    notebook.write_text(json.dumps(content))


def test_students_fetch_the_release_notebook(travelled: Travelled) -> None:
    released = REPOSITORY / "release" / ASSIGNMENT / NOTEBOOK
    assert travelled.fetched.read_text() == released.read_text()


def test_the_feedback_that_comes_back_tells_score_and_mistake(travelled: Travelled) -> None:
    page = travelled.feedback.read_text()
    assert "17 of 20 points" in page
    assert "13 of 16 points" in page
    assert "Your weights are those of attention without the 1/√d scale." in page


def test_the_feedback_that_comes_back_is_one_file_without_scripts(travelled: Travelled) -> None:
    page = travelled.feedback.read_text()
    assert "Content-Security-Policy" in page
    assert not re.findall(r"<script|<link|<iframe|\ssrc=[\"'](?!data:)", page)


def test_the_feedback_that_comes_back_shows_neither_hidden_tests_nor_the_instructors_folders(
    travelled: Travelled,
) -> None:
    page = travelled.feedback.read_text()
    assert "tests/hidden" not in page
    assert "CheckFailed" not in page
    assert str(travelled.fetched.parent) not in page


def test_pages_of_our_own_command_are_released_to_the_same_place(travelled: Travelled) -> None:
    course, exchange = travelled.course, travelled.exchange
    [released] = exchange.glob("*/feedback/*.html")
    by_nbgrader = released.read_text()
    released.unlink()
    shutil.rmtree(course / "feedback")
    done = courses.run("autograder", "feedback", folder=course, home=course.with_name("instructor"))
    assert done.returncode == 0, done.stdout
    forked(
        "release_feedback",
        ASSIGNMENT,
        f"--Exchange.root={exchange}",
        folder=course,
        home=course.with_name("instructor"),
    )
    assert released.read_text() == by_nbgrader
