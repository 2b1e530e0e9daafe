"""What class runs have left, and from what: so that the next one redoes nothing that stands as it would leave it.

A ledger is of one assignment in one gradebook. An entry of it holds only as long as all that the run read and wrote is
as it was: the submitted folder, the graded one, the rows, the rules. Of each it keeps what is needed to tell which of
them has changed, which is why a score is another.

What a run does goes into a journal first, step by step. It becomes the ledger once people have been told of it, so that
the run which completes one that was killed tells of both.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from autograder.course import STATE_FOLDER, Course
from autograder.fingerprints import Rules
from autograder.folders import Snapshot, as_text, drafts, is_as
from autograder.nbgrader.rows import Rows
from autograder.report import GradeReport
from autograder.statefiles import LEDGERS, Journal, read_state, tidy, use, write_state
from autograder.submissions import Submission

if TYPE_CHECKING:
    from autograder.class_result import Result

MAX_LEDGER, MAX_LEDGERS = 1 << 30, 256 << 20
"""Bytes of a ledger before it is packed, and of all packed ones; those of the gradebooks that were used last stay."""


class Entry(msgspec.Struct, frozen=True):
    """What a run has left of one submission.

    Attributes:
        submission: SHA-256 (hex) of its notebook; empty where that can't be read.
        handed_in, graded: the folders; `name`, the notebook's within the first.
        answers: hashes of the graded answers and their points, by notebook and cell (`autograder.settled`).
        report: without the notebook's place.

    The others are those of `autograder.class_result.Result`.
    """

    submission: str
    name: str
    rules: Rules
    handed_in: Snapshot | None
    graded: Snapshot | None
    rows: Rows
    answers: dict[str, str]
    report: GradeReport
    undecided: bool = False
    provisional: bool = False
    waiting: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    reopened: dict[str, str] = {}
    adjusted: bool = False
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether the same file would come out the same: all but what the grader failed at."""
        return self.report.status == "unusable" or self.undecided or self.is_graded

    @property
    def is_graded(self) -> bool:
        """Whether it has a score, of a file that is known."""
        return self.report.status == "graded" and self.submission != ""


def entry_of(
    result: Result,
    digest: str,
    submission: Submission,
    rules: Rules,
    folders: tuple[Snapshot | None, Snapshot | None],
    rows: Rows,
    answers: dict[str, str],
) -> Entry:
    """What this run leaves of a submission."""
    handed_in, graded = folders
    return Entry(
        submission=digest,
        name=as_text(submission.name),
        rules=rules,
        handed_in=handed_in,
        graded=graded,
        rows=rows,
        answers=answers,
        report=msgspec.structs.replace(result.report, notebook=""),
        undecided=result.undecided,
        provisional=result.provisional,
        waiting=result.waiting,
        marked=result.marked,
        reopened=result.reopened,
        adjusted=result.adjusted,
        remarks=result.remarks,
        left_out=result.left_out,
    )


class Before(msgspec.Struct, frozen=True):
    """What was there of a submission when people were last told of it.

    Attributes:
        submission, rules, left: of the entry; None where no record was left.
        found: the rows as the first run since then found them; None where there were none.
        examined: why that run examined it, a key of `autograder.changes.REASONS`; empty where it did not.
    """

    submission: str | None
    rules: Rules | None
    left: Rows | None
    found: Rows | None
    examined: str = ""


