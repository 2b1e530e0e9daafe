"""nbgrader's configuration, derived from ``course.yml``; and the alembic that nbgrader calls by its bare name."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from nbgrader.apps.baseapp import NbGrader
from nbgrader.converters import base
from sqlalchemy.engine import make_url
from traitlets.config import Application, Config

from autograder.course import COURSE_FILE, Course, load_course
from autograder.errors import CourseError
from autograder.fingerprints import noting_configurations
from autograder.nbgrader.databases import database_of
from autograder.nbgrader.files import files_in, is_harmless
from autograder.release import release_preprocessors

PREPROCESSORS = "autograder.nbgrader.preprocessors"
DRIVER = "postgresql+psycopg"


def configure(config: Config, file: str | Path) -> None:
    """Set up nbgrader for the course in whose folder `file` is.

    In ``nbgrader_config.py``, where later lines may change any of it::

        from autograder.nbgrader.config import configure

        c = get_config()
        configure(c, __file__)

    Raises:
        CourseError: ``course.yml`` can't be used.
        SystemExit: it can't, and nbgrader's command would go on without it.
    """
    try:
        course = load_course(Path(file).resolve().parent)
        if course.database is not None:
            config.CourseDirectory.db_url = _database(course.database)
    except CourseError as error:
        if not _is_nbgrader():
            raise
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    confine(config)
    provide_alembic()
    _leave_out_what_is_not_harmless(course.root / "source")
    config.CourseDirectory.root = str(course.root)
    if course.id is not None:
        config.CourseDirectory.course_id = course.id
    config.GradeSubmission.course_root = str(course.root)
    config.SaveDueDate.course_root = str(course.root)
    config.GenerateAssignment.force = True  # release/ is there before the gradebook is, and always made from source/
    config.GenerateAssignment.preprocessors = [*release_preprocessors(), f"{PREPROCESSORS}.SaveDueDate"]
    config.FeedbackExporter.titles = {name: assignment.title for name, assignment in course.assignments.items()}
    config.FeedbackExporter.language = course.language


def confine(config: Config) -> None:
    """Set what keeps student code confined and its pages dead, whatever the course is.

    It also stands in the environment's own ``etc/jupyter/nbgrader_config.py``, since nbgrader logs what is wrong with a
    course's configuration and goes on without it. Its commands stop there instead.
    """
    if Application.initialized():
        Application.instance().raise_config_file_errors = True
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
    config.ExportApp.plugin_class = "autograder.nbgrader.plugins.CsvExport"


def nbgrader_of(course: Course, **coursedir: str) -> NbGrader:
    """nbgrader as its commands see it in the course's folder, ``nbgrader_config.py`` included.

    Args:
        course: the course.
        coursedir: traits of nbgrader's ``CourseDirectory`` to set, such as ``submitted_directory``.

    Raises:
        CourseError: a configuration file raises.
    """
    defaults = Config()
    configure(defaults, course.root / COURSE_FILE)  # for a course without an nbgrader_config.py
    app = NbGrader(config=defaults)
    app.load_cwd_config = False  # the course's own counts, wherever we were called
    app.raise_config_file_errors = True
    app.log_level = "CRITICAL"  # its tracebacks; what goes wrong is raised
    try:
        with noting_configurations():
            app.initialize([], root=str(course.root))
    except Exception as fault:  # noqa: BLE001 - the file is a program, and may raise anything
        raise CourseError(
            f"nbgrader's configuration can't be used ({type(fault).__name__}: {fault}); look at "
            f"{course.root / 'nbgrader_config.py'}, and at nbgrader_config.py in Jupyter's own folders."
        ) from None
    for name, value in coursedir.items():
        setattr(app.coursedir, name, value)
    return app


def _is_nbgrader() -> bool:
    """Whether this is one of nbgrader's own commands."""
    return Path(sys.argv[0]).stem == "nbgrader"


def _database(address: str) -> str:
    """The address of ``course.yml`` as nbgrader needs it.

    It names the driver, which is another in older versions of SQLAlchemy. A password is left out for nbgrader's own
    commands, since ``nbgrader db upgrade`` prints the address; libpq finds it in the environment.

    Raises:
        CourseError: this is one of these commands, and the driver is missing; ours tell it only if they need it.
    """
    address = re.sub(r"^[a-z+]+:", f"{DRIVER}:", address, count=1)
    if _is_nbgrader():
        database_of(address, "").expect_driver()
        if password := make_url(address).password:
            os.environ["PGPASSWORD"] = str(password)
            address = re.sub(r"(?<=//)([^:@/]*):[^@]*@", r"\1@", address, count=1)
    return address


_sources: set[Path] = set()
"""The source folders of the courses that were configured in this process."""


def _leave_out_what_is_not_harmless(source: Path) -> None:
    """Make nbgrader's converters copy no links, devices or live pages out of a student's folder.

    They follow links, which may lead to hidden tests or to the gradebook, and formgrader serves what they have copied.
    What authors have in `source` is theirs.
    """

    def find_all_files(path: str, exclude: list[str] | None = None) -> list[str]:
        found = list(files_in(path, exclude or []))
        if any(Path(path).resolve().is_relative_to(place) for place in _sources):
            return found
        return [name for name in found if is_harmless(name)]

    _sources.add(source)
    base.find_all_files = find_all_files


def provide_alembic() -> None:
    """Put the folder of this Python's commands on ``PATH``, where no other alembic comes first.

    nbgrader calls ``alembic`` by its bare name when it makes a gradebook, and a virtual environment whose commands
    are called by their full paths is not on ``PATH``.
    """
    folder = str(Path(sys.executable).parent)  # not resolved: a virtual environment's python is a link out of it
    if shutil.which("alembic", path=folder) and shutil.which("alembic") != str(Path(folder) / "alembic"):
        os.environ["PATH"] = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])
