"""From the notebook that came in to the notebook that the course knows. Every repair is listed.

Nothing here runs student code, and nothing is invented: cells of the course that were changed are put back as they
were released, and answers are found wherever they stand.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder import stubs
from autograder.course import Assignment, Course, Exercise
from autograder.errors import CourseError, UnusableNotebook
from autograder.examiner.job import JobCell, JobExercise
from autograder.messages import N_, Message, message
from autograder.notebook import TEST_PREFIX, Cell, Kind, Notebook, read_notebook

MAX_CODE = 1 << 20
"""Bytes of code, as they cross the channel; a notebook with more is no answer to an exercise."""
MAX_PARSED = 64_000
"""Characters of a cell that is looked into: Python's parser takes minutes and gigabytes for absurd megabytes."""
ILLUSTRATION = "illustration"
# Python 3.11 counts the depth of all trees that it builds in one place: two threads that build at the same time can
# each find the other's count, which is a SystemError.
_PARSING = threading.Lock()


@dataclass(frozen=True)
class MendedCell:
    """A cell of a mended notebook.

    Attributes:
        number: its place in the notebook that came in, from 0; negative for a cell that was added.
        role: the course's cell that it stands for, whose metadata counts; None for one of the student's own.
        as_released: nothing in it is the student's.
        runs: whether it is run in grading.
    """

    number: int
    kind: Kind
    source: str
    role: Cell | None = None
    as_released: bool = False
    runs: bool = False
    attachments: dict[str, Any] = field(default_factory=dict)

    @property
    def added(self) -> bool:
        """Whether the submission did not hold it."""
        return self.number < 0

    def plays(self, grade_id: str) -> bool:
        """Whether it stands for the course's cell of that name."""
        return self.role is not None and self.role.grade_id == grade_id


@dataclass(frozen=True)
class Mended:
    """A submission as the course knows it: all its cells in order, where each exercise is examined, and the repairs."""

    notebook: tuple[MendedCell, ...]
    exercises: tuple[JobExercise, ...]
    repairs: tuple[Message, ...]

    @property
    def cells(self) -> tuple[JobCell, ...]:
        """What is run, in order."""
        return tuple(
            JobCell(cell.number, cell.source, public_tests=cell.role is not None and cell.role.is_grade)
            for cell in self.notebook
            if cell.runs
        )


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
        raise UnusableNotebook(
            f"{notebook.path} holds no exercise of this course, whose assignments are {', '.join(course.assignments)}."
        )
    return best


def mend(notebook: Notebook, course: Course, assignment: str) -> Mended:
    """Mend a submission of an assignment.

    Raises:
        UnusableNotebook: it holds more code than can be run.
        CourseError: the course's own notebook can't be read.
    """
    released = released_notebook(course, assignment)
    code = [cell.source for cell in notebook.cells if cell.kind == "code"]
    if sum(len(json.dumps(source)) for source in code) > MAX_CODE:
        raise UnusableNotebook(f"{notebook.path} holds more than {MAX_CODE >> 20} MB of code.")
    exercises = course.assignment(assignment).exercises
    if not _named(notebook) & set(exercises):
        raise UnusableNotebook(f"{notebook.path} holds none of the exercises of {assignment}: {', '.join(exercises)}.")
    cells, repairs = restored(notebook, released, course.assignment(assignment))
    return Mended(
        notebook=cells,
        exercises=tuple(
            _job_exercise(exercise, cells, released, course.forbidden_names(assignment, exercise.name))
            for exercise in exercises.values()
            if not exercise.manual
        ),
        repairs=repairs,
    )


def restored(
    notebook: Notebook, released: Notebook, assignment: Assignment
) -> tuple[tuple[MendedCell, ...], tuple[Message, ...]]:
    """A notebook's cells with the course's own as they were released, and what had to be repaired for that."""
    repairs: list[Message] = []
    cells = _with_roles(notebook, released, assignment, repairs)
    _add_missing(cells, released, repairs)
    return tuple(cells), tuple(repairs)


