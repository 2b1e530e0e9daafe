"""Where a class is, known without nbgrader as long as nothing that sets it has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from nbgrader.api import Base
from sqlalchemy import create_engine

from autograder.cli import main
from autograder.course import Course, load_course
from autograder.errors import CourseError
from autograder.feedback.place import Place, known_place, place_of
from autograder.nbgrader.config import nbgrader_of
from autograder.nbgrader.files import ClassFiles
from tests.feedback.graded import DOUBLE, HALF, notebook, report

CONFIGURATION = """
from autograder.nbgrader.config import configure

c = get_config()
configure(c, __file__)
c.CourseDirectory.feedback_directory = "pages"
"""


def found(course: Course, into: Path | None = None) -> Place:
    """Where nbgrader finds the class, with an empty file for a gradebook."""
    gradebook = course.root / "gradebook.db"
    gradebook.touch()
    return place_of(course, into, ClassFiles(course, nbgrader_of(course)), gradebook)


def test_what_nbgrader_has_told_is_known_to_the_next_run(course_folder: Path) -> None:
    course = load_course(course_folder)
    assert known_place(course, None) is None
    place = found(course)
    assert place.feedback == str(course_folder / "feedback")
    assert known_place(course, None) == place
    assert known_place(course, course_folder / "elsewhere") is None


def test_a_configuration_counts(course_folder: Path) -> None:
    (course_folder / "nbgrader_config.py").write_text(CONFIGURATION)
    course = load_course(course_folder)
    place = found(course)
    assert place.feedback == str(course_folder / "pages")
    assert known_place(course, None) == place


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "nbgrader_config.py").write_text(CONFIGURATION),
        lambda root: (root / "course.yml").write_text((root / "course.yml").read_text() + "# another\n"),
        lambda root: (root / "gradebook.db").unlink(),
    ],
    ids=["nbgrader_config.py", "course.yml", "no gradebook"],
)
def test_after_a_change_nbgrader_is_asked_again(course_folder: Path, change: Callable[[Path], object]) -> None:
    course = load_course(course_folder)
    found(course)
    change(course_folder)
    assert known_place(course, None) is None


def test_a_gradebook_that_is_no_file_is_always_asked_through_nbgrader(course_folder: Path) -> None:
    course = load_course(course_folder)
    server = Path("postgresql://nobody@localhost/class")
    assert place_of(course, None, ClassFiles(course, nbgrader_of(course)), server).database == ""
    assert known_place(course, None) is None


def test_the_command_asks_nbgrader_only_where_it_has_to(
    course_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(*_: object) -> NoReturn:
        raise CourseError("nbgrader was asked")

    database = course_folder / "gradebook.db"
    Base.metadata.create_all(create_engine(f"sqlite:///{database}"))
    notebook_of_ada = course_folder / "autograded" / "ada" / "attention" / "attention.ipynb"
    notebook_of_ada.parent.mkdir(parents=True)
    notebook_of_ada.write_text(json.dumps(notebook(report(DOUBLE, HALF))))
    found(load_course(course_folder))
    monkeypatch.chdir(course_folder)
    monkeypatch.setattr("autograder._class_commands._existing", asked)
    assert main(["feedback"]) == 2  # the last run was in another folder, which a configuration may go by
    assert "nbgrader was asked" in capsys.readouterr().err
    found(load_course(course_folder))
    assert main(["feedback"]) == 0
    assert capsys.readouterr().out == "wrote 1 page to feedback, such as feedback/ada/attention/attention.html\n"
    notebook_of_ben = course_folder / "autograded" / "ben" / "attention" / "attention.ipynb"
    notebook_of_ben.parent.mkdir(parents=True)
    notebook_of_ben.write_text("no notebook")
    assert main(["feedback"]) == 0
    out, err = capsys.readouterr()
    assert out == "wrote 1 page to feedback, such as feedback/ada/attention/attention.html\n"
    unread = "autograded/ben/attention/attention.ipynb"
    assert err == f"no page: {unread} can't be read; run `autograder grade` again.\n"
    notebook_of_ada.write_text("no notebook")
    assert main(["feedback"]) == 2
    said = "autograder: no graded notebook in autograded can be read; run `autograder grade` again.\n"
    assert capsys.readouterr().err == said
    database.write_text("no database")
    assert main(["feedback"]) == 2
    assert "nbgrader was asked" in capsys.readouterr().err
