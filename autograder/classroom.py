"""Grading a class: examine in parallel, record in order, and tell what came of each submission."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from autograder.autograded import autograded, report_of, submission_of
from autograder.changes import change_of
from autograder.class_result import Result, standing
from autograder.course import Course
from autograder.errors import AutograderError, CourseError
from autograder.feedback.kept import KEY
from autograder.fingerprints import frame_of, result_key, rules_of
from autograder.folders import Snapshot, as_text, is_as, snapshot
from autograder.grading import Graded
from autograder.ledger import Ledger, entry_of
from autograder.messages import N_, message, translations
from autograder.nbgrader.files import ClassFiles, read_graded
from autograder.nbgrader.gradebook import ClassGradebook
from autograder.nbgrader.recording import SubmissionRow
from autograder.notebook import TEST_PREFIX
from autograder.remarks import left_out, remarks_on, why_unusable
from autograder.report import without_score
from autograder.settled import answers_in
from autograder.sharing import Sharing
from autograder.store import ResultStore, provisional, second
from autograder.submissions import Submission, digest

MACHINE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE})
"""What keeps a file from being written whosever it is."""

Examine = Callable[[Path, str], Graded]


class _Asked(NamedTuple):
    """A submission of this run.

    Attributes:
        digest: SHA-256 (hex) of its notebook, and `key` of its result in the store.
        stands: the files and the rows are as this run would leave them.
        stored: its result is in the store.
        provisional: that is a result which may be another.
        again: it is examined for that reason alone.
    """

    submission: Submission
    digest: str
    key: str
    stands: bool
    stored: bool
    provisional: bool
    again: bool = False

    @property
    def student(self) -> str:
        """Whose it is."""
        return self.submission.student

    @property
    def is_new(self) -> bool:
        """Whether it has to be examined."""
        return not self.stands and not self.stored


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
        self._translations, self._sharing = translations(course.language), Sharing()
        self._rules, self._store = rules_of(course, assignment, seed), ResultStore(course)
        gradebook.prepare(assignment)
        frame = frame_of(course, assignment, files.fingerprint)
        self._ledger = Ledger(course, assignment, files.graded, gradebook.address, frame)
        self._found = gradebook.rows(assignment)
        self._submitted = [self._asked(submission) for submission in submitted]
        if any(one.is_new for one in self._submitted):  # the examiner has to start anyway
            self._submitted = [self._once_more(one) if one.provisional else one for one in self._submitted]
        self.new = [(one.submission.path, assignment) for one in self._submitted if one.is_new]
        """What has to be examined."""

    def _asked(self, submission: Submission) -> _Asked:
        with suppress(OSError, RecursionError):  # writing there will tell
            self._files.put_back(submission.student, self._assignment)
        found, rows = digest(submission.path), self._found.get(submission.student)
        place = self._place(submission).parent
        key = result_key(self._course, found, self._assignment, self._rules.all, self._seed)
        if self._fresh:
            return _Asked(submission, found, key, stands=False, stored=False, provisional=False)
        entry = self._ledger.entry(submission.student)
        if entry is not None and self._ledger.stands(submission, found, self._rules, rows, place):
            return _Asked(submission, found, key, stands=True, stored=False, provisional=entry.provisional)
        stored = self._known(submission, found, key)
        is_provisional = stored is not None and provisional(stored)
        return _Asked(submission, found, key, stands=False, stored=stored is not None, provisional=is_provisional)

    def _known(self, submission: Submission, found: str, key: str) -> Graded | None:
        """What an earlier run has made of the same file, where that is known: from the store, or why it is unusable."""
        if (stored := self._store.get(key, submission.path)) is not None:
            return stored
        entry = self._ledger.entry(submission.student)
        if (
            entry is not None
            and entry.report.status == "unusable"
            and (entry.submission, entry.rules, entry.name) == (found, self._rules, as_text(submission.name))
            and is_as(submission.folder, entry.handed_in, read=True)
        ):
            return Graded(msgspec.structs.replace(entry.report, notebook=str(submission.path)))
        return None

    @staticmethod
    def _once_more(asked: _Asked) -> _Asked:
        return asked._replace(stands=False, stored=False, again=True)

    def results(self, examined: Iterator[Graded], examine: Examine | None = None) -> Iterator[Result]:
        """Grade and record, in the order of the submissions.

        Each is recorded as soon as it and those before it are done, so that a run which is stopped loses nothing that
        it told. Say so with `told` in the end.

        Args:
            examined: what came of `new`, in that order; more may follow, which is left alone.
            examine: examines one notebook of an assignment more, where its result has vanished from the store.

        Raises:
            CourseError: nothing can be recorded, for whomever.
        """
        try:
            for asked in self._submitted:
                graded = next(examined) if asked.is_new else None
                try:
                    yield self._recorded(asked, graded, examine)
                except AutograderError:
                    raise  # the gradebook or the course can't be used: for nobody
                except Exception as fault:  # noqa: BLE001 - what one student's files bring about is not the others' fault
                    if isinstance(fault, OSError) and fault.errno in MACHINE:
                        raise self._cannot_write(fault) from None
                    yield self._stumbled(asked, graded, fault)
        finally:
            self._store.tidy()

    def told(self) -> None:
        """Note that people were told of all results, so that no later run tells them again."""
        with suppress(CourseError):
            rows = self._gradebook.assignment_rows(self._assignment)
            self._ledger.told([asked.student for asked in self._submitted], rows)

    def _cannot_write(self, fault: OSError) -> CourseError:
        with suppress(CourseError):
            self._gradebook.undo()
        return CourseError(
            f"graded notebooks can't be written to {self._files.graded} ({fault.strerror}): look at its disk, and run "
            "this again; what was recorded stays."
        )

    def _recorded(self, asked: _Asked, graded: Graded | None, examine: Examine | None) -> Result:
        submission = asked.submission
        if asked.stands:
            return self._standing(asked)
        stored = self._known(submission, asked.digest, asked.key) if asked.again or graded is None else None
        if graded is None and stored is None:  # somebody has emptied the store, or an entry of it was damaged
            if examine is None:
                raise LookupError("its result has just vanished from the store")
            graded = examine(submission.path, self._assignment)
        if graded is None or (stored is not None and graded.report.status != "graded"):
            assert stored is not None
            return self._save(asked, stored, stored=True)
        if graded.report.status == "unusable" and (why := why_unusable(submission, self._course, self._assignment)):
            graded = replace(graded, report=msgspec.structs.replace(graded.report, error=why))
        if graded.report.status == "ungraded" and not graded.undecided and self._retains(asked):
            return self._retained(asked, graded)
        if digest(submission.path) != asked.digest:  # it is not known what was examined
            return self._save(asked._replace(digest=""), graded)
        if not asked.again or stored is None:
            return self._save(asked, self._store.put(asked.key, graded))
        return replace(self._save(asked, self._store.put(asked.key, second(stored, graded))), again=True)

    def _standing(self, asked: _Asked) -> Result:
        entry, before = self._ledger.entry(asked.student), self._ledger.before(asked.student)
        assert entry is not None
        self._store.use(asked.key)
        result = standing(asked.student, entry, asked.submission.path)
        # A run that was killed has left it, and could not tell of it.
        return result if before is None else replace(result, change=change_of(before, entry))

    def _retains(self, asked: _Asked) -> bool:
        """Whether an earlier run has recorded a result for the same file, which a fault of ours leaves as it is."""
        if not asked.digest or not self._gradebook.knows(asked.student, self._assignment):
            return False
        entry = self._ledger.entry(asked.student)
        if entry is not None:
            return (entry.submission, entry.report.status) == (asked.digest, "graded")
        notebook = read_graded(self._place(asked.submission))  # of whatever suites
        report = report_of(notebook or {})
        return (
            notebook is not None
            and report is not None
            and report.status == "graded"
            and submission_of(notebook) == asked.digest
        )

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
        self._begin(asked, "other" if stored else "fresh" if self._fresh else "clock" if asked.again else "again")
        if not (stored and is_same and self._ledger.files_stand(submission, place)):
            self._files.write(student, self._assignment, folder, everything)
        answers = answers_in(everything, TEST_PREFIX, KEY, "" if is_graded else asked.digest)
        same = None if then is None else {name for name in answers if then.answers.get(name) == answers[name]}
        recorded = everything if is_graded else others
        row, reopened = self._gradebook.record(student, self._assignment, folder, recorded, same)
        result = self._result(submission, graded, row, stored=stored, unchanged=stored and is_same)
        known = {**(then.reopened if then else {}), **reopened}
        result = replace(result, reopened={name: why for name, why in known.items() if name in result.waiting})
        return self._entered(asked, result, handed_in, answers)

    def _begin(self, asked: _Asked, examined: str) -> None:
        """Note that this is about to be written; `examined` is why it was, unless that had failed before."""
        then = self._ledger.entry(asked.student)
        if then is not None and then.report.status != "graded":
            examined = "failed"
        self._ledger.begin(asked.student, self._found.get(asked.student), examined)

    def _entered(self, asked: _Asked, result: Result, handed_in: Snapshot | None, answers: dict[str, str]) -> Result:
        """Note what is recorded, and tell how it has changed the score."""
        student, place = asked.student, self._place(asked.submission).parent
        rows, before = self._gradebook.rows(self._assignment, student)[student], self._ledger.before(student)
        # Where it is not known what was handed in, nothing that is left will stand.
        folders = (handed_in, None if handed_in is None else snapshot(place))
        now = entry_of(result, asked.digest, asked.submission, self._rules, folders, rows, answers)
        self._ledger.enter(student, now)
        assert before is not None
        return replace(result, change=change_of(before, now))

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
        if self._retains(asked):
            return self._retained(asked, Graded(report))
        then = self._ledger.entry(asked.student)
        self._begin(asked, "")
        # The answers are what they were, as far as anybody knows: marks by hand stay settled, and wait for no reason.
        answers = then.answers if then is not None else {}
        same = None if then is None else set(answers)
        row, reopened = self._gradebook.record(submission.student, self._assignment, submission.folder, {}, same)
        result = replace(self._result(submission, Graded(report), row), reopened=reopened)
        return self._entered(asked, result, None, answers)

    def _retained(self, asked: _Asked, graded: Graded) -> Result:
        """What an earlier run has recorded stays; where that run was killed, its change is told now."""
        row = self._gradebook.standing(asked.student, self._assignment)
        result = self._result(asked.submission, graded, row, retained=True)
        entry, before = self._ledger.entry(asked.student), self._ledger.before(asked.student)
        return result if entry is None or before is None else replace(result, change=change_of(before, entry))

    def _result(
        self,
        submission: Submission,
        graded: Graded,
        row: SubmissionRow,
        *,
        stored: bool = False,
        unchanged: bool = False,
        retained: bool = False,
    ) -> Result:
        student, assignment, gradebook = submission.student, self._assignment, self._gradebook
        return Result(
            student,
            self._sharing.shared(graded.report),
            seconds=graded.examined.seconds.get("total", 0.0) if graded.examined else 0.0,
            stored=stored,
            unchanged=unchanged,
            retained=retained,
            undecided=graded.undecided,
            provisional=provisional(graded),
            waiting=self._in_order(row.waiting),
            marked=self._in_order(row.marked),
            adjusted=row.adjusted,
            remarks=remarks_on(submission, assignment, gradebook.has_odd_timestamp(submission.folder)),
            left_out=left_out(submission, self._course, assignment),
        )

    def _in_order(self, cells: Iterable[str]) -> tuple[str, ...]:
        """The exercises of graded cells as the course has them, and behind them what it knows nothing of."""
        names = {name.removeprefix(TEST_PREFIX) for name in cells}
        known = [name for name in self._course.assignment(self._assignment).exercises if name in names]
        return (*known, *sorted(set(names).difference(known)))

    def _place(self, submission: Submission) -> Path:
        return self._files.notebook(submission.student, self._assignment)