def _named(notebook: Notebook) -> set[str]:
    """The exercises that a notebook might answer: its grade_ids, and the names that its cells define."""
    ids = {cell.grade_id for cell in notebook.cells if cell.grade_id}
    return ids.union(*(_definitions(cell.source) for cell in notebook.cells if cell.kind == "code"))


def released_notebook(course: Course, assignment: str, name: str | None = None) -> Notebook:
    """The notebook as students got it; `name` is that of a second one in the assignment's folder.

    It is made from the instructor's, where there is one: people solve exercises in ``release/`` itself.

    Raises:
        CourseError: there is none, or it can't be read.
    """
    source, release = course.source_notebook(assignment), course.release_notebook(assignment)
    if name is not None:
        source, release = (path.with_name(f"{name}.ipynb") for path in (source, release))
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


def _with_roles(
    notebook: Notebook, released: Notebook, assignment: Assignment, repairs: list[Message]
) -> list[MendedCell]:
    """The cells that came in, each with the course's cell that it stands for; locked ones as they were released."""
    known: dict[str | None, Cell] = {cell.grade_id: cell for cell in released.cells if cell.grade_id}
    playing = _playing(notebook, known, {one.name: one.answer for one in assignment.exercises.values()})
    shown = {cell.source.strip() for cell in released.cells if ILLUSTRATION in cell.tags}
    texts = {(cell.kind, cell.source.strip()): cell for cell in released.cells}
    cells = []
    for cell in notebook.cells:
        role = playing.get(cell.index)
        kind, source, as_released = cell.kind, cell.source, (cell.kind, cell.source.strip()) in texts
        if role is not None:
            as_released = (role.kind, role.source.strip()) == (cell.kind, cell.source.strip())
            if not role.is_solution:
                if not as_released:
                    said = N_("put the course's own cell {cell} in place of one that differs from it")
                    repairs.append(message(said, cell=role.grade_id))
                kind, source, as_released = role.kind, role.source, True
        runs = kind == "code" and bool(source.strip()) and (role is not None or source.strip() not in shown)
        original = role or texts.get((cell.kind, cell.source.strip()))
        attachments = original.attachments if as_released and original else cell.attachments
        cells.append(MendedCell(cell.index, kind, source, role, as_released, runs, attachments))
    return cells


def _playing(notebook: Notebook, known: dict[str | None, Cell], answers: dict[str, str]) -> dict[int, Cell]:
    """Which cells stand for which of the course's, by index: of copies, the first of a locked cell, the last answer.

    An answer whose metadata is gone is known by what it defines, which `answers` holds by grade_id.
    """
    found: dict[str, int] = {}
    for cell in notebook.cells:
        role = known.get(cell.grade_id)
        if role is not None and cell.grade_id is not None and (role.is_solution or cell.grade_id not in found):
            found[cell.grade_id] = cell.index
    taken = set(found.values())
    for grade_id, role in known.items():
        if grade_id is None or grade_id in found or not role.is_solution:
            continue
        name = answers.get(grade_id, grade_id)
        defining = [cell.index for cell in notebook.cells if cell.kind == "code" and name in _definitions(cell.source)]
        if defining and defining[-1] not in taken:
            found[grade_id] = defining[-1]
            taken.add(defining[-1])
    return {index: known[grade_id] for grade_id, index in found.items()}


