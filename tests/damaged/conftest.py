"""How a damaged submission is handed in, graded by a warm grader of the real course, and judged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder.autograded import autograded
from autograder.grading import Graded, Grader
from autograder.report import GradeReport
from autograder.submissions import submissions
from tests.damaged.bank import FULL, Case
from tests.engine import SEED, course, release


@pytest.fixture
def as_required(grader: Grader, tmp_path: Path) -> Callable[[Case], None]:
    """Asserts that a case comes to what it must come to, and that nothing that was handed in is changed."""

    def judge(case: Case) -> None:
        folder = tmp_path / "submitted" / "student" / "attention"
        folder.mkdir(parents=True)
        case.hand_in(folder)
        before = _contents(tmp_path)
        [submission] = submissions(tmp_path / "submitted", "attention")
        graded = grader.grade(submission.path, "attention", SEED)
        report, said = graded.report, _reasons(graded.report)
        assert report.score == case.score, (said, report.public())
        assert (report.status == "graded") is (case.score is not None)
        assert case.score == FULL or case.says, "whoever gets less is told why"
        assert case.says in said
        assert said or report.complete
        told = [repair.render() for repair in report.repairs]
        assert len(told) == len(case.repairs), told
        assert all(piece in sentence for piece, sentence in zip(case.repairs, told, strict=True)), told
        assert _contents(tmp_path) == before
        _expect_each_in_its_place(graded)

    return judge


def _reasons(report: GradeReport) -> str:
    """Why there is no score, or not all of it."""
    lost = [check.message for exercise in report.exercises for check in exercise.checks]
    return "\n".join(one.render() for one in (report.error, *lost) if one is not None)


def _expect_each_in_its_place(graded: Graded) -> None:
    """The graded notebook can be opened, and holds each of the course's cells that have a grade_id once."""
    notebook = autograded(graded, course(), "attention")
    nbformat.validate(notebook)
    held = [cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert sorted(held) == sorted(cell.grade_id for cell in release().cells if cell.grade_id)


def _contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }
