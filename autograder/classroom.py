"""Grading a class: examine in parallel, record in order, and tell what came of each submission."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import nbformat

from autograder.autograded import autograded, report_of, submission_of
from autograder.course import Course, suite_hash
from autograder.errors import AutograderError, UnusableNotebook
from autograder.grading import Graded, Grader
from autograder.mend import recognise
from autograder.messages import N_, Message, message, translations
from autograder.nbgrader.files import ClassFiles, read_graded
from autograder.nbgrader.gradebook import ClassGradebook
from autograder.notebook import TEST_PREFIX, read_notebook
from autograder.report import GradeReport
from autograder.submissions import Submission, digest, visible

MAX_NAMES = 3
"""How many files of a folder without a notebook are told."""


@dataclass(frozen=True)
class Result:
    """What came of one submission.

    Attributes:
        report: of this run, or, of an unchanged submission, of the run that graded it.
        seconds: of examining it; 0 where that was not needed.
        unchanged: it was graded before, by the same suites with the same seed.
        kept: the grader failed, and what an earlier run recorded for the same file stays.
        waiting: the exercises that wait for a human, by what the gradebook says.
        adjusted: marks by hand or a late penalty make the score another than the checks gave.
        remarks: what else an instructor should know of the files.
        left_out: the notebooks beside it that nobody looked at.
    """

    student: str
    report: GradeReport
    seconds: float = 0.0
    unchanged: bool = False
    kept: bool = False
    waiting: tuple[str, ...] = ()
    adjusted: bool = False
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def doubts_of(files: ClassFiles, assignments: Sequence[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """What an instructor should read of each submission, by assignment and student, from the graded notebooks."""
    found = {}
    for assignment in assignments:
        for student, path in files.notebooks(assignment):
            report = report_of(read_graded(path) or {}) if path.stem == assignment else None
            if report is not None and report.doubts:
                found[assignment, student] = tuple(doubt.render() for doubt in report.doubts)
    return found


class ClassRun:
    """One run over the submissions to an assignment.

    Args:
        course: the course.
        gradebook: where to record.
        files: where to write.
        assignment: which one.
        submitted: the submissions.
        seed: of the suites' random draws.
        again: examine unchanged submissions too.

    Raises:
        CourseError: the assignment can't be put into the gradebook.
    """

    def __init__(
        self,
        course: Course,
        gradebook: ClassGradebook,
        files: ClassFiles,
        assignment: str,
        submitted: Sequence[Submission],
        seed: int,
        again: bool = False,
    ) -> None:
        self._course, self._gradebook, self._files, self._assignment = course, gradebook, files, assignment
        self._seed, self._suites = seed, suite_hash(course, assignment)
        self._translations = translations(course.language)
        gradebook.prepare(assignment)
        self._submitted = [(submission, digest(submission.path)) for submission in submitted]
        self._unchanged = {
            submission.student
            for submission, file_hash in self._submitted
            if not again and self._is_current(self._graded_before(submission, file_hash))
        }
        self.new = [one.path for one in submitted if one.student not in self._unchanged]
        """What has to be examined."""

    def results(self, grader: Grader | None) -> Iterator[Result]:
        """Grade and record, in the order of the submissions.

        Each is recorded as soon as it and those before it are done, so that a run which is stopped loses nothing that
        it told.

        Args:
            grader: a warm one; None where nothing is `new`.
        """
        examined = grader.grade_many(self.new, self._assignment, self._seed) if grader else iter(())
        for submission, file_hash in self._submitted:
            graded = None if submission.student in self._unchanged else next(examined)
            try:
                yield self._record(submission, file_hash, graded)
            except AutograderError:
                raise  # the gradebook or the course can't be used: for nobody
            except Exception as fault:  # noqa: BLE001 - what one student's files bring about is not the others' fault
                yield self._stumbled(submission, graded, fault)

    def _record(self, submission: Submission, file_hash: str, graded: Graded | None) -> Result:
        before = self._graded_before(submission, file_hash)
        if graded is None:
            # The rows again: the gradebook may be another, and the due date or the time of handing in too.
            report = report_of(before or {})
            assert before is not None and report is not None
            self._save(submission, before, is_graded=True)
            report = msgspec.structs.replace(report, notebook=str(submission.path))
            return self._result(submission, report, unchanged=True)
        if graded.report.status == "unusable" and (why := self._why_unusable(submission.path)):
            graded = replace(graded, report=msgspec.structs.replace(graded.report, error=why))
        report = graded.report
        seconds = graded.examined.seconds.get("total", 0.0) if graded.examined else 0.0
        if report.status == "ungraded" and before and self._gradebook.knows(submission.student, self._assignment):
            return self._result(submission, report, seconds=seconds, kept=True)
        notebook = autograded(graded, self._course, self._assignment, file_hash, self._translations)
        self._save(submission, notebook, is_graded=graded.mended is not None)
        return self._result(submission, report, seconds=seconds)

    def _save(self, submission: Submission, notebook: nbformat.NotebookNode, is_graded: bool) -> None:
        student, folder = submission.student, submission.path.parent
        others = self._gradebook.second_notebooks(self._assignment, folder)
        everything = {**others, self._assignment: notebook}
        self._files.write(student, self._assignment, folder, everything)
        self._gradebook.record(student, self._assignment, folder, everything if is_graded else others)

    def _stumbled(self, submission: Submission, graded: Graded | None, fault: Exception) -> Result:
        """A submission whose files can't be handled: no score, and a human looks."""
        before = graded.report if graded else report_of(read_graded(self._place(submission)) or {})
        assert before is not None
        said = message(N_("its files can't be handled ({fault})"), fault=f"{type(fault).__name__}: {fault}")
        report = msgspec.structs.replace(before, status="ungraded", score=None, error=said)
        self._gradebook.record(submission.student, self._assignment, submission.path.parent, {})
        return self._result(submission, report)

    def _result(
        self,
        submission: Submission,
        report: GradeReport,
        *,
        seconds: float = 0.0,
        unchanged: bool = False,
        kept: bool = False,
    ) -> Result:
        waiting = self._gradebook.waiting(submission.student, self._assignment)
        names = tuple(name.removeprefix(TEST_PREFIX) for name in waiting)
        adjusted = self._gradebook.adjusted(submission.student, self._assignment)
        remarks, left_out = self._remarks(submission), self._left_out(submission.path)
        return Result(submission.student, report, seconds, unchanged, kept, names, adjusted, remarks, left_out)

    def _why_unusable(self, path: Path) -> Message | None:
        """What a teacher sees in the folder, where it is more than the sentence about the file."""
        if path.is_symlink() or path.exists():
            try:
                whose = recognise(read_notebook(path, follow=False), self._course)
            except UnusableNotebook:
                return None
            if whose == self._assignment:
                return None
            name = path.name.encode(errors="replace").decode()
            said = N_("{name} is a notebook of {whose}, not of {assignment}")
            return message(said, name=name, whose=whose, assignment=self._assignment)
        names = [name.encode(errors="replace").decode() for name in visible(path.parent)]
        if not names:
            return message(N_("the folder is empty"))
        several = any(name.endswith(".ipynb") for name in names)
        more = [f"{len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
        told = ", ".join(names[:MAX_NAMES] + more)
        if several:
            return message(N_("the folder holds {names} and no {notebook}"), names=told, notebook=path.name)
        return message(N_("the folder holds {names} and no notebook"), names=told)

    def _remarks(self, submission: Submission) -> tuple[str, ...]:
        said = []
        if submission.path.name != f"{self._assignment}.ipynb":
            said.append(f"graded {submission.path.name}, for there is no {self._assignment}.ipynb")
        if self._gradebook.has_odd_timestamp(submission.path.parent):
            said.append("timestamp.txt tells no time, so it is not known whether this is late")
        return tuple(said)

    def _left_out(self, path: Path) -> tuple[str, ...]:
        """The notebooks beside a submission that the course knows nothing of."""
        if path.name not in (names := visible(path.parent)):
            return ()  # the sentence about the missing one tells of them
        known = {one.name for one in self._course.source_notebook(self._assignment).parent.glob("*.ipynb")}
        known -= {f"{self._assignment}.ipynb"}
        return tuple(name for name in names if name.endswith(".ipynb") and name != path.name and name not in known)

    def _graded_before(self, submission: Submission, file_hash: str) -> nbformat.NotebookNode | None:
        """The graded notebook of an earlier run for the same file, by whatever suites."""
        notebook = read_graded(self._place(submission))
        report = report_of(notebook or {})
        if notebook is None or report is None or report.status != "graded" or submission_of(notebook) != file_hash:
            return None
        return notebook

    def _is_current(self, notebook: nbformat.NotebookNode | None) -> bool:
        """Whether this run's suites and seed have graded it."""
        report = report_of(notebook or {})
        return report is not None and (report.suite_hash, report.seed) == (self._suites, self._seed)

    def _place(self, submission: Submission) -> Path:
        return self._files.notebook(submission.student, self._assignment)
