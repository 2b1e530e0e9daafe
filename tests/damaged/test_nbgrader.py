"""What `docs/damaged.md` says of plain ``nbgrader autograde`` is what comes there of a few of the bank's cases."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nbgrader.converters import Autograde, NbGraderException
from nbgrader.utils import temp_attrs

from autograder.autograded import report_of
from autograder.course import Course, load_course
from autograder.grading import Grader
from autograder.nbgrader import config, preprocessors
from autograder.nbgrader.gradebook import ClassGradebook
from tests import courses
from tests.damaged.bank import Case
from tests.damaged.test_bank import CASES
from tests.engine import ROOT

ROWS = {
    "files-renamed-final": "renamed",
    "text-utf-16": "UTF-16",
    "text-windows-newlines": "Windows newlines",
    "text-format-4-0": "without cell ids",
    "metadata-pasted": "copy and paste",
    "cells-helpers-in-test": "own cells edited",
    "cells-other-answer-in-test-cell": "typed into a cell of the course",
}
"""Cases, and a piece of the first column of the row that tells of each."""
NOT_GRADED, SAME, ASKED = "not graded", "the same", "a human is asked"
OUTCOMES = {"skipped": NOT_GRADED, "fails": NOT_GRADED, SAME: SAME, ASKED: ASKED}


@pytest.fixture
def folder(tmp_path: Path, grader: Grader, monkeypatch: pytest.MonkeyPatch, one_alembic: None) -> Path:
    """A copy of the course whose students handed in these cases."""
    root = courses.copy_course(tmp_path / "course")
    course = load_course(root)
    with ClassGradebook(course, config.nbgrader_of(course)) as gradebook:
        gradebook.prepare("attention")
    for name, case in chosen().items():
        handed_in = root / "submitted" / name / "attention"
        handed_in.mkdir(parents=True)
        case.hand_in(handed_in)

    @contextmanager
    def warm(_: Path) -> Iterator[tuple[Course, Grader]]:
        yield course, grader

    monkeypatch.setattr(preprocessors, "grader_of", warm)
    return root


def chosen() -> dict[str, Case]:
    return {name: case for case in CASES if (name := f"{case.family}-{case.id}") in ROWS}


def told() -> dict[str, str]:
    """What the page's last column says of each case."""
    page = (ROOT / "docs" / "damaged.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    found = {name: [row[-1] for row in rows if piece in row[0]] for name, piece in ROWS.items()}
    assert all(len(columns) == 1 for columns in found.values()), found
    return {name: OUTCOMES[column] for name, [column] in found.items()}


def outcome(path: Path, case: Case) -> str:
    """What came of a case, from the graded notebook that lies there or does not."""
    report = report_of(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
    if report is None:
        return NOT_GRADED
    if report.status == "ungraded":
        return ASKED
    repairs = [repair.render() for repair in report.repairs]
    pieces = zip(case.repairs, repairs, strict=True) if len(repairs) == len(case.repairs) else [("not as many", "")]
    is_same = report.score == case.score and all(piece in repair for piece, repair in pieces)
    return SAME if is_same else f"{report.score}, {repairs}"


def test_the_column_on_nbgrader_is_true(folder: Path) -> None:
    app = config.nbgrader_of(load_course(folder))
    with temp_attrs(app.coursedir, assignment_id="attention"), contextlib.suppress(NbGraderException):
        Autograde(coursedir=app.coursedir, parent=app).start()
    place = folder / "autograded"
    found = {name: outcome(place / name / "attention" / "attention.ipynb", case) for name, case in chosen().items()}
    assert found == told()
