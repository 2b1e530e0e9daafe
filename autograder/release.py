"""From ``source/<a>/<a>.ipynb``, with solutions, to ``release/<a>/<a>.ipynb``, which students get.

The notebook goes through the preprocessors of ``nbgrader generate_assignment``, except the one that writes
the gradebook, with our `ClearSolutions` in place of the stock one; so both commands give the same bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode, ValidationError
from nbgrader import preprocessors as stock
from nbgrader import utils
from nbgrader.converters import GenerateAssignment
from nbgrader.nbgraderformat import ValidationError as MetadataError
from traitlets.config import Config

from autograder import stubs
from autograder.course import COURSE_FILE, Course
from autograder.errors import CourseError, UnusableNotebook
from autograder.notebook import TEST_PREFIX, read_notebook


class ClearSolutions(stock.ClearSolutions):  # type: ignore[misc] # nbgrader ships no types
    """nbgrader's preprocessor that also understands a stub written beside its solution; see `autograder.stubs`.

    A solution without a stub gets nbgrader's own. In ``nbgrader_config.py``:
    ``c.GenerateAssignment.preprocessors = release_preprocessors()``.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> tuple[NotebookNode, Any]:
        """Clear one cell.

        Raises:
            CourseError: one sentence with the notebook and the cell, where the marks do not fit together.
        """
        try:
            if self.enforce_metadata and not utils.is_solution(cell) and len(stubs.regions(cell.source)) > 1:
                raise CourseError("a solution stands here, but nbgrader has not marked the cell as a solution")
            cell, resources = super().preprocess_cell(cell, resources, cell_index)
        except CourseError as fault:
            notebook = resources.get("metadata", {}).get("name", "the notebook")
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            where = f"cell {cell_index + 1}" + (f" ({name})" if name else "")
            raise CourseError(f"{notebook}, {where}: {fault}.") from None
        return cell, resources

    def _replace_solution_region(self, cell: NotebookNode, language: str) -> bool:
        """Replace each solution by the stub that follows it, or by nbgrader's; tell whether there was one."""
        had_solution = any(region.kind == stubs.SOLUTION for region in stubs.regions(cell.source))
        cell.source = stubs.released(
            cell.source, self.code_stub[language] if cell.cell_type == "code" else self.text_stub
        )
        return had_solution


def release_preprocessors() -> list[Any]:
    """The preprocessors of ``nbgrader generate_assignment``, with our `ClearSolutions` by its dotted name."""
    return [
        f"{ClearSolutions.__module__}.{ClearSolutions.__name__}" if kind is stock.ClearSolutions else kind
        for kind in GenerateAssignment().preprocessors
    ]


def make_release(source: Path) -> str:
    """The text of the release notebook; the same bytes for the same source.

    Raises:
        CourseError: one sentence that names the notebook, and the cell where it can.
    """
    _check_source(source)
    quiet = logging.Logger("release")  # nbgrader logs a traceback beside each exception
    quiet.addHandler(logging.NullHandler())
    exporter = NotebookExporter(log=quiet, config=Config({"Exporter": {"default_preprocessors": []}}))
    for preprocessor in release_preprocessors():
        if preprocessor is not stock.SaveCells:  # it would write the gradebook
            exporter.register_preprocessor(preprocessor, enabled=True)
    try:
        text, _ = exporter.from_filename(str(source))
    except (RuntimeError, ValidationError, MetadataError) as fault:
        cause = str(fault.__context__ or fault).strip().splitlines()[0].rstrip(".")
        raise CourseError(f"{source}: {cause}.") from None
    for mark in ("BEGIN SOLUTION", "END SOLUTION", "BEGIN STUB", "END STUB"):
        if mark in text:
            raise CourseError(f"{source}: the release would still hold '{mark}'; write it in solution cells only.")
    return str(text)


def write_release(course: Course, names: Iterable[str] = ()) -> list[Path]:
    """Write the release notebooks of these assignments (of all by default); returns those that changed."""
    changed = []
    for name in _known(course, names):
        expect_exercises(course, name)
        text = make_release(course.source_notebook(name))
        target = course.release_notebook(name)
        if _text(target) != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_suffix(".ipynb.new")
            draft.write_text(text, encoding="utf-8", newline="\n")
            draft.replace(target)
            changed.append(target)
    return changed


def check_release(course: Course, names: Iterable[str] = ()) -> list[Path]:
    """The release notebooks of these assignments (of all by default) that are missing or out of step."""
    stale = []
    for name in _known(course, names):
        expect_exercises(course, name)
        if _text(course.release_notebook(name)) != make_release(course.source_notebook(name)):
            stale.append(course.release_notebook(name))
    return stale


def expect_exercises(course: Course, name: str) -> None:
    """Each exercise of ``course.yml`` has its cells in the source notebook, and no other cell is graded.

    Raises:
        CourseError: one sentence with the notebook and the cell, where it is otherwise.
    """
    source = course.source_notebook(name)
    try:
        cells = {cell.grade_id: cell for cell in read_notebook(source).cells}
    except UnusableNotebook as fault:
        raise CourseError(str(fault)) from None
    graded = set()
    for exercise in course.assignment(name).exercises.values():
        answer = exercise.name
        graded.add(answer if exercise.manual else TEST_PREFIX + answer)
        if answer in cells and cells[answer].is_grade != exercise.manual:
            raise CourseError(
                f"{source}: the cell '{answer}' is one that a human grades; write `manual: true` below it in "
                f"{COURSE_FILE}."
                if not exercise.manual
                else f"{source}: the cell '{answer}' has no points for a human to give, and {COURSE_FILE} says "
                "`manual: true`; make it a manually graded answer."
            )
        for grade_id in dict.fromkeys((answer, answer if exercise.manual else TEST_PREFIX + answer)):
            if grade_id not in cells:
                raise CourseError(f"{source} has no cell with the grade_id '{grade_id}', which {COURSE_FILE} asks for.")
    for name_of_cell, cell in cells.items():
        if cell.is_task:
            raise CourseError(
                f"{source}: the cell '{name_of_cell}' is one of nbgrader's task cells, which are not graded here; make "
                "it an answer that a human grades, and an exercise with `manual: true`."
            )
        if cell.is_grade and name_of_cell not in graded:
            raise CourseError(
                f"{source}: the cell '{name_of_cell}' is graded, and {COURSE_FILE} names no such exercise in {name}; "
                "add it there, with `manual: true` if a human grades it, or take the points from the cell."
            )


def _known(course: Course, names: Iterable[str]) -> list[str]:
    return [course.assignment(name).name for name in names or course.assignments]


def _check_source(source: Path) -> None:
    """Refuse what nbformat would mend at random: cells without ids get new ones at each reading."""
    try:
        notebook = read_notebook(source)
    except UnusableNotebook as fault:
        raise CourseError(str(fault)) from None
    seen: set[str] = set()
    for cell in notebook.cells:
        if not cell.id or cell.id in seen:
            what = "has the id of an earlier cell" if cell.id else "has no id"
            raise CourseError(
                f"{source}: cell {cell.index + 1} {what}; open the notebook in JupyterLab and save it again."
            )
        seen.add(cell.id)


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
