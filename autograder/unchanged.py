"""A class of which all stands as the last run left it, told without nbgrader: its import takes longer than the rest."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from autograder.class_result import Result, standing
from autograder.course import STATE_FOLDER, Course
from autograder.errors import CourseError
from autograder.fingerprints import configuration_of, frame_of, result_key, rules_of
from autograder.ledger import Ledger
from autograder.lock import alone
from autograder.nbgrader.rows import Execute, assignment_rows, reading, submitted_rows
from autograder.setting import Setting
from autograder.statefiles import RESULTS, use
from autograder.submissions import Submission, digest


def unchanged_class(
    course: Course, found: Mapping[str, Sequence[Submission]], seed: int, setting: Setting
) -> dict[str, list[Result]] | None:
    """The results of these submissions, by assignment, where a run would change no file and no row; else None.

    Args:
        course: the course.
        found: the submissions, by assignment.
        seed: of this run.
        setting: where the class is, as the last run found it.

    Raises:
        CourseError: another run is at work here.
    """
    if not setting.database or configuration_of(course, setting.modules) != setting.configuration:
        return None
    with alone(course, Path(setting.graded)):
        try:
            with reading(Path(setting.database)) as execute:
                told = {name: _unchanged(course, name, each, seed, setting, execute) for name, each in found.items()}
        except (CourseError, OSError, sqlite3.Error):  # the long way round tells of it
            return None
    known = {name: each for name, each in told.items() if each is not None}
    return known if len(known) == len(told) else None


def _unchanged(
    course: Course,
    assignment: str,
    submitted: Sequence[Submission],
    seed: int,
    setting: Setting,
    execute: Execute,
) -> list[Result] | None:
    graded = Path(setting.graded)
    frame = frame_of(course, assignment, setting.configuration)
    ledger = Ledger(course, assignment, graded, setting.database, frame)
    if not ledger.in_frame or ledger.assignment_rows != assignment_rows(execute, assignment):
        return None
    rules, rows = rules_of(course, assignment, seed), submitted_rows(execute, assignment)
    results, keys = [], []
    for submission in submitted:
        student, found = submission.student, digest(submission.path)
        entry = ledger.entry(student)
        place = graded / student / assignment
        if entry is None or ledger.before(student) is not None:  # of that, people were not told
            return None
        if not ledger.stands(submission, found, rules, rows.get(student), place):
            return None
        results.append(standing(student, entry, submission.path))
        keys.append(result_key(course, found, assignment, rules.all, seed))
    use(course.root / STATE_FOLDER / RESULTS / key for key in keys if key)
    return results
