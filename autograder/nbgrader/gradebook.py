"""A class's rows in nbgrader's gradebook, as ``nbgrader autograde`` leaves them.

One session writes the whole class: nbgrader's converter opens the database a dozen times for each submission.
"""

from __future__ import annotations

import datetime
import stat
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import nbformat
from nbgrader.api import Grade, Gradebook, InvalidEntry, MissingEntry, SubmittedNotebook
from nbgrader.apps.baseapp import NbGrader
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import parse_utc, temp_attrs
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from traitlets import TraitError

from autograder.autograded import auto_comment, auto_score, not_run, report_of
from autograder.course import Course
from autograder.errors import CourseError, UnusableNotebook
from autograder.feedback.marks import Marks, read_marks
from autograder.mend import released_notebook
from autograder.nbgrader.databases import database_of
from autograder.nbgrader.recording import AssignmentRows, GradeRow, NotebookRow, SubmissionRow
from autograder.nbgrader.rows import Rows, assignment_rows, submitted_rows
from autograder.notebook import TEST_PREFIX, read_notebook
from autograder.release import expect_exercises
from autograder.report import exact
from autograder.settled import name_of, settle

MAX_TIMESTAMP = 1_000
"""Bytes of a ``timestamp.txt``."""

Cells = dict[str, tuple[str, bool, float]]
"""Source, locked, points, by grade_id."""


def set_score(grade: Grade | GradeRow, score: float | None) -> None:
    """Write an automatic score; None, and a mark that a human gave before, make the cell wait for a human."""
    grade.auto_score = exact(score, grade.max_score)
    grade.needs_manual_grade = grade.auto_score is None or grade.manual_score is not None


def fill_vanished(submitted: SubmittedNotebook | NotebookRow, notebook: nbformat.NotebookNode) -> None:
    """Clear the automatic scores of cells that the graded notebook does not have: they are of another version."""
    present = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells}
    for grade in submitted.grades:
        if grade.name not in present:
            set_score(grade, None)


def file_of(url: str) -> Path | None:
    """The file of a database; None of one that is a server's."""
    return database_of(url, "").file


