"""From the notebook that came in to the notebook that the course knows. Every repair is listed.

Nothing here runs student code, and nothing is invented: cells of the course that were changed are put back as they
were released, and answers are found wherever they stand.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import json
from dataclasses import dataclass
from pathlib import Path

from autograder import stubs
from autograder.course import Course
from autograder.errors import CourseError, UnusableNotebook
from autograder.examiner.job import JobCell, JobExercise
from autograder.messages import N_, Message, message
from autograder.notebook import TEST_PREFIX, Cell, Notebook, read_notebook

MAX_CODE = 4 << 20
"""Bytes of code, as they cross the channel; a notebook with more is no answer to an exercise."""
MAX_CELLS = 2_000
ILLUSTRATION = "illustration"


@dataclass(frozen=True)
class Mended:
    """A submission that can be run: its code cells in order, where each exercise is examined, and the repairs."""

    cells: tuple[JobCell, ...]
    exercises: tuple[JobExercise, ...]
    repairs: tuple[Message, ...]


def recognise(notebook: Notebook, course: Course) -> str:
    """The assignment that a notebook answers, whatever the file is called.

    Raises:
        UnusableNotebook: it answers none of them.
    """
    found = _named(notebook)
    scores = {
        name: sum(exercise in found for exercise in assignment.exercises)
        for name, assignment in course.assignments.items()
    }
    best = max(scores, key=lambda name: scores[name])
    if not scores[best]:
        known = "; ".join(f"{name}: {', '.join(a.exercises)}" for name, a in course.assignments.items())
        raise UnusableNotebook(f"{notebook.path} holds none of this course's exercises ({known}).")
    return best


def mend(notebook: Notebook, course: Course, assignment: str) -> Mended:
    """Mend a submission of an assignment.

    Raises:
        UnusableNotebook: it holds more code than can be run.
        CourseError: the course's own notebook can't be read.
    """
    released = _released(course, assignment)
    code = [cell.source for cell in notebook.cells if cell.kind == "code"]
    if sum(len(json.dumps(source)) for source in code) > MAX_CODE or len(code) > MAX_CELLS:
        raise UnusableNotebook(f"{notebook.path} holds more than {MAX_CELLS} cells or {MAX_CODE >> 20} MB of code.")
    names = course.assignment(assignment).exercises
    if not _named(notebook) & set(names):
        raise UnusableNotebook(f"{notebook.path} holds none of the exercises of {assignment}: {', '.join(names)}.")
    repairs: list[Message] = []
    cells = _restored(notebook, released, repairs)
    exercises = tuple(
        _exercise(name, cells, released, course.forbidden_names(assignment, name), repairs) for name in names
    )
    return Mended(
        cells=tuple(JobCell(cell.index, cell.source, cell.is_grade) for cell in cells),
        exercises=exercises,
        repairs=tuple(repairs),
    )


def _named(notebook: Notebook) -> set[str]:
    """The exercises that a notebook might answer: its grade_ids, and the names that its cells define."""
    ids = {cell.grade_id for cell in notebook.cells if cell.grade_id}
    return ids.union(*(_definitions(cell.source) for cell in notebook.cells if cell.kind == "code"))


def _released(course: Course, assignment: str) -> Notebook:
    """The notebook as students got it.

    It is made from the instructor's, where there is one: people solve exercises in ``release/`` itself.
    """
    source, release = course.source_notebook(assignment), course.release_notebook(assignment)
    path = source if source.is_file() else release
    try:
        return _read_once(path, path.stat().st_mtime_ns if path.is_file() else 0)
    except UnusableNotebook as error:
        raise CourseError(f"{error} What students got is made from it.") from None


@functools.lru_cache(maxsize=32)
def _read_once(path: Path, changed: int) -> Notebook:
    """The notebook without solutions; `changed`, its time of change, makes a new entry when the file is another."""
    notebook = read_notebook(path)
    cells = (
        dataclasses.replace(cell, source=stubs.released(cell.source, stubs.STOCK_STUB)) if cell.is_solution else cell
        for cell in notebook.cells
    )
    return dataclasses.replace(notebook, cells=tuple(cells))


def _restored(notebook: Notebook, released: Notebook, repairs: list[Message]) -> list[Cell]:
    """The code cells to run, in order, with the course's own cells as they were released."""
    own = {cell.grade_id: cell for cell in released.cells if cell.kind == "code" and cell.is_locked and cell.grade_id}
    shown = {cell.source.strip() for cell in released.cells if ILLUSTRATION in cell.tags}
    cells: list[Cell] = []
    met: set[str] = set()
    for cell in notebook.cells:
        original = own.get(cell.grade_id) if cell.grade_id else None
        if original is not None and original.grade_id not in met:
            met.add(original.grade_id or "")
            if original.source.strip() != cell.source.strip() or cell.kind != "code":
                repairs.append(message(N_("put back the cell {cell}, which belongs to the course"), cell=cell.grade_id))
            cells.append(_with_source(cell, original.source))
        elif cell.kind == "code" and cell.source.strip() and cell.source.strip() not in shown:
            cells.append(cell)
    missing = [cell for grade_id, cell in own.items() if grade_id not in met and not cell.is_grade]
    for place, cell in enumerate(missing):
        repairs.append(message(N_("added the cell {cell}, which belongs to the course"), cell=cell.grade_id))
        cells.insert(place, _with_source(cell, cell.source, -1 - place))
    return cells


def _exercise(
    name: str, cells: list[Cell], released: Notebook, forbidden: tuple[str, ...], repairs: list[Message]
) -> JobExercise:
    graded = [place for place, cell in enumerate(cells) if cell.grade_id == TEST_PREFIX + name]
    defining = [place for place, cell in enumerate(cells) if name in _definitions(cell.source)]
    if not graded:
        repairs.append(
            message(
                N_("the cell {cell} is missing; the exercise was checked all the same"),
                cell=TEST_PREFIX + name,
            )
        )
    after = max(graded + defining, default=len(cells) - 1) + 1
    stubs = {_shape(cell.source, name) for cell in released.cells if cell.grade_id == name} - {None}
    untouched = bool(defining) and all(_shape(cells[place].source, name) in stubs for place in defining)
    return JobExercise(id=name, after=after, untouched=untouched, forbidden=forbidden)


@functools.lru_cache(maxsize=2048)  # a course's own cells come with every submission
def _definitions(source: str) -> dict[str, ast.stmt]:
    """The names that a cell defines at its top level, with the last statement that defines each."""
    found: dict[str, ast.stmt] = {}
    for statement in _parsed(source):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[statement.name] = statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            found.update({target.id: statement for target in targets if isinstance(target, ast.Name)})
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            found.update({alias.asname or alias.name: statement for alias in statement.names})
    return found


def _shape(source: str, name: str) -> str | None:
    """What a definition does, without comments, docstring and layout; None where there is none."""
    statement = _definitions(source).get(name)
    if not isinstance(statement, ast.FunctionDef):
        return None
    body = statement.body[1:] if ast.get_docstring(statement, clean=False) is not None else statement.body
    try:
        return ast.dump(ast.Module([*body], []))
    except RecursionError:  # a sum of a thousand terms; no stub is that deep
        return None


def _parsed(source: str) -> list[ast.stmt]:
    # Line magics are no Python; what they do does not define an exercise.
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.split("\n")]
    try:
        return ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _with_source(cell: Cell, source: str, index: int | None = None) -> Cell:
    number = cell.index if index is None else index
    return Cell(number, "code", source, cell.id, cell.grade_id, is_grade=cell.is_grade, is_locked=cell.is_locked)