def _add_missing(cells: list[MendedCell], released: Notebook, repairs: list[Message]) -> None:
    """Add the course's cells that the submission lacks: what code relies on first, answers and graded cells at the end.

    Those at the end are not run: they are there so that each has its place in the gradebook and on the page.
    """
    met = {cell.role.grade_id for cell in cells if cell.role is not None}
    missing = [cell for cell in released.cells if cell.grade_id and cell.grade_id not in met]
    first = [cell for cell in missing if cell.is_locked and not cell.is_grade]
    for place, cell in enumerate(missing, start=1):
        runs = cell in first and cell.kind == "code"
        added = MendedCell(-place, cell.kind, cell.source, cell, True, runs, cell.attachments)
        if cell in first:
            cells.insert(first.index(cell), added)
            repairs.append(message(N_("added the cell {cell}, which belongs to the course"), cell=cell.grade_id))
            continue
        cells.insert(_place_for(cell, cells), added)
        repairs.append(
            message(N_("the cell {cell} is missing; the exercise was checked all the same"), cell=cell.grade_id)
            if cell.is_grade and not cell.is_solution
            else message(N_("the cell {cell} is missing, and no other cell answers it"), cell=cell.grade_id)
        )


def _place_for(missing: Cell, cells: list[MendedCell]) -> int:
    """Where to add a cell: a graded cell behind its answer, anything else at the end."""
    exercise = (missing.grade_id or "").removeprefix(TEST_PREFIX)
    return next((place + 1 for place, cell in enumerate(cells) if cell.plays(exercise)), len(cells))


def _job_exercise(
    exercise: Exercise, cells: Sequence[MendedCell], released: Notebook, forbidden: tuple[str, ...]
) -> JobExercise:
    name, answer = exercise.name, exercise.answer
    run = [cell for cell in cells if cell.runs]
    graded = [place for place, cell in enumerate(run) if cell.plays(TEST_PREFIX + name)]
    defining = [place for place, cell in enumerate(run) if answer in _definitions(cell.source)]
    after = max(graded + defining, default=len(run) - 1) + 1
    stubs = {_definitions(cell.source).get(answer) for cell in released.cells if cell.grade_id == name} - {None}
    untouched = bool(defining) and all(_definitions(run[place].source)[answer] in stubs for place in defining)
    if untouched and exercise.value:  # a dict may be filled in by statements behind the stub's own
        untouched = not any(_uses(cell.source, answer, stubs) for cell in run if not cell.as_released)
    return JobExercise(id=name, after=after, untouched=untouched, forbidden=forbidden, value=exercise.value)


def _uses(source: str, name: str, stubs: set[str | None]) -> bool:
    """Whether a cell speaks of a variable in another statement than the one that is the stub."""
    return any(
        isinstance(node, ast.Name) and node.id == name
        for statement in _parsed(source)
        if not (isinstance(statement, ast.Assign) and _shape([ast.Expr(statement.value)]) in stubs)
        for node in ast.walk(statement)
    )


@functools.lru_cache(maxsize=2048)  # a course's own cells come with every submission
def _definitions(source: str) -> dict[str, str | None]:
    """The names that a cell defines at its top level, each with the shape of the function or value that it is given.

    The shape is None of what is neither.

    The trees themselves are not kept: they take a thousand times the room of their text.
    """
    found: dict[str, str | None] = {}
    for statement in _parsed(source):
        if isinstance(statement, ast.FunctionDef):
            has_docstring = ast.get_docstring(statement, clean=False) is not None
            found[statement.name] = _shape(statement.body[has_docstring:])
        elif isinstance(statement, ast.AsyncFunctionDef | ast.ClassDef):
            found[statement.name] = None
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            shape = _shape([] if statement.value is None else [ast.Expr(statement.value)])
            found.update({target.id: shape for target in targets if isinstance(target, ast.Name)})
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            found.update({alias.asname or alias.name: None for alias in statement.names})
    return found


def _shape(body: list[ast.stmt]) -> str | None:
    """What statements do, without comments and layout, as a hash; None where that can't be told."""
    try:
        return hashlib.sha256(ast.dump(ast.Module(body, [])).encode()).hexdigest()
    except (RecursionError, UnicodeEncodeError):  # a sum of a thousand terms; no stub is that deep
        return None


def _parsed(source: str) -> list[ast.stmt]:
    if len(source) > MAX_PARSED:
        return []
    # Line magics are no Python; what they do does not define an exercise.
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.split("\n")]
    try:
        with _PARSING:
            return ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
