"""What runs inside nbgrader: faults, vanished cells, second notebooks, and what the server must not load."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, NbGraderException
from nbgrader.utils import temp_attrs
from traitlets.config import Config

from autograder.course import Course, load_course
from autograder.errors import CourseError, GraderFault
from autograder.grading import Grader
from autograder.nbgrader import config, pool, preprocessors
from autograder.nbgrader.gradebook import ClassGradebook
from tests import courses
from tests.nbgrader.rows import rows

TESTS = "test_scaled_dot_product_attention"


@pytest.fixture
def folder(tmp_path: Path, grader: Grader, monkeypatch: pytest.MonkeyPatch, one_alembic: None) -> Path:
    """A copy of the course with two submissions, graded inside nbgrader by the one warm grader."""
    root = courses.copy_course(tmp_path / "course", "amara", "dora")
    course = load_course(root)
    with ClassGradebook(course, config.nbgrader_of(course)) as gradebook:
        gradebook.prepare("attention")

    @contextmanager
    def warm(_: Path) -> Iterator[tuple[Course, Grader]]:
        yield course, grader

    monkeypatch.setattr(preprocessors, "grader_of", warm)
    return root


def autograde(folder: Path) -> None:
    """Run ``nbgrader autograde attention --force`` in this process."""
    app = config.nbgrader_of(load_course(folder))
    with temp_attrs(app.coursedir, assignment_id="attention"):
        converter = Autograde(coursedir=app.coursedir, parent=app)
        converter.force = True
        converter.start()


def grades(folder: Path) -> dict[tuple[str, str], list[Any]]:
    return {(student, cell): rest for student, _, cell, *rest in rows(folder / "gradebook.db")["grade"]}


def test_scores_are_those_of_the_report(folder: Path) -> None:
    autograde(folder)
    assert grades(folder)["amara", TESTS] == [16, None, None, 0]
    assert grades(folder)["dora", TESTS] == [13, None, None, 0]


def test_a_fault_of_the_grader_leaves_the_score_empty_and_asks_a_human(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    autograde(folder)

    def gone(*_: object) -> Any:
        raise GraderFault("the examiner is gone")

    monkeypatch.setattr(Grader, "_examine", gone)
    autograde(folder)
    assert grades(folder)["amara", TESTS] == [None, None, None, 1]
    assert "the examiner is gone" in (folder / "autograded" / "amara" / "attention" / "attention.ipynb").read_text()


def test_the_score_of_a_cell_that_has_vanished_is_not_kept(folder: Path) -> None:
    autograde(folder)
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        gradebook.add_grade_cell("test_old", "attention", "attention", max_score=5, cell_type="code")
        gradebook.remove_submission("attention", "dora")
        gradebook.update_or_create_submission("attention", "dora")
        gradebook.find_grade("test_old", "attention", "attention", "dora").auto_score = 5
        gradebook.db.commit()
    autograde(folder)
    assert grades(folder)["dora", "test_old"] == [None, None, None, 1]
    assert grades(folder)["dora", TESTS][0] == 13


def test_links_and_live_pages_are_not_copied_and_a_linked_notebook_is_not_graded(folder: Path) -> None:
    amara, dora = (folder / "submitted" / student / "attention" for student in ("amara", "dora"))
    (amara / "attention.ipynb").unlink()
    (amara / "attention.ipynb").symlink_to(folder / "source" / "attention" / "attention.ipynb")
    (dora / "suite.py").symlink_to(folder / "tests" / "hidden" / "attention" / "test_project_qkv.py")
    for page in ("page.html", "PAGE.XHTM", "page.atom", "page.of-a-kind-nobody-knows", "page"):
        (dora / page).write_text("<script>alert(1)</script>")
    (dora / "notes.txt").write_text("mine")
    with pytest.raises(NbGraderException):
        autograde(folder)
    assert not (folder / "autograded" / "amara" / "attention").exists()
    assert {path.name for path in (folder / "autograded" / "dora" / "attention").iterdir()} == {
        "attention.ipynb", "notes.txt",
    }  # fmt: skip


def test_an_assignment_that_the_course_does_not_know_is_not_run(folder: Path) -> None:
    for place in ("source", "submitted/amara"):
        shutil.copytree(folder / place / "attention", folder / place / "other")
        (folder / place / "other" / "attention.ipynb").rename(folder / place / "other" / "other.ipynb")
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        gradebook.add_assignment("other")
        gradebook.add_notebook("other", "other")
    app = config.nbgrader_of(load_course(folder))
    with temp_attrs(app.coursedir, assignment_id="other"), pytest.raises(NbGraderException):
        Autograde(coursedir=app.coursedir, parent=app).start()
    assert not (folder / "autograded" / "amara" / "other").exists()


def test_the_server_that_hosts_them_loads_neither_torch_nor_pytest(tmp_path: Path) -> None:
    root = courses.copy_course(tmp_path / "course")
    program = (
        "import sys\n"
        "from traitlets.utils.importstring import import_item\n"
        "from autograder.course import load_course\n"
        "from autograder.nbgrader.config import nbgrader_of\n"
        f"app = nbgrader_of(load_course(__import__('pathlib').Path({str(root)!r})))\n"
        "names = [*app.config.Autograde.sanitize_preprocessors, *app.config.Autograde.autograde_preprocessors]\n"
        "names += [n for n in app.config.GenerateAssignment.preprocessors if isinstance(n, str)]\n"
        "names += [*app.config.GenerateFeedback.preprocessors, app.config.GenerateFeedback.exporter_class]\n"
        "for name in [*names, app.config.ExportApp.plugin_class]: import_item(name)\n"
        "print(len(names) > 6, *[m for m in ('torch', 'pytest', 'matplotlib') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "True\n", done.stderr


def test_alembic_is_found_when_python_is_called_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    config.provide_alembic()
    assert os.environ["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/usr/bin", "/bin"]
    config.provide_alembic()
    assert os.environ["PATH"].count(str(Path(sys.executable).parent)) == 1


def test_later_lines_of_the_configuration_win(tmp_path: Path) -> None:
    root = courses.copy_course(tmp_path / "course")
    with (root / "nbgrader_config.py").open("a") as file:
        file.write("\nc.CourseDirectory.course_id = 'another'\n")
    assert config.nbgrader_of(load_course(root)).coursedir.course_id == "another"


def test_a_wrong_course_file_is_told_by_nbgrader_s_configuration(tmp_path: Path) -> None:
    (tmp_path / "course.yml").write_text("title: 3\n")
    with pytest.raises(CourseError, match="title"):
        config.configure(Config(), tmp_path / "nbgrader_config.py")


class Opened:
    """Stands in for a grader that takes seconds to start."""

    running = 0

    def __init__(self, _course: Course, _required: str) -> None:
        Opened.running += 1

    def wait(self) -> None: ...

    def close(self) -> None:
        Opened.running -= 1


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Any]]:
    """A function that asks the pool for a grader."""
    monkeypatch.setattr(pool, "Grader", Opened)
    monkeypatch.setattr(Opened, "running", 0)

    def ask(root: Path) -> Any:
        with pool.grader_of(root) as (_, grader):
            return grader

    yield ask
    pool.close_all()


def test_the_pool_keeps_one_grader_until_the_course_changes(tmp_path: Path, stand_in: Callable[[Path], Any]) -> None:
    root = courses.copy_course(tmp_path / "course")
    first = stand_in(root)
    assert stand_in(root) is first
    suite = root / "tests" / "hidden" / "attention" / "test_project_qkv.py"
    suite.write_text(suite.read_text() + "\n# changed\n")
    second = stand_in(root)
    assert second is not first
    assert Opened.running == 1
    (root / "course.yml").write_text((root / "course.yml").read_text().replace("call_seconds: 5", "call_seconds: 6"))
    assert stand_in(root) is not second
    assert Opened.running == 1


def test_an_idle_grader_is_closed(
    tmp_path: Path, stand_in: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.0)
    root = courses.copy_course(tmp_path / "course")
    with pool.grader_of(root):
        pass
    deadline = time.monotonic() + 10
    while Opened.running and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Opened.running == 0
