"""Grading a class: examine in parallel, record in order, and tell what came of each submission."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import nbformat

from autograder.autograded import autograded, report_of, submission_of
from autograder.course import Course
from autograder.errors import AutograderError, CourseError, UnusableNotebook
from autograder.folders import Snapshot, snapshot
from autograder.grading import Graded
from autograder.kept import result_key
from autograder.ledger import Ledger, entry_of, frame_of, rules_of
from autograder.mend import recognise
from autograder.messages import N_, Message, message, translations
from autograder.nbgrader.files import ClassFiles, read_graded
from autograder.nbgrader.gradebook import ClassGradebook
from autograder.notebook import TEST_PREFIX, read_notebook
from autograder.report import GradeReport, without_score
from autograder.results import Result, change_of, standing
from autograder.store import ResultStore
from autograder.submissions import Submission, checkpoints_in, digest, notebooks_in, visible

MAX_NAMES = 3
"""How many files of a folder without a notebook are told."""


class _Asked(NamedTuple):
    """A submission of this run.

    Attributes:
        digest: SHA-256 (hex) of its notebook, and `key` of its result in the store.
        stands: the files and the rows are as this run would leave them.
        stored: its result is in the store.
    """

    submission: Submission
    digest: str
    key: str
    stands: bool
    stored: bool

    @property
    def student(self) -> str:
        """Whose it is."""
        return self.submission.student


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
        fresh: examine what was graded before, too.

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
        fresh: bool = False,
    ) -> None:
        self._course, self._gradebook, self._files, self._assignment = course, gradebook, files, assignment
        self._seed, self._fresh = seed, fresh
        self._translations = translations(course.language)
        self._rules, self._store = rules_of(course, assignment, seed), ResultStore(course)
        gradebook.prepare(assignment)
        frame = frame_of(course, assignment, files.fingerprint)
        self._ledger = Ledger(course, assignment, files.graded, str(gradebook.path), frame)
        self._found = gradebook.rows(assignment)
        self._submitted = [self._asked(submission) for submission in submitted]
        self.new = [(one.submission.path, assignment) for one in self._submitted if not one.stands and not one.stored]
        """What has to be examined."""

    def _asked(self, submission: Submission) -> _Asked:
        with suppress(OSError):  # writing there will tell
            self._files.put_back(submission.student, self._assignment)
        found, rows = digest(submission.path), self._found.get(submission.student)
        place = self._place(submission).parent
        key = result_key(self._course, found, self._assignment, self._rules.all, self._seed)
        stands = not self._fresh and self._ledger.stands(submission, found, self._rules, rows, place)
        stored = not self._fresh and not stands and self._store.get(key, submission.path) is not None
        return _Asked(submission, found, key, stands, stored)

    def results(self, examined: Iterator[Graded]) -> Iterator[Result]:
        """Grade and record, in the order of the submissions.

        Each is recorded as soon as it and those before it are done, so that a run which is stopped loses nothing that
        it told.

        Args:
            examined: what came of `new`, in that order; more may follow, which is left alone.
        """
        try:
            for asked in self._submitted:
                graded = None if asked.stands or asked.stored else next(examined)
                try:
                    yield self._recorded(asked, graded)
                except AutograderError:
                    raise  # the gradebook or the course can't be used: for nobody
                except Exception as fault:  # noqa: BLE001 - what one student's files bring about is not the others' fault
                    yield self._stumbled(asked, graded, fault)
        finally:
            with suppress(CourseError):
                self._ledger.save(self._gradebook.assignment_rows(self._assignment))
            self._store.tidy()

    def _recorded(self, asked: _Asked, graded: Graded | None) -> Result:
        submission, entry = asked.submission, self._ledger.entry(asked.student)
        if asked.stands:
            assert entry is not None
            self._store.use(asked.key)
            return standing(submission.student, entry, submission.path)
        if graded is None:
            stored = self._store.get(asked.key, submission.path)
            assert stored is not None, "a result has just vanished from the store"
            return self._save(asked, stored, stored=True)
        if graded.report.status == "unusable" and (why := self._why_unusable(submission)):
            graded = replace(graded, report=msgspec.structs.replace(graded.report, error=why))
        if graded.report.status == "ungraded" and not graded.undecided and self._keeps(asked):
            return self._result(submission, graded.report, seconds=_seconds(graded), kept=True)
        if digest(submission.path) == asked.digest:  # else it is not known what was examined
            graded = self._store.put(asked.key, graded)
        else:
            asked = asked._replace(digest="")
        return self._save(asked, graded)

    def _keeps(self, asked: _Asked) -> bool:
        """Whether an earlier run has recorded a result for the same file, which a fault of ours leaves as it is."""
        if not asked.digest or not self._gradebook.knows(asked.student, self._assignment):
            return False
        entry = self._ledger.entry(asked.student)
        if entry is not None:
            return (entry.submission, entry.report.status) == (asked.digest, "graded")
        return self._graded_before(asked.submission, asked.digest) is not None

    def _save(self, asked: _Asked, graded: Graded, stored: bool = False) -> Result:
        """Write the graded notebook and the rows, where they are not as they would be written."""
        submission, student, folder = asked.submission, asked.student, asked.submission.folder
        then, place = self._ledger.entry(student), self._place(submission).parent
        handed_in = snapshot(folder)
        notebook = autograded(graded, self._course, self._assignment, asked.digest, self._translations)
        others = self._gradebook.second_notebooks(self._assignment, folder)
        everything = {**others, self._assignment: notebook}
        is_graded = graded.mended is not None
        report = msgspec.structs.replace(graded.report, notebook="")
        # The last run may have recorded a fault of ours for this file, whose result an earlier one has kept.
        is_same = then is not None and (then.submission, then.rules, then.report) == (asked.digest, self._rules, report)
        if not (stored and is_same and self._ledger.files_stand(submission, place)):
            self._files.write(student, self._assignment, folder, everything)
        self._gradebook.record(student, self._assignment, folder, everything if is_graded else others)
        unchanged = stored and is_same
        result = self._result(submission, graded.report, seconds=_seconds(graded), stored=stored, unchanged=unchanged)
        examined = "" if stored else "fresh" if self._fresh else "again"
        return self._entered(asked, result, handed_in, examined)

    def _entered(self, asked: _Asked, result: Result, handed_in: Snapshot | None, examined: str) -> Result:
        """Note what is recorded, and tell how it has changed the score."""
        student, place = asked.student, self._place(asked.submission).parent
        then, rows = self._ledger.entry(student), self._gradebook.rows(self._assignment, student)[student]
        # Where it is not known what was handed in, nothing that is left will stand.
        graded = None if handed_in is None else snapshot(place)
        now = entry_of(result, asked.digest, asked.submission, self._rules, handed_in, graded, rows)
        self._ledger.enter(student, now)
        return replace(result, change=change_of(then, self._found.get(student), now, examined))

    def _stumbled(self, asked: _Asked, graded: Graded | None, fault: Exception) -> Result:
        """A submission whose files can't be handled: what it earned before stays, or a human looks."""
        submission = asked.submission
        said = message(N_("its files can't be handled ({fault})"), fault=f"{type(fault).__name__}: {fault}")
        before = graded or self._store.get(asked.key, submission.path)
        if before is not None:
            report = msgspec.structs.replace(before.report, status="ungraded", score=None, error=said)
        else:
            rules = self._rules
            report = without_score(
                submission.path, self._assignment, "ungraded", said, max_score=0, seed=rules.seed, suite_hash=rules.all
            )
        self._gradebook.undo()
        if self._keeps(asked):
            return self._result(submission, report, kept=True)
        self._gradebook.record(submission.student, self._assignment, submission.folder, {})
        return self._entered(asked, self._result(submission, report), None, "")

    def _result(
        self,
        submission: Submission,
        report: GradeReport,
        *,
        seconds: float = 0.0,
        stored: bool = False,
        unchanged: bool = False,
        kept: bool = False,
    ) -> Result:
        waiting = self._gradebook.waiting(submission.student, self._assignment)
        names = tuple(name.removeprefix(TEST_PREFIX) for name in waiting)
        adjusted = self._gradebook.adjusted(submission.student, self._assignment)
        remarks, left_out = self._remarks(submission), self._left_out(submission)
        return Result(
            submission.student,
            report,
            seconds=seconds,
            stored=stored,
            unchanged=unchanged,
            kept=kept,
            waiting=names,
            adjusted=adjusted,
            remarks=remarks,
            left_out=left_out,
        )

    def _why_unusable(self, submission: Submission) -> Message | None:
        """What a teacher sees in the folder, where it is more than the sentence about the file."""
        path = submission.path
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
        several = [one.relative_to(submission.folder).as_posix() for one in notebooks_in(submission.folder)]
        if several:
            said = N_("the folder holds {names} and no {notebook}")
            return message(said, names=_listed(several), notebook=path.name)
        if copies := checkpoints_in(submission.folder):
            said = N_(
                "the folder holds no notebook, but a copy that Jupyter made earlier: {names} in .ipynb_checkpoints"
            )
            return message(said, names=_listed(copies))
        if not (names := visible(submission.folder)):
            return message(N_("the folder is empty"))
        return message(N_("the folder holds {names} and no notebook"), names=_listed(names))

    def _remarks(self, submission: Submission) -> tuple[str, ...]:
        said = []
        if submission.name != f"{self._assignment}.ipynb" and submission.path.exists():
            name = submission.name.encode(errors="replace").decode()
            said.append(f"took {name}, for there is no {self._assignment}.ipynb")
        if self._gradebook.has_odd_timestamp(submission.folder):
            said.append("timestamp.txt tells no time, so it is not known whether this is late")
        return tuple(said)

    def _left_out(self, submission: Submission) -> tuple[str, ...]:
        """The notebooks beside a submission that the course knows nothing of."""
        found = notebooks_in(submission.folder)
        if submission.path not in found:
            return ()  # the sentence about the missing one tells of them
        known = {one.name for one in self._course.source_notebook(self._assignment).parent.glob("*.ipynb")}
        known -= {f"{self._assignment}.ipynb"}
        others = [path for path in found if path != submission.path and path.name not in known]
        return tuple(path.relative_to(submission.folder).as_posix() for path in others)

    def _graded_before(self, submission: Submission, file_hash: str) -> nbformat.NotebookNode | None:
        """The graded notebook of an earlier run for the same file, by whatever suites."""
        notebook = read_graded(self._place(submission))
        report = report_of(notebook or {})
        if notebook is None or report is None or report.status != "graded" or submission_of(notebook) != file_hash:
            return None
        return notebook

    def _place(self, submission: Submission) -> Path:
        return self._files.notebook(submission.student, self._assignment)


def _seconds(graded: Graded) -> float:
    return graded.examined.seconds.get("total", 0.0) if graded.examined else 0.0


def _listed(names: Sequence[str]) -> str:
    """The first few of a folder's names, as text whatever they are."""
    more = [f"{len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
    return ", ".join([name.encode(errors="replace").decode() for name in names[:MAX_NAMES]] + more)
