"""Grading a class: examine in parallel, record in order, and tell what came of each submission."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import nbformat

from autograder.autograded import autograded, report_of, submission_of
from autograder.course import Course, suite_hash
from autograder.grading import Graded, Grader
from autograder.messages import translations
from autograder.nbgrader.gradebook import ClassGradebook
from autograder.report import GradeReport
from autograder.submissions import Submission, digest


@dataclass(frozen=True)
class Result:
    """What came of one submission.

    Attributes:
        report: of this run, or, of an unchanged submission, of the run that graded it.
        seconds: of examining it; 0 where that was not needed.
        unchanged: it was graded before, by the same suites with the same seed.
        kept: it could not be graded now, and what an earlier run recorded stays.
        page: the graded notebook.
    """

    student: str
    report: GradeReport
    seconds: float
    unchanged: bool
    kept: bool
    page: Path

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The exercises that a human grades."""
        return tuple(exercise.id for exercise in self.report.exercises if exercise.manual)


def grade_class(
    grader: Callable[[], Grader],
    gradebook: ClassGradebook,
    course: Course,
    assignment: str,
    submitted: Sequence[Submission],
    seed: int,
    again: bool = False,
) -> Iterator[Result]:
    """Grade and record the submissions to one assignment, in their order.

    Each is recorded as soon as it and those before it are done, so an interrupted run loses nothing that it told.

    Args:
        grader: gives a warm grader, once there is something to examine.
        gradebook: where to record.
        course: the course.
        assignment: which one.
        submitted: the submissions.
        seed: of the suites' random draws.
        again: examine unchanged submissions too.

    Raises:
        CourseError: the assignment can't be put into the gradebook.
    """
    gradebook.prepare(assignment)
    current = suite_hash(course, assignment)
    shown = translations(course.language)
    hashes = [digest(submission.path) for submission in submitted]
    before = [
        None if again else _graded_before(gradebook, submission, assignment, file_hash, current, seed)
        for submission, file_hash in zip(submitted, hashes, strict=True)
    ]
    new = [submission.path for submission, notebook in zip(submitted, before, strict=True) if notebook is None]
    examined = grader().grade_many(new, assignment, seed) if new else iter(())
    for submission, file_hash, earlier in zip(submitted, hashes, before, strict=True):
        if earlier is not None:
            yield _record_again(gradebook, submission, assignment, earlier)
        else:
            graded = next(examined)
            notebook = autograded(graded, course, assignment, file_hash, shown)
            yield _record(gradebook, submission, assignment, graded, notebook)


def _record(
    gradebook: ClassGradebook,
    submission: Submission,
    assignment: str,
    graded: Graded,
    notebook: nbformat.NotebookNode,
) -> Result:
    """Record what was examined; where that failed, what an earlier run recorded stays."""
    student, folder = submission.student, submission.path.parent
    page = gradebook.graded_folder(student, assignment) / f"{assignment}.ipynb"
    kept = graded.report.status != "graded" and page.is_file() and gradebook.knows(student, assignment)
    if not kept:
        gradebook.record(student, assignment, folder, None if graded.mended is None else notebook)
        gradebook.write(student, assignment, folder, notebook)
    seconds = graded.examined.seconds.get("total", 0.0) if graded.examined else 0.0
    return Result(student, graded.report, seconds, unchanged=False, kept=kept, page=page)


def _record_again(
    gradebook: ClassGradebook, submission: Submission, assignment: str, notebook: nbformat.NotebookNode
) -> Result:
    """Bring the rows up to an unchanged submission: the gradebook may be another, and the due date or time too."""
    student, folder = submission.student, submission.path.parent
    gradebook.record(student, assignment, folder, notebook)
    page = gradebook.write(student, assignment, folder, notebook)
    report = report_of(notebook)
    assert report is not None
    report = msgspec.structs.replace(report, notebook=str(submission.path))
    return Result(student, report, 0.0, unchanged=True, kept=False, page=page)


def _graded_before(
    gradebook: ClassGradebook, submission: Submission, assignment: str, file_hash: str, suites: str, seed: int
) -> nbformat.NotebookNode | None:
    """The graded notebook of an earlier run, if all that decides its score is as it was."""
    path = gradebook.graded_folder(submission.student, assignment) / f"{assignment}.ipynb"
    try:
        notebook: nbformat.NotebookNode = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except (OSError, ValueError):
        return None
    report = report_of(notebook)
    if report is None or report.status != "graded" or submission_of(notebook) != file_hash:
        return None
    return notebook if (report.suite_hash, report.seed) == (suites, seed) else None
