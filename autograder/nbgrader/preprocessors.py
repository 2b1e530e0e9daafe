"""What runs inside nbgrader: grade a submission, save its grades, save an assignment's due date.

Imported by ``nbgrader autograde`` and by the server that hosts formgrader; neither torch nor pytest comes with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.preprocessors import SaveAutoGrades as StockSaveAutoGrades
from traitlets import Unicode

from autograder.autograded import auto_comment, auto_score, autograded, not_run, report_of
from autograder.course import course_seed, load_course
from autograder.errors import UnusableNotebook
from autograder.messages import translations
from autograder.nbgrader.gradebook import fill_vanished, set_score
from autograder.nbgrader.pool import forget, grader_of
from autograder.notebook import notebook_of
from autograder.submissions import digest


class GradeSubmission(NbGraderPreprocessor):  # type: ignore[misc] # nbgrader ships no types
    """Mends a submission, runs it, has it examined, and turns it into the graded notebook.

    It takes the place of all of nbgrader's sanitising preprocessors and of ``Execute``.
    """

    course_root = Unicode("", help="The folder of course.yml (default: the current one).").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Grade one notebook; what the student did wrong is in the result, never raised."""
        assignment = resources["nbgrader"]["assignment"]
        name = f"{resources['nbgrader']['notebook']}.ipynb"
        submitted = Path(resources.get("metadata", {}).get("path", "")) / name
        root = Path(self.course_root or ".").resolve()
        if any(place.is_symlink() for place in (submitted, submitted.parent, submitted.parent.parent)):
            raise UnusableNotebook(f"{submitted} is or lies behind a link; hand in the file itself.")
        course = load_course(root)
        course.assignment(assignment)  # an unknown one is told before seconds are spent on warming up
        if resources["nbgrader"]["notebook"] != assignment:
            return not_run(notebook_of(nb, submitted), course, assignment), resources
        with grader_of(root) as (course, grader):
            graded = grader.grade(notebook_of(nb, submitted), assignment, course_seed(course))
        for remark in (*graded.report.repairs, *graded.report.doubts):
            self.log.warning("%s: %s", submitted, remark.render())
        if graded.report.status == "ungraded" and not graded.undecided:
            forget(root)
        if graded.report.status != "graded":
            reason = graded.report.error.render() if graded.report.error else "some checks could not be made"
            self.log.error("%s stays ungraded and waits for a human: %s", submitted, reason)
        notebook = autograded(graded, course, assignment, digest(submitted), translations(course.language))
        return notebook, resources


class SaveGrades(StockSaveAutoGrades):  # type: ignore[misc]
    """Writes the automatic scores from the report that `GradeSubmission` left; outputs of cells decide nothing.

    Where the grader failed, the score stays empty and the cell waits for a human. Scores of cells that the notebook
    no longer has are replaced too.
    """

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Write the grades and comments of one notebook."""
        self.report = report_of(nb)
        nb, resources = super().preprocess(nb, resources)
        with Gradebook(self.db_url) as gradebook:
            kept = gradebook.find_submission_notebook(self.notebook_id, self.assignment_id, self.student_id)
            fill_vanished(kept, nb)
            gradebook.db.commit()
        return nb, resources

    def _add_score(self, cell: NotebookNode, resources: Any) -> None:
        grade = self.gradebook.find_grade(
            cell.metadata.nbgrader.grade_id, self.notebook_id, self.assignment_id, self.student_id
        )
        set_score(grade, auto_score(cell, self.report))
        self.gradebook.db.commit()

    def _add_comment(self, cell: NotebookNode, resources: Any) -> None:
        comment = self.gradebook.find_comment(
            cell.metadata.nbgrader.grade_id, self.notebook_id, self.assignment_id, self.student_id
        )
        comment.auto_comment = auto_comment(cell)
        self.gradebook.db.commit()


class SaveDueDate(NbGraderPreprocessor):  # type: ignore[misc]
    """Writes the due date of ``course.yml`` into the gradebook, or that there is none."""

    course_root = Unicode("", help="The folder of course.yml (default: the current one).").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Write one assignment's due date; the notebook stays as it is."""
        name = resources["nbgrader"]["assignment"]
        due = load_course(Path(self.course_root or ".").resolve()).assignment(name).due
        with Gradebook(resources["nbgrader"]["db_url"]) as gradebook:
            gradebook.find_assignment(name).duedate = None if due is None else utils.parse_utc(due)
            gradebook.db.commit()
        return nb, resources
