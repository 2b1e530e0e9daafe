"""The graded notebook, as it lies in ``autograded/``: what came in, mended, with its outputs and results.

It holds the whole report, so that every page about a submission can be made from this one file. What students wrote
is sanitised before it goes in, because nbgrader's formgrader shows it in the instructor's browser as it stands.
"""

from __future__ import annotations

import gettext
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import nbformat
from nbgrader.utils import compute_checksum, determine_grade

from autograder.course import Course
from autograder.feedback.kept import KEY, Kept, kept_in
from autograder.feedback.table import check_table, fault_note
from autograder.grading import Graded
from autograder.mend import MendedCell, released_notebook, restored
from autograder.notebook import TEST_PREFIX, Cell, Notebook
from autograder.report import ExerciseReport, GradeReport
from autograder.sanitise import as_text, clean_markdown, clean_outputs

# Pages colour code and read outputs; what is beyond any answer would keep the instructor's browser and server busy.
MAX_CELL_SOURCE = 20_000
MAX_SOURCES = 500_000
MAX_OUTPUTS = 10 << 20
"""Characters of one cell's text, of all texts, and of all outputs (as JSON), that a graded notebook shows."""
OUTPUTS_LEFT_OUT = "the outputs of this cell are left out: this notebook has shown too much already"


def autograded(
    graded: Graded,
    course: Course,
    assignment: str,
    submission: str = "",
    translations: gettext.NullTranslations | None = None,
) -> nbformat.NotebookNode:
    """The graded notebook of one submission, in nbformat 4.5.

    Args:
        graded: what came of it; where it could not be read, the course's own notebook stands in, without results.
        course: the course.
        assignment: which one was graded.
        submission: SHA-256 (hex) of the file that came in, to know it again.
        translations: the language of the tables in it.
    """
    released = released_notebook(course, assignment)
    cells = graded.mended.notebook if graded.mended else _stand_in(released.cells)
    name = Path(graded.report.notebook).name.encode(errors="replace").decode()  # of any bytes, on a disk
    report = msgspec.structs.replace(graded.report, notebook=name)
    outputs = graded.examined.outputs if graded.examined else {}
    notebook = _assembled(cells, released, _Shown(report, outputs, translations))
    notebook.metadata[KEY] = msgspec.to_builtins(Kept(1, report, submission))
    return notebook


def not_run(notebook: Notebook, course: Course, assignment: str) -> nbformat.NotebookNode:
    """A second notebook of an assignment as it lies in ``autograded/``: made harmless, not run, for a human to grade.

    Raises:
        CourseError: the course has no such notebook.
    """
    released = released_notebook(course, assignment, notebook.path.stem)
    cells, _ = restored(notebook, released, course.assignment(assignment))
    return _assembled(cells, released, _Shown())


def report_of(notebook: Mapping[str, Any]) -> GradeReport | None:
    """The report that a graded notebook holds; None in one that was graded without us, or by another version."""
    found = kept_in(notebook)
    return None if found is None else found.report