class _Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a run, as the journal has it; the first one of a journal names it."""

    journal: str = ""
    frame: str = ""
    student: str = ""
    before: Before | None = None
    entry: Entry | None = None


class _Content(msgspec.Struct):
    """The file of a ledger; `journal` is the last one that has gone into it, `untold` whom nobody was told of."""

    place: str = ""
    frame: str = ""
    assignment: str = ""
    journal: str = ""
    entries: dict[str, Entry] = {}
    untold: dict[str, Before] = {}


class Ledger:
    """The ledger of an assignment in a gradebook.

    Args:
        course: the course.
        assignment: which one.
        graded: the folder of graded notebooks.
        gradebook: the gradebook's file or address.
        frame: what all of the class hangs on beside its rules (`frame_of`).
    """

    def __init__(self, course: Course, assignment: str, graded: Path, gradebook: str, frame: str) -> None:
        place = "\0".join([assignment, str(graded.resolve()), gradebook])
        self._path = course.root / STATE_FOLDER / LEDGERS / hashlib.sha256(os.fsencode(place)).hexdigest()
        use([self._path])
        found = read_state(self._path, _Content, MAX_LEDGER)
        self._content = found if found is not None and found.place == place else _Content(place)
        self._journal = Journal(self._path.with_name(f"{self._path.name}-journal"))
        self._name = self._read_journal()
        self._frame = frame
        self.in_frame = self._content.frame == frame
        """Whether all that the class hangs on is as it was."""

    @property
    def assignment_rows(self) -> str:
        """The hash of the assignment's own rows as the last run left them."""
        return self._content.assignment

    def entry(self, student: str) -> Entry | None:
        """What the last run left of a student's submission, whether or not it still holds."""
        return self._content.entries.get(student)

    def before(self, student: str) -> Before | None:
        """What was there before a run began with it that nobody was told of; None where there was no such run."""
        return self._content.untold.get(student)

    def stands(self, submission: Submission, file_hash: str, rules: Rules, rows: Rows | None, graded: Path) -> bool:
        """Whether this run would leave all as it is.

        Args:
            submission: as it was handed in.
            file_hash: SHA-256 (hex) of its notebook.
            rules: of this run.
            rows: of the gradebook, now.
            graded: the folder of the graded notebook.
        """
        entry = self.entry(submission.student)
        return (
            entry is not None
            and entry.is_final
            and (entry.submission, entry.rules, entry.rows) == (file_hash, rules, rows)
            and self.files_stand(submission, graded)
        )

    def files_stand(self, submission: Submission, graded: Path) -> bool:
        """Whether the submitted and the graded folder are as the last run saw and left them."""
        entry = self.entry(submission.student)
        return (
            self.in_frame
            and entry is not None
            and not any(map(os.path.lexists, drafts(graded)))  # of a run that was killed
            and entry.name == as_text(submission.name)
            and is_as(submission.folder, entry.handed_in, read=True)
            and is_as(graded, entry.graded)
        )

    def begin(self, student: str, rows: Rows | None, examined: str) -> Before:
        """Note that this run is about to write what it has of a submission, and what was there before.

        Args:
            student: whose.
            rows: of the gradebook, as this run found them.
            examined: see `Before`.
        """
        if student not in self._content.untold:
            before = Before(None, None, None, rows, examined)
            if (entry := self.entry(student)) is not None:
                before = Before(entry.submission, entry.rules, entry.rows, rows, examined)
            self._take(_Step(student=student, before=before))
        return self._content.untold[student]

    def enter(self, student: str, entry: Entry) -> None:
        """Note what this run leaves of it."""
        if not self.in_frame:
            self._take(_Step(frame=self._frame))
            self.in_frame = True
        self._take(_Step(student=student, entry=entry))

    def told(self, students: Iterable[str], assignment_rows: str) -> None:
        """Note that people were told of this run, about these students, and keep all for the next one."""
        for student in students:
            self._content.untold.pop(student, None)
        if self.in_frame:
            self._content.frame, self._content.assignment = self._frame, assignment_rows
            self._content.journal = self._name or self._content.journal
            if write_state(self._path, msgspec.msgpack.encode(self._content), MAX_LEDGER):
                self._journal.remove()
                self._name = ""
            tidy(self._path.parent, MAX_LEDGERS)

    def _take(self, step: _Step) -> None:
        """Take a step, and note it in the journal."""
        try:
            record = msgspec.msgpack.encode(step)
        except (TypeError, ValueError, OverflowError):  # a name that is no text: it is recorded anew by every run
            if step.before is not None:
                self._content.untold[step.student] = step.before
            return
        if not self._name:
            self._name = secrets.token_hex(8)
            self._journal.append(msgspec.msgpack.encode(_Step(journal=self._name)))
        self._journal.append(record)
        self._apply(step)

    def _apply(self, step: _Step) -> None:
        if step.frame:
            # Another frame: no other entry holds for the next run either, though it tells what was before.
            entries = self._content.entries
            blank = {name: msgspec.structs.replace(one, graded=None) for name, one in entries.items()}
            self._content.entries, self._content.frame = blank, step.frame
        if step.before is not None:
            self._content.untold[step.student] = step.before
        if step.entry is not None:
            self._content.entries[step.student] = step.entry

    def _read_journal(self) -> str:
        """Take the steps of a run that was killed; the journal's name, which is empty where there is none."""
        try:
            steps = [msgspec.msgpack.decode(record, type=_Step) for record in self._journal.read()]
        except (msgspec.MsgspecError, RecursionError):  # of another version
            steps = []
        name = steps[0].journal if steps else ""
        if not name or name == self._content.journal:
            self._journal.remove()
            return ""
        for step in steps:
            self._apply(step)
        return name
