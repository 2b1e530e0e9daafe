"""nbgrader's configuration, derived from ``course.yml``; and the alembic that nbgrader calls by its bare name."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from nbgrader.apps.baseapp import NbGrader
from traitlets.config import Config

from autograder.course import COURSE_FILE, Course, load_course
from autograder.release import release_preprocessors

PREPROCESSORS = "autograder.nbgrader.preprocessors"


def configure(config: Config, file: str | Path) -> None:
    """Set up nbgrader for the course in whose folder `file` is.

    In ``nbgrader_config.py``, where later lines may change any of it::

        from autograder.nbgrader.config import configure

        configure(get_config(), __file__)

    Raises:
        CourseError: ``course.yml`` can't be used.
    """
    course = load_course(Path(file).resolve().parent)
    provide_alembic()
    config.CourseDirectory.root = str(course.root)
    if course.id is not None:
        config.CourseDirectory.course_id = course.id
    config.GradeSubmission.course_root = str(course.root)
    config.SaveDueDate.course_root = str(course.root)
    config.GenerateAssignment.force = True  # release/ is there before the gradebook is, and always made from source/
    config.GenerateAssignment.preprocessors = [*release_preprocessors(), f"{PREPROCESSORS}.SaveDueDate"]
    # All is done by the first: the second phase only writes the gradebook. Stock preprocessors would run student
    # code beside the gradebook, or print its scores from what student code has shown.
    config.Autograde.sanitize_preprocessors = [f"{PREPROCESSORS}.GradeSubmission"]
    config.Autograde.autograde_preprocessors = [
        f"{PREPROCESSORS}.SaveGrades",
        "nbgrader.preprocessors.AssignLatePenalties",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    config.GenerateFeedback.exporter_class = "autograder.feedback.exporter.FeedbackExporter"
    config.GenerateFeedback.preprocessors = ["autograder.feedback.exporter.GetMarks"]
    config.FeedbackExporter.titles = {name: assignment.title for name, assignment in course.assignments.items()}
    config.FeedbackExporter.language = course.language
    config.ExportApp.plugin_class = "autograder.nbgrader.plugins.CsvExport"


def nbgrader_of(course: Course, **coursedir: str) -> NbGrader:
    """nbgrader as its commands see it in the course's folder, ``nbgrader_config.py`` included.

    Args:
        course: the course.
        coursedir: traits of nbgrader's ``CourseDirectory`` to set, such as ``submitted_directory``.
    """
    defaults = Config()
    configure(defaults, course.root / COURSE_FILE)  # for a course without an nbgrader_config.py
    app = NbGrader(config=defaults)
    app.load_cwd_config = False  # the course's own counts, wherever we were called
    app.log_level = "CRITICAL"  # its tracebacks; what goes wrong is raised
    app.initialize([], root=str(course.root))
    for name, value in coursedir.items():
        setattr(app.coursedir, name, value)
    return app


def provide_alembic() -> None:
    """Put the folder of this Python's commands on ``PATH``, where no other alembic comes first.

    nbgrader calls ``alembic`` by its bare name when it makes a gradebook, and a virtual environment whose commands
    are called by their full paths is not on ``PATH``.
    """
    folder = str(Path(sys.executable).parent)  # not resolved: a virtual environment's python is a link out of it
    if shutil.which("alembic", path=folder) and shutil.which("alembic") != str(Path(folder) / "alembic"):
        os.environ["PATH"] = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])