def submission_of(notebook: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the file that a graded notebook was made from; empty where that is not known."""
    found = kept_in(notebook)
    return "" if found is None else found.submission


def auto_score(cell: nbformat.NotebookNode, report: GradeReport | None) -> float | None:
    """What a graded cell earned, in points, or None where a human has to decide.

    It is read from the report, never from the cell's outputs. A hand-graded answer is worth 0 where the student
    left it as it was released, as in nbgrader; one that is missing altogether may stand elsewhere, and a human looks.
    """
    grade_id = cell.metadata.nbgrader.grade_id
    if cell.metadata.nbgrader.solution:
        return None if cell.metadata.get(KEY, {}).get("added") else determine_grade(cell)[0]
    exercise = grade_id.removeprefix(TEST_PREFIX)
    scores = {one.id: one.score for one in report.exercises if not one.manual} if report else {}
    return scores.get(exercise)


def auto_comment(cell: nbformat.NotebookNode) -> str | None:
    """nbgrader's remark on an answer that was left as it was released, and does not stand elsewhere."""
    if "answered_in" in cell.metadata.get(KEY, {}):
        return None
    unchanged = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
    return "No response." if unchanged else None


def _stand_in(released: tuple[Cell, ...]) -> tuple[MendedCell, ...]:
    """The course's notebook in place of one that can't be read, so that a human can grade by hand."""
    return tuple(
        MendedCell(
            -1 - place, cell.kind, cell.source, cell if cell.grade_id else None, True, attachments=cell.attachments
        )
        for place, cell in enumerate(released)
    )


class _Shown(NamedTuple):
    """What the cells of a notebook show: results, outputs by cell number, and the language of our own words."""

    report: GradeReport | None = None
    outputs: Mapping[int, list[dict[str, Any]]] = MappingProxyType({})
    translations: gettext.NullTranslations | None = None


def _assembled(cells: Sequence[MendedCell], released: Notebook, shown: _Shown) -> nbformat.NotebookNode:
    numbers = itertools.count(1)
    written = []
    room, room_for_outputs = MAX_SOURCES, MAX_OUTPUTS
    for place, cell in enumerate(cells):
        source = cell.source if cell.as_released else _cut(cell.source, min(room, MAX_CELL_SOURCE))
        room -= 0 if cell.as_released else len(source)
        written.append(_cell(cell, source, place))
        if cell.kind == "code":
            written[-1]["execution_count"] = next(numbers) if cell.runs and shown.report else None
            size = len(json.dumps(shown.outputs.get(cell.number, [])))
            fits = size <= room_for_outputs  # asked before they are cleaned: that takes time by their size
            written[-1]["outputs"] = _outputs(cell, shown) if fits else [_told(OUTPUTS_LEFT_OUT)]
            room_for_outputs -= size if fits else 0
    metadata = {key: value for key, value in released.metadata.items() if key in ("kernelspec", "language_info")}
    return _node({"cells": written, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def _cut(source: str, room: int) -> str:
    """As much of a text as there is room for, with a word about the rest."""
    room = max(room, 0)
    return source if len(source) <= room else f"{source[:room]}\n# [… {len(source) - room} more characters]"


def _told(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stderr", "text": f"[{text}]\n"}


def _cell(cell: MendedCell, source: str, place: int) -> dict[str, Any]:
    """A cell without outputs; its metadata are the course's, never the student's."""
    kind: str = cell.kind
    if kind == "raw":  # an exporter would put it into the page as it stands
        kind, source = "markdown", as_text(source)
    written: dict[str, Any] = {"cell_type": kind, "id": f"cell-{place}", "metadata": {}, "source": source}
    if cell.role is not None:
        written["metadata"]["nbgrader"] = _nbgrader(cell.role)
    written["metadata"][KEY] = {"added": True} if cell.added else {"number": cell.number + 1}
    if cell.answered_in is not None:
        written["metadata"][KEY]["answered_in"] = cell.answered_in + 1
    if cell.as_released:
        written["metadata"][KEY]["course"] = True
    if cell.kind == "markdown":
        attachments = cell.attachments
        if not cell.as_released:
            written["source"], attachments = clean_markdown(source, attachments)
        if attachments:
            written["attachments"] = attachments
    return written


def _nbgrader(role: Cell) -> dict[str, Any]:
    """The metadata that nbgrader knows a cell by, with the checksum of what was released."""
    nbgrader: dict[str, Any] = {
        "cell_type": role.kind,
        "grade": role.is_grade,
        "grade_id": role.grade_id,
        "locked": role.is_locked,
        "schema_version": 3,
        "solution": role.is_solution,
        "task": False,
    }
    if role.is_grade:
        nbgrader["points"] = role.points
    cell = _node({"cell_type": role.kind, "metadata": {"nbgrader": nbgrader}, "source": role.source})
    nbgrader["checksum"] = compute_checksum(cell)
    return nbgrader


def _node(values: dict[str, Any]) -> nbformat.NotebookNode:
    node: nbformat.NotebookNode = nbformat.from_dict(values)
    return node


def _outputs(cell: MendedCell, shown: _Shown) -> list[dict[str, Any]]:
    """What a code cell shows: its run, or, for a graded cell, its result and nothing else."""
    role = cell.role
    if role is None or not role.is_grade or role.is_solution:
        return clean_outputs(shown.outputs.get(cell.number, []))
    if shown.report is None:
        return []
    name = (role.grade_id or "").removeprefix(TEST_PREFIX)
    found = (exercise for exercise in shown.report.exercises if exercise.id == name)
    exercise = next(found, ExerciseReport(name, None, role.points))
    if exercise.score is None:
        note = fault_note(shown.report, shown.translations)
        return [{"output_type": "display_data", "data": {"text/html": note}, "metadata": {}}]
    # One result, and a plain float within its bounds: nbgrader's own reading of it then agrees with the report.
    score = min(max(float(exercise.score), 0.0), role.points)
    data = {"text/plain": repr(score), "text/html": check_table(exercise, shown.translations)}
    return [{"output_type": "execute_result", "execution_count": None, "data": data, "metadata": {}}]
