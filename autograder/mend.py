"""From the notebook that came in to the notebook that the course knows. Every repair is listed.

Nothing here runs student code, and nothing is invented: cells of the course that were changed are put back as they
were released, and answers are found wherever they stand.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder import stubs
from autograder.course import Assignment, Course, Exercise
from autograder.definitions import (
    MAX_CODE,
    defined_by,
    definitions,
    each_parsed_once,
    effort,
    is_python,
    seems_to_define,
    tree,
)
from autograder.errors import CourseError, UnusableNotebook
from autograder.examiner.job import JobCell, JobExercise
from autograder.matching import with_code
from autograder.messages import N_, Message, message
from autograder.notebook import TEST_PREFIX, Notebook, expect_whole, read_notebook
from autograder.restoration import MendedCell, Restoration

__all__ = [
    "Mended",
    "MendedCell",
    "Undecided",
    "mend",
    "recognise",
    "released_notebook",
    "restored",
]

MAX_REPAIRS = 40
MAX_EFFORT = 100_000
"""Words and signs of code that are looked into; the longest notebook of a course and its answers has a tenth."""


class Undecided(Exception):
    """A submission that a person has to look at before it can be graded.

    Attributes:
        doubt: what has to be decided.
        mended: the submission as far as it is known.
    """

    def __init__(self, doubt: Message, mended: Mended) -> None:
        super().__init__(doubt.render())
        self.doubt, self.mended = doubt, mended


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
            JobCell(cell.number, cell.text, public_tests=cell.role is not None and cell.role.is_grade)
            for cell in self.notebook
            if cell.runs
        )


@each_parsed_once()
def recognise(notebook: Notebook, course: Course) -> str:
    """The assignment that a notebook answers, whatever the file is called.

    Raises:
        UnusableNotebook: it answers none of them.
    """
    found = _answered(notebook, {name for one in course.assignments.values() for name in one.exercises})
    scores = {
        name: sum(exercise in found for exercise in assignment.exercises)
        for name, assignment in course.assignments.items()
    }
    best = max(scores, key=lambda name: scores[name])
    if not scores[best]:
        left, advice = _damage(notebook)
        known = ", ".join(course.assignments)
        raise UnusableNotebook(
            f"{notebook.path} {left}holds no exercise of this course, whose assignments are {known}{advice}."
        )
    return best


def _damage(notebook: Notebook) -> tuple[str, str]:
    """How a sentence begins and ends about a notebook that has lost cells."""
    return ("is damaged: what is left of it ", "; ask for it again") if notebook.cut else ("", "")


@each_parsed_once()
def mend(notebook: Notebook, course: Course, assignment: str) -> Mended:
    """Mend a submission of an assignment.

    Raises:
        UnusableNotebook: it holds more code than can be run, or none of the exercises.
        Undecided: two answers contradict each other, and nobody but a person can say which of them counts; or it is
            too much to look into.
        CourseError: the course's own notebook can't be read.
    """
    released = released_notebook(course, assignment)
    code = [cell.source for cell in notebook.cells if cell.kind == "code"]
    if sum(len(json.dumps(source)) for source in code) > MAX_CODE:
        raise UnusableNotebook(f"{notebook.path} holds more than {MAX_CODE >> 20} MB of code.")
    exercises = course.assignment(assignment).exercises
    if (found := _effort(notebook, _names_in(exercises))) > MAX_EFFORT:
        said = N_(
            "the notebook holds {found} words and signs of code, and no more than {most} are looked into; grade it by "
            "hand, or ask for it without what is no answer"
        )
        raise Undecided(message(said, found=found, most=MAX_EFFORT), _as_it_came(notebook, released))
    if not _answered(notebook, exercises):
        left, advice = _damage(notebook)
        listed = ", ".join(exercises)
        raise UnusableNotebook(f"{notebook.path} {left}holds none of the exercises of {assignment}: {listed}{advice}.")
    restoration = Restoration(notebook, released, course.assignment(assignment))
    expect_whole(notebook, restoration.unanswered())
    mended = Mended(
        notebook=tuple(restoration.cells),
        exercises=tuple(
            _job_exercise(exercise, restoration.cells, released, course.forbidden_names(assignment, exercise.name))
            for exercise in exercises.values()
            if not exercise.manual
        ),
        repairs=_bounded(restoration.repairs),
    )
    if restoration.matching.doubts:
        raise Undecided(restoration.matching.doubts[0], mended)
    return mended


def _bounded(repairs: Sequence[Message]) -> tuple[Message, ...]:
    """No more repairs than somebody reads."""
    if len(repairs) <= MAX_REPAIRS:
        return tuple(repairs)
    return (*repairs[:MAX_REPAIRS], message(N_("and {count} more repairs"), count=len(repairs) - MAX_REPAIRS))


@each_parsed_once()
def restored(
    notebook: Notebook, released: Notebook, assignment: Assignment
) -> tuple[tuple[MendedCell, ...], tuple[Message, ...]]:
    """A notebook's cells with the course's own as they were released, and what had to be repaired for that."""
    if _effort(notebook, _names_in(assignment.exercises)) > MAX_EFFORT:
        as_it_came = _as_it_came(notebook, released)
        return as_it_came.notebook, as_it_came.repairs
    restoration = Restoration(notebook, released, assignment)
    return tuple(restoration.cells), _bounded(restoration.repairs)


def _answered(notebook: Notebook, exercises: Collection[str]) -> set[str]:
    """Those of these exercises that a notebook might answer: by its ids, and by the names that its cells define."""
    named = {name for cell in notebook.cells for name in (cell.grade_id, cell.id) if name}
    if _effort(notebook, exercises) > MAX_EFFORT:
        return named.intersection(exercises)
    for cell in with_code(notebook.cells, exercises):
        named.update(definitions(cell.source))
        if cell.kind == "code" and not is_python(cell.source):
            named.update(name for name in exercises if seems_to_define(name, cell.source))
    return named.intersection(exercises)


def _names_in(exercises: Mapping[str, Exercise]) -> set[str]:
    """What exercises are called, and their answers in code."""
    return {*exercises, *(exercise.answer for exercise in exercises.values())}


def _effort(notebook: Notebook, names: Collection[str]) -> int:
    """How much there is to look into for these names: the same on every machine, whatever it has seen before."""
    return sum(effort(cell.source) for cell in with_code(notebook.cells, names))


def _as_it_came(notebook: Notebook, released: Notebook) -> Mended:
    """The course's cells, each in its place in the gradebook, and behind them all that came in, none of it run."""
    course = [
        MendedCell(-1 - place, cell.kind, cell.source, cell, True, attachments=cell.attachments)
        for place, cell in enumerate(released.cells)
        if cell.grade_id
    ]
    own = [MendedCell(cell.index, cell.kind, cell.source, attachments=cell.attachments) for cell in notebook.cells]
    return Mended((*course, *own), (), notebook.repairs)


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


