"""The real course as tests use it: its release notebook with given answers, graded by one warm grader."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from autograder.course import Course, load_course
from autograder.notebook import Cell, Notebook, read_notebook
from autograder.report import CheckReport, ExerciseReport, GradeReport

ROOT = Path(__file__).parents[1]
ATTENTION = "scaled_dot_product_attention"
SEED = 20261129

PROJECTION = "def project_qkv(x, W_q, W_k, W_v):\n    return x @ W_q, x @ W_k, x @ W_v\n"


@cache
def course() -> Course:
    """The course of this repository."""
    return load_course(ROOT)


@cache
def release() -> Notebook:
    """The release notebook of `attention`."""
    return read_notebook(course().release_notebook("attention"))


def answered(**answers: str) -> Notebook:
    """The release notebook with answers, by grade_id, in it."""
    cells = [
        replace(cell, source=answers[cell.grade_id]) if cell.grade_id in answers else cell for cell in release().cells
    ]
    return replace(release(), path=Path("a student's.ipynb"), cells=tuple(cells))


def attention(body: str, before: str = "") -> str:
    """The text of a cell that defines `scaled_dot_product_attention` with this body."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"import torch\n{before}\ndef scaled_dot_product_attention(Q, K, V):\n{lines}\n"


GOOD_BODY = "weights = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)\nreturn weights @ V, weights"
GOOD = attention(GOOD_BODY)


def with_cell(notebook: Notebook, place: int, source: str) -> Notebook:
    """The notebook with one more code cell."""
    cells = [*notebook.cells]
    cells.insert(place, Cell(1000 + place, "code", source, f"extra-{place}"))
    return replace(notebook, cells=tuple(cells))


def exercise(report: GradeReport, name: str = ATTENTION) -> ExerciseReport:
    """The report of one exercise."""
    return next(one for one in report.exercises if one.id == name)


def outcomes(report: GradeReport, name: str = ATTENTION) -> set[str]:
    """The outcomes of an exercise's checks."""
    return {check.outcome for check in exercise(report, name).checks}


def first_message(report: GradeReport, name: str = ATTENTION) -> str:
    """What the first check that was lost says, in English."""
    lost: CheckReport = next(check for check in exercise(report, name).checks if check.outcome != "passed")
    assert lost.message is not None
    return lost.message.render()
