"""Every lesson, solved and untouched, by all three doors: ``check``, ``grade`` and ``nbgrader autograde``.

The first two share a warm grader, the third starts its own; `tests.damaged.test_class` starts ``grade`` as it is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from tests import courses
from tests.engine import course
from tests.shared import one_grader

POINTS = {
    "sequences": 12,
    "attention": 20,
    "masking": 22,
    "loss": 22,
    "multihead": 24,
    "heads": 14,  # and 6 by hand
    "clinic": 12,
}
"""What each lesson is worth."""

WAITING = "conclusion"
"""What a human grades, where it was written."""

EXPECTED = {("solved", name): points for name, points in POINTS.items()} | {("untouched", name): 0 for name in POINTS}

# One process for all assignments, as formgrader's server is one: each command of nbgrader's would warm up anew.
AUTOGRADE = """
import sys
from nbgrader.apps import NbGrader, NbGraderAPI
app = NbGrader()
app.load_config_file()
api = NbGraderAPI(config=app.config)
for name in sys.argv[1:]:
    api.generate_assignment(name, create=True)
    for student in ("solved", "untouched"):
        done = api.autograde(name, student)
        assert done["success"], done
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course, with two students: one handed in the instructor's solutions, one what everybody got."""
    root = courses.copy_course(tmp_path_factory.mktemp("doors") / "course")
    for student, folder in (("solved", "source"), ("untouched", "release")):
        for name in POINTS:
            there = root / "submitted" / student / name
            there.mkdir(parents=True)
            shutil.copy(root / folder / name / f"{name}.ipynb", there)
    return root


@pytest.fixture(scope="module")
def warm(root: Path) -> Iterator[None]:
    """A grader of all lessons for what grades in this process."""
    with one_grader(root):
        yield


def test_these_are_the_lessons_of_the_course() -> None:
    assert set(course().assignments) == set(POINTS)


def test_check_gives_full_marks_to_each_solution_and_nothing_to_an_untouched_notebook(
    root: Path, warm: None, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {key: str(root / "submitted" / key[0] / key[1] / f"{key[1]}.ipynb") for key in EXPECTED}
    assert main(["--course", str(root), "check", "--json", *files.values()]) == 1
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {key: report["score"] for key, report in zip(files, reports, strict=True)} == EXPECTED


def test_grade_does_too(root: Path, warm: None, one_alembic: None) -> None:
    assert main(["--course", str(root), "grade", "--workers", "2", "--into", str(root / "ours")]) == 0
    assert scores(root, "--into", "ours") == EXPECTED


def test_nbgrader_autograde_does_too(root: Path) -> None:
    home = root.with_name("home")
    done = subprocess.run(
        [sys.executable, "-c", AUTOGRADE, *POINTS],
        cwd=root,
        env=courses.environment(home) | {"PATH": f"{courses.COMMANDS}:{courses.SYSTEM_PATH}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert scores(root) == EXPECTED


def scores(root: Path, *into: str) -> dict[tuple[str, str], float]:
    """What stands in a gradebook."""
    done = courses.run("autograder", "export", "--format", "json", *into, folder=root, home=root.with_name("home"))
    assert done.returncode == 0, done.stdout
    return dict(_scores(json.loads(done.stdout)["rows"]))


def _scores(rows: list[dict[str, Any]]) -> Iterator[tuple[tuple[str, str], float]]:
    """What the checks gave; what waits for a human counts nothing, and leaves the whole without a score."""
    for row in rows:
        waits = [one for one in row["exercises"] if one["needs_human"]]
        assert [one["name"] for one in waits] == [WAITING] * (row["score"] is None)
        yield (row["student_id"], row["assignment"]), sum(one["auto_score"] or 0.0 for one in row["exercises"])
