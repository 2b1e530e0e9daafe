"""A class's rows in nbgrader's gradebook, and its files in ``autograded/``, as ``nbgrader autograde`` leaves them.

One session writes the whole class: nbgrader's converter opens the database a dozen times for each submission.
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import nbformat
from nbgrader.api import Grade, Gradebook, MissingEntry, SubmittedAssignment, SubmittedNotebook
from nbgrader.apps.baseapp import NbGrader
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import find_all_files, parse_utc, rmtree, temp_attrs
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SAWarning

from autograder.autograded import auto_comment, auto_score, not_run, report_of
from autograder.course import Course
from autograder.errors import CourseError, UnusableNotebook
from autograder.feedback.marks import Marks, read_marks
from autograder.mend import released_notebook
from autograder.notebook import read_notebook

LOCK_SECONDS = 120
"""How long to wait for SQLite while formgrader or another command writes."""


LAYOUT = "{nbgrader_step}/{student_id}/{assignment_id}"


def set_score(grade: Grade, score: float | None) -> None:
    """Write an automatic score; None, and a mark that a human gave before, make the cell wait for a human."""
    grade.auto_score = score
    grade.needs_manual_grade = score is None or grade.manual_score is not None


def fill_vanished(submitted: SubmittedNotebook, notebook: nbformat.NotebookNode) -> None:
    """Clear the automatic scores of cells that the graded notebook does not have: they are of another version."""
    present = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells}
    for grade in submitted.grades:
        if grade.name not in present:
            set_score(grade, None)


class ClassGradebook:
    """The gradebook and the ``autograded/`` of a course, open for a class.

    Args:
        course: the course.
        app: nbgrader, set up for it (`autograder.nbgrader.config.nbgrader_of`).

    Raises:
        CourseError: the gradebook can't be opened.
    """

    def __init__(self, course: Course, app: NbGrader) -> None:
        self._course, self._app, self._coursedir = course, app, app.coursedir
        if app.coursedir.directory_structure != LAYOUT:
            raise CourseError(
                f"nbgrader is set to the folders {app.coursedir.directory_structure!r}; these commands know {LAYOUT!r} "
                "alone, so use nbgrader's own, or take CourseDirectory.directory_structure out of its configuration."
            )
        url = app.coursedir.db_url
        if url.startswith("sqlite:") and "?" not in url:
            url += f"?timeout={LOCK_SECONDS}"
        self._gradebook = Gradebook(url, app.coursedir.course_id)
        self._converter = Autograde(coursedir=app.coursedir, parent=app)
        self._late = AssignLatePenalties(parent=app)
        self._late.init_plugin()

    def __enter__(self) -> ClassGradebook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gradebook.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other class runs out while this one writes; the lock ends with the process, however it ends.

        Raises:
            CourseError: another run is at work here.
        """
        import fcntl  # grading needs Linux; the pages and the export do not

        self.graded_root.mkdir(parents=True, exist_ok=True)
        with (self.graded_root / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CourseError(
                    f"another `autograder grade` is writing to {self.graded_root}; wait until it has ended."
                ) from None
            yield

    def prepare(self, assignment: str) -> None:
        """Bring the assignment in the gradebook up to its source notebook, as ``nbgrader generate_assignment`` does.

        Raises:
            CourseError: graded cells were added or removed, and there are submissions already.
        """
        released = {cell.grade_id: cell for cell in released_notebook(self._course, assignment).cells if cell.grade_id}
        kept = self._kept_cells(assignment)
        due = self._course.assignment(assignment).due
        if kept == {name: (cell.source, cell.is_locked, cell.points) for name, cell in released.items()} and (
            due is None or self._gradebook.find_assignment(assignment).duedate == parse_utc(due)
        ):
            return
        if kept and kept.keys() != released.keys() and self._gradebook.assignment_submissions(assignment):
            changed = ", ".join(sorted(kept.keys() ^ released.keys()))
            raise CourseError(
                f"{self._course.source_notebook(assignment)} has other cells than the gradebook ({changed}), and "
                "submissions were graded already: put the cells back, or start a new gradebook."
            )
        self._generate(assignment)

    def record(self, student: str, assignment: str, folder: Path, notebook: nbformat.NotebookNode | None) -> None:
        """Write the rows of one submission.

        Args:
            student: who handed it in; new ones are added, as nbgrader does.
            assignment: which one.
            folder: the submission's folder, with its ``timestamp.txt`` where there is one.
            notebook: the graded notebook; None where it could not be graded at all: earlier scores stay then.
        """
        self._gradebook.update_or_create_student(student)
        timestamp = self._timestamp(folder)
        known = {} if timestamp is None else {"timestamp": timestamp}
        with warnings.catch_warnings():
            # nbgrader adds these rows in an order that SQLAlchemy 2 remarks upon; they are written all the same.
            warnings.simplefilter("ignore", SAWarning)
            submission = self._gradebook.update_or_create_submission(assignment, student, **known)
        for submitted in submission.notebooks:
            if submitted.name == assignment:
                if notebook is not None:
                    _fill(submitted, notebook)
                    self._penalise(submission, submitted)
            elif other := self._second(submitted.name, assignment, folder):
                _fill(submitted, other)
                self._penalise(submission, submitted)
            else:  # nbgrader calls it missing, and worth nothing
                for grade in submitted.grades:
                    grade.auto_score, grade.needs_manual_grade = 0, False
        self._gradebook.db.commit()

    def marks(self, student: str, assignment: str) -> Marks:
        """What the gradebook says of a submission now; nothing where it does not know it."""
        try:
            return read_marks(self._gradebook, assignment, assignment, student)
        except MissingEntry:
            return Marks({}, name=student)

    def graded(self, assignment: str) -> list[tuple[str, Path]]:
        """The graded notebooks of an assignment, by student."""
        found = sorted(self.graded_root.glob(f"*/{assignment}/{assignment}.ipynb"))
        return [(path.parents[1].name, path) for path in found if not path.parents[1].name.startswith(".")]

    def knows(self, student: str, assignment: str) -> bool:
        """Whether there are rows of this submission already."""
        try:
            self._gradebook.find_submission(assignment, student)
        except MissingEntry:
            return False
        return True

    @property
    def nbgrader(self) -> Gradebook:
        """The gradebook as nbgrader's own API gives it."""
        return self._gradebook

    @property
    def path(self) -> Path:
        """The gradebook's file; for another database, its address without a password, as far as a path can hold it."""
        url = make_url(self._coursedir.db_url)
        return (
            Path(url.database or "") if url.drivername == "sqlite" else Path(url.render_as_string(hide_password=True))
        )

    @property
    def graded_root(self) -> Path:
        """Where the graded notebooks of all students lie."""
        return Path(self._coursedir.root, self._coursedir.autograded_directory)

    @property
    def feedback_root(self) -> Path:
        """Where the feedback pages of all students lie."""
        return Path(self._coursedir.root, self._coursedir.feedback_directory)

    def graded_folder(self, student: str, assignment: str) -> Path:
        """Where the graded notebook of a student lies."""
        return Path(self._coursedir.format_path(self._coursedir.autograded_directory, student, assignment))

    def write(self, student: str, assignment: str, folder: Path, notebook: nbformat.NotebookNode) -> Path:
        """Write the graded notebook and the submission's other files, whole or not at all; returns the notebook's path.

        Links are not followed: what a student's link points to is not the student's.
        """
        target = self.graded_folder(student, assignment)
        draft = target.with_name(f".{assignment}.new")
        if draft.exists():
            rmtree(draft)
        draft.mkdir(parents=True)
        ignored = [*self._coursedir.ignore, "*.ipynb"]
        self._copy(folder, draft, find_all_files(str(folder), ignored))
        source = self._course.source_notebook(assignment).parent
        left = {str(source / name) for name in self._converter.exclude_overwriting.get(assignment, [])}
        self._copy(source, draft, [name for name in find_all_files(str(source), ignored) if name not in left])
        written = {assignment: notebook}
        for name in self._notebooks(assignment):
            if name != assignment and (other := self._second(name, assignment, folder)):
                written[name] = other
        for name, node in written.items():
            (draft / f"{name}.ipynb").write_text(nbformat.writes(node) + "\n", encoding="utf-8")
        if target.exists():
            rmtree(target)
        draft.rename(target)
        self._converter.set_permissions(assignment, student)
        return target / f"{assignment}.ipynb"

    def _notebooks(self, assignment: str) -> list[str]:
        return [notebook.name for notebook in self._gradebook.find_assignment(assignment).notebooks]

    def _second(self, name: str, assignment: str, folder: Path) -> nbformat.NotebookNode | None:
        """A second notebook of the assignment, for a human to grade; None where it is missing or can't be read."""
        path = folder / f"{name}.ipynb"
        if path.is_symlink() or not path.exists():
            return None
        try:
            return not_run(read_notebook(path), self._course, assignment)
        except UnusableNotebook:
            return None

    @staticmethod
    def _copy(root: Path, target: Path, files: Iterable[str]) -> None:
        for name in files:
            path = Path(name)
            if path.is_symlink() or not path.is_file():
                continue
            copy = target / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            shutil.copy(path, copy)

    def _kept_cells(self, assignment: str) -> dict[str, tuple[str, bool, float]]:
        """The course's cells as the gradebook knows them: source, locked, points, by name."""
        try:
            kept = self._gradebook.find_notebook(assignment, assignment)
        except MissingEntry:
            return {}
        points = {cell.name: cell.max_score for cell in kept.grade_cells}
        return {cell.name: (cell.source, cell.locked, points.get(cell.name, 0.0)) for cell in kept.source_cells}

    def _generate(self, assignment: str) -> None:
        """Let nbgrader's own converter write the assignment's rows; the release notebook that it makes is dropped."""
        with (
            tempfile.TemporaryDirectory() as dropped,
            temp_attrs(self._coursedir, assignment_id=assignment, release_directory=dropped),
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
        self._gradebook.db.expire_all()

    def _timestamp(self, folder: Path) -> datetime.datetime | None:
        """When it was handed in, where that is known."""
        try:
            timestamp: datetime.datetime | None = self._coursedir.get_existing_timestamp(str(folder))
        except (
            AttributeError,
            ValueError,
            OverflowError,
            UnicodeDecodeError,
        ):  # nbgrader trips over a text that is no time
            return None
        return timestamp

    def _penalise(self, submission: SubmittedAssignment, submitted: SubmittedNotebook) -> None:
        """The late penalty, by nbgrader's plugin."""
        submitted.late_submission_penalty = None
        late = submission.total_seconds_late
        if late > 0:
            self._gradebook.db.flush()
            self._gradebook.db.refresh(submitted)
            penalty = self._late.plugin_inst.late_submission_penalty(submission.student.id, submitted.score, late)
            if penalty is not None:
                submitted.late_submission_penalty = self._late._check_late_penalty(submitted, penalty)


def _fill(submitted: SubmittedNotebook, notebook: nbformat.NotebookNode) -> None:
    """The automatic scores and remarks of one notebook."""
    report = report_of(notebook)
    cells = {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if "nbgrader" in cell.metadata}
    for grade in submitted.grades:
        if grade.name in cells:
            set_score(grade, auto_score(cells[grade.name], report))
    for comment in submitted.comments:
        if comment.name in cells:
            comment.auto_comment = auto_comment(cells[comment.name])
    fill_vanished(submitted, notebook)