class ClassGradebook:
    """The gradebook of a course, open for a class.

    Args:
        course: the course.
        app: nbgrader, set up for it (`autograder.nbgrader.config.nbgrader_of`).
        make: make it where there is none.

    Raises:
        CourseError: the gradebook can't be opened. All of the methods raise it where it can't be written.
    """

    def __init__(self, course: Course, app: NbGrader, make: bool = True) -> None:
        self._course, self._app, self._coursedir = course, app, app.coursedir
        self._create_student = Autograde(coursedir=app.coursedir, parent=app).create_student
        try:
            self._late = AssignLatePenalties(parent=app)
            self._late.init_plugin()
        except (ImportError, TraitError) as fault:
            raise CourseError(f"nbgrader's configuration of late penalties can't be used: {fault}") from None
        self._assignments: dict[str, AssignmentRows] = {}
        self._database = database_of(app.coursedir.db_url, app.coursedir.course_id)
        self.path = Path(self._database.name)
        """The gradebook's file; of a server's database, what it is called."""
        self.address = self._database.address
        """Which one it is, of all that may have the same name."""
        self._database.expect_driver()
        with self.told():
            if make:
                self._database.make()
            elif not self._database.is_made():
                raise CourseError(f"there is no gradebook {self._database.name}; run `autograder grade` first.")
            self.nbgrader = Gradebook(self._database.url, app.coursedir.course_id)
            self._database.opened(self.nbgrader)

    def __enter__(self) -> ClassGradebook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.nbgrader.close()
        self._database.release()

    def prepare(self, assignment: str) -> None:
        """Bring the assignment in the gradebook up to its source, as ``nbgrader generate_assignment`` does.

        Its due date becomes that of ``course.yml``, or none.

        Raises:
            CourseError: graded cells were added or removed, and there are submissions already.
        """
        with self.told():
            self._database.take()
        expect_exercises(self._course, assignment)
        names = sorted(path.stem for path in self._course.source_notebook(assignment).parent.glob("*.ipynb"))
        with self.told():
            kept = {name: self._kept_cells(assignment, name) for name in names}
            released = {name: self._released_cells(assignment, name) for name in names}
            changed = {cell for name in names if kept[name] for cell in kept[name].keys() ^ released[name].keys()}
            if changed and self.nbgrader.assignment_submissions(assignment):
                raise CourseError(
                    f"{self._course.source_notebook(assignment).parent} has other cells than the gradebook "
                    f"({', '.join(sorted(changed))}), and submissions were graded already: put the cells back, or "
                    "move gradebook.db, autograded/ and feedback/ away to begin anew; marks by hand stay with them."
                )
        if kept != released:
            self._generate(assignment)
        with self.told():
            due = self._course.assignment(assignment).due
            self.nbgrader.find_assignment(assignment).duedate = None if due is None else parse_utc(due)
            self.nbgrader.db.commit()
        self._assignments.pop(assignment, None)

    def record(
        self,
        student: str,
        assignment: str,
        folder: Path,
        notebooks: Mapping[str, nbformat.NotebookNode],
        same: Collection[str] | None = None,
    ) -> tuple[SubmissionRow, dict[str, str]]:
        """Write the rows of one submission, as nbgrader's converter and preprocessors do; all of them or none.

        Only a mark that a human has given stays settled here where nothing has changed that it was given for.

        Args:
            student: who handed it in; new ones are added, as nbgrader does unless it is told not to.
            assignment: which one.
            folder: the submission's folder, with its ``timestamp.txt`` where there is one.
            notebooks: the graded notebooks, by name; all cells of one that is in the folder, and not among them,
                wait for a human.
            same: the graded cells whose answers and points are what they were (`autograder.settled`).

        Returns:
            the rows as they stand now, and why cells wait that a human has marked, by exercise.
        """
        reopened = {}
        with self.told():
            rows = self._rows_of(assignment)
            submission = rows.make(student, self._timestamp(folder), self._create_student)
            for submitted in submission.notebooks:
                before = {grade.name: (grade.auto_score, grade.needs_manual_grade) for grade in submitted.grades}
                self._fill(submission, submitted, assignment, folder, notebooks)
                for grade in submitted.grades:
                    is_same = None if same is None else name_of(submitted.name, grade.name) in same
                    if why := settle(grade, *before[grade.name], is_same):
                        reopened[grade.name.removeprefix(TEST_PREFIX)] = why
            rows.write(submission)
            self.nbgrader.db.commit()
        return submission, reopened

    def _fill(
        self,
        submission: SubmissionRow,
        submitted: NotebookRow,
        assignment: str,
        folder: Path,
        notebooks: Mapping[str, nbformat.NotebookNode],
    ) -> None:
        """The automatic scores of one notebook, its remarks, and the late penalty."""
        if submitted.name in notebooks:
            _take_over(submitted, notebooks[submitted.name])
            self._penalise(submission, submitted)
            return
        is_missing = submitted.name != assignment and (
            not self._is_in_course(assignment, submitted.name) or not _is_there(folder / f"{submitted.name}.ipynb")
        )
        for grade in submitted.grades:
            set_score(grade, None)
            if is_missing:  # nbgrader calls it so, and worth nothing
                grade.auto_score, grade.needs_manual_grade = 0, False

    def standing(self, student: str, assignment: str) -> SubmissionRow:
        """How a submission stands now: what waits for a human in it, and whether humans have changed its score."""
        with self.told():
            found = self._rows_of(assignment).find(student)
            if found is None:
                raise MissingEntry(f"No such submission: {assignment} for {student}")
            return found

    def _rows_of(self, assignment: str) -> AssignmentRows:
        """The assignment's own rows, read once: `prepare` alone changes them while we are at work."""
        if assignment not in self._assignments:
            self._assignments[assignment] = AssignmentRows(self.nbgrader.db, assignment)
        return self._assignments[assignment]

    def has_odd_timestamp(self, folder: Path) -> bool:
        """Whether there is a ``timestamp.txt`` that tells no time."""
        return _is_there(folder / "timestamp.txt") and self._timestamp(folder) is None

    def rows(self, assignment: str, student: str = "") -> dict[str, Rows]:
        """What stands in the gradebook of each submission to an assignment, or of one student's alone, by student."""
        with self.told():
            return submitted_rows(self._execute, assignment, student)

    def assignment_rows(self, assignment: str) -> str:
        """A hash of an assignment's own rows."""
        with self.told():
            return assignment_rows(self._execute, assignment)

    def undo(self) -> None:
        """Forget what was begun and not recorded."""
        self.nbgrader.db.rollback()

    def _execute(self, query: str, asked: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        return map(tuple, self.nbgrader.db.execute(text(query), asked))

    def second_notebooks(self, assignment: str, folder: Path) -> dict[str, nbformat.NotebookNode]:
        """The further notebooks of an assignment that a submission holds and that can be read, by name, not run."""
        found = {}
        with self.told():
            names = self._rows_of(assignment).notebooks
        for name in names:
            if name != assignment and self._is_in_course(assignment, name):
                with suppress(UnusableNotebook):
                    notebook = read_notebook(folder / f"{name}.ipynb", follow=False)
                    found[name] = not_run(notebook, self._course, assignment)
        return found

    def _is_in_course(self, assignment: str, name: str) -> bool:
        """Whether the course still has a notebook that the gradebook knows."""
        return self._course.source_notebook(assignment).with_name(f"{name}.ipynb").is_file()

    def marks(self, student: str, assignment: str, notebook: str) -> Marks:
        """What the gradebook says of a notebook now; nothing where it does not know it."""
        with self.told():
            try:
                return read_marks(self.nbgrader, notebook, assignment, student)
            except MissingEntry:
                return Marks({}, name=student)

    def knows(self, student: str, assignment: str) -> bool:
        """Whether there are rows of this submission already."""
        with self.told():
            try:
                self.nbgrader.find_submission(assignment, student)
            except MissingEntry:
                return False
            return True

    @contextmanager
    def told(self) -> Iterator[None]:
        """Turn what a database says into one sentence, and leave no row half-written."""
        try:
            yield
            if hasattr(self, "nbgrader"):
                self._database.rest(self.nbgrader.db)
        except CourseError:
            self._roll_back()
            raise
        except (InvalidEntry, SQLAlchemyError, subprocess.CalledProcessError) as fault:  # nbgrader's own, too
            self._roll_back()
            said = str(getattr(fault, "orig", None) or fault).splitlines()[0]
            advice = self._database.advice(fault, said)
            raise CourseError(f"the gradebook {self._database.name} can't be used ({said}); {advice}.") from None

    def _roll_back(self) -> None:
        if hasattr(self, "nbgrader"):
            with suppress(SQLAlchemyError):  # a full disk may refuse that as well; the next run does it then
                self.nbgrader.db.rollback()

    def _kept_cells(self, assignment: str, name: str) -> Cells:
        """The course's cells of a notebook as the gradebook knows them."""
        try:
            kept = self.nbgrader.find_notebook(name, assignment)
        except MissingEntry:
            return {}
        points = {cell.name: cell.max_score for cell in kept.grade_cells}
        return {cell.name: (cell.source, cell.locked, points.get(cell.name, 0.0)) for cell in kept.source_cells}

    def _released_cells(self, assignment: str, name: str) -> Cells:
        cells = released_notebook(self._course, assignment, name).cells
        return {cell.grade_id: (cell.source, cell.is_locked, cell.points) for cell in cells if cell.grade_id}

    def _generate(self, assignment: str) -> None:
        """Let nbgrader's own converter write the assignment's rows; the release notebook that it makes is dropped."""
        url = self._database.url.render_as_string(hide_password=False)  # with the time to wait for a lock
        with (
            self._database.workshop() as dropped,
            temp_attrs(self._coursedir, assignment_id=assignment, release_directory=str(dropped), db_url=url),
        ):
            converter = GenerateAssignment(coursedir=self._coursedir, parent=self._app)
            converter.force = True
            try:
                converter.start()
            except Exception as fault:  # noqa: BLE001 - any part of nbgrader or nbconvert may refuse the notebook
                raise CourseError(
                    f"{self._course.source_notebook(assignment)} can't be put into the gradebook; "
                    f"`nbgrader generate_assignment {assignment}` tells more ({fault})."
                ) from None
        self.nbgrader.db.expire_all()

    def _timestamp(self, folder: Path) -> datetime.datetime | None:
        """When it was handed in, where that is known."""
        path = folder / "timestamp.txt"
        try:
            if not stat.S_ISREG(path.lstat().st_mode) or path.stat().st_size > MAX_TIMESTAMP:
                return None
            timestamp: datetime.datetime | None = self._coursedir.get_existing_timestamp(str(folder))
        except (AttributeError, OSError, OverflowError, ValueError):  # nbgrader trips over what is no time
            return None
        return timestamp

    def _penalise(self, submission: SubmissionRow, submitted: NotebookRow) -> None:
        """The late penalty, by nbgrader's plugin."""
        submitted.late_submission_penalty = None
        if submission.seconds_late > 0:
            plugin = self._late.plugin_inst
            penalty = plugin.late_submission_penalty(submission.student, submitted.score, submission.seconds_late)
            if penalty is not None:
                submitted.late_submission_penalty = self._late._check_late_penalty(submitted, penalty)


def _take_over(submitted: NotebookRow, notebook: nbformat.NotebookNode) -> None:
    """The automatic scores and remarks that stand in a graded notebook."""
    report = report_of(notebook)
    cells = {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if "nbgrader" in cell.metadata}
    for grade in submitted.grades:
        if grade.name in cells:
            set_score(grade, auto_score(cells[grade.name], report))
    for comment in submitted.comments:
        if comment.name in cells:
            comment.auto_comment = auto_comment(cells[comment.name])
    fill_vanished(submitted, notebook)


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()
