"""Where a class's graded notebooks, marks and pages are; known without nbgrader once a run has asked it."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from autograder.course import COURSE_FILE, STATE_FOLDER, Course
from autograder.feedback.marks import Marks, class_marks
from autograder.feedback.pages import Asked, asked
from autograder.fingerprints import configuration_of, hash_of
from autograder.nbgrader.rows import reading
from autograder.statefiles import LEDGERS, read_state, use, write_state

if TYPE_CHECKING:
    from autograder.nbgrader.files import ClassFiles


class Place(msgspec.Struct, frozen=True):
    """Where a class is, as nbgrader's configuration and ``course.yml`` set it.

    Attributes:
        rules: a hash of what sets it, and `modules` the configuration's own.
        database: the gradebook's file; empty where it is no SQLite.
    """

    rules: str
    modules: tuple[str, ...]
    graded: str
    feedback: str
    database: str


def known_place(course: Course, into: Path | None) -> Place | None:
    """Where the class was found by the last run with the same ``--into``; None where that may not hold, or is no file.

    Args:
        course: the course.
        into: the folder that was named.
    """
    kept = _file(course, into)
    use([kept])
    place = read_state(kept, Place)
    if place is None or place.rules != _rules(course, configuration_of(course, place.modules)):
        return None
    return place if place.database and Path(place.database).is_file() else None


def place_of(course: Course, into: Path | None, files: ClassFiles, gradebook: Path) -> Place:
    """Where nbgrader finds the class, which is kept for the next run.

    Args:
        course: the course.
        into: the folder that was named.
        files: the class's files.
        gradebook: its file; anything else where it is none.
    """
    setting = files.setting(gradebook)
    rules = _rules(course, setting.configuration)
    place = Place(rules, setting.modules, setting.graded, str(files.feedback), setting.database)
    with suppress(UnicodeError):  # a folder's name that is no text
        write_state(_file(course, into), msgspec.msgpack.encode(place))
    return place


def asked_in(place: Place, course: Course, assignments: Sequence[str], students: Collection[str]) -> list[Asked]:
    """The pages of assignments with the marks in an SQLite gradebook.

    Raises:
        sqlite3.Error: it can't be read.
    """
    found = []
    with reading(Path(place.database)) as execute:
        for assignment in assignments:
            known = class_marks(execute, assignment)

            def marks(student: str, _: str, notebook: str, known: dict[tuple[str, str], Marks] = known) -> Marks:
                return known.get((student, notebook)) or Marks({}, name=student)

            found += asked(course, assignment, Path(place.graded), Path(place.feedback), marks, students)
    return found


def _file(course: Course, into: Path | None) -> Path:
    named = os.fsencode(into.resolve()) if into is not None else b""
    return course.root / STATE_FOLDER / LEDGERS / f"{hash_of([os.fsencode(Path.cwd()), named])}-pages"


def _rules(course: Course, configuration: str) -> str:
    return hash_of([configuration.encode(), (course.root / COURSE_FILE).read_bytes()])