def _job_exercise(
    exercise: Exercise, cells: Sequence[MendedCell], released: Notebook, forbidden: tuple[str, ...]
) -> JobExercise:
    name, answer = exercise.name, exercise.answer
    run = [cell for cell in cells if cell.runs]
    graded = [place for place, cell in enumerate(run) if cell.plays(TEST_PREFIX + name)]
    defining = [place for place, cell in enumerate(run) if answer in definitions(cell.text)]
    after = max(graded + defining, default=len(run) - 1) + 1
    stubs = [definitions(cell.source).get(answer) for cell in released.cells if cell.grade_id == name]
    shapes = {stub.shape for stub in stubs if stub is not None} - {None}
    untouched = bool(defining) and all(definitions(run[place].text)[answer].shape in shapes for place in defining)
    if untouched and exercise.value:  # a dict may be filled in by statements behind the stub's own
        untouched = not any(_uses(cell.text, answer, shapes) for cell in run if not cell.as_released)
    return JobExercise(id=name, after=after, untouched=untouched, forbidden=forbidden, value=exercise.value)


def _uses(source: str, name: str, stubs: Collection[str | None]) -> bool:
    """Whether a cell speaks of a variable in another statement than the one that is the stub."""
    return any(
        isinstance(node, ast.Name) and node.id == name
        for statement in tree(source) or ()
        if not any(defined.shape in stubs for _, defined in defined_by(statement))
        for node in ast.walk(statement)
    )
