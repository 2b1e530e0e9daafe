"""A mistake in the course's configuration never leads to student code that runs unconfined."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests import courses
from tests.courses import ASSIGNMENT, REPOSITORY

NET = REPOSITORY / "autograder" / "nbgrader" / "jupyter" / "nbgrader_config.py"
OUT = "out.txt"

# File, and what is changed in it.
BROKEN = {
    "course": ("course.yml", "call_seconds: 5", "call_secs: 5"),
    "line-below": ("nbgrader_config.py", "configure(c, __file__)", "configure(c, __file__)\nc.Plugin.method = zero"),
    "no-python": ("nbgrader_config.py", "configure(c, __file__)", "configure(c, __file__"),
    "nothing": ("nbgrader_config.py", "configure(c, __file__)", ""),
}


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """The course, and a submission that writes a file where it is run, if nothing keeps it from that."""
    root = courses.copy_course(tmp_path / "course", "amara")
    path = root / "submitted" / "amara" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = json.loads(path.read_text())
    code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    code["source"] = [f"open({str(root / OUT)!r}, 'w').close()\n", *code["source"]]
    path.write_text(json.dumps(notebook))
    return root


def break_it(course: Path, name: str) -> None:
    file, right, wrong = BROKEN[name]
    text = (course / file).read_text()
    assert right in text
    (course / file).write_text(text.replace(right, wrong))


def test_the_environment_has_what_stands_below_every_course() -> None:
    assert Path(sysconfig.get_path("data"), "etc", "jupyter", NET.name).read_text() == NET.read_text()


@pytest.mark.parametrize("name", ["course", "line-below", "no-python"])
@pytest.mark.parametrize("command", [("autograde", ASSIGNMENT, "--create"), ("export",)], ids=lambda one: one[0])
def test_a_command_of_nbgrader_s_stops_there(course: Path, name: str, command: tuple[str, ...]) -> None:
    break_it(course, name)
    done = courses.run("nbgrader", *command, folder=course, home=course.with_name("home"))
    assert done.returncode != 0
    assert not (course / OUT).exists()
    assert not (course / "grades.csv").exists()
    if name == "course":
        assert done.returncode == 2
        assert "course.yml, line 9: limits.call_secs is not a known key" in done.stdout
        assert len(done.stdout.strip().splitlines()) == 1


def test_a_configuration_that_says_nothing_runs_nothing_unconfined(course: Path) -> None:
    break_it(course, "nothing")
    courses.run("nbgrader", "autograde", ASSIGNMENT, "--create", folder=course, home=course.with_name("home"))
    assert not (course / OUT).exists()


SERVER = """
from nbgrader.server_extensions.formgrader.formgrader import FormgradeExtension
config = FormgradeExtension().load_config()
print(config.Autograde.sanitize_preprocessors, config.Autograde.autograde_preprocessors[0])
"""


@pytest.mark.parametrize("name", BROKEN)
def test_formgrader_goes_on_with_what_confines(course: Path, name: str) -> None:
    break_it(course, name)
    done = subprocess.run(
        [sys.executable, "-c", SERVER],
        cwd=course,
        env=courses.environment(course.with_name("home")),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    [last] = done.stdout.strip().splitlines()[-1:]
    ours = "autograder.nbgrader.preprocessors."
    assert last == f"['{ours}GradeSubmission'] {ours}SaveGrades"
