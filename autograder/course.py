"""What the course is: ``course.yml`` as frozen structs, the seed, and the hash of the hidden suites.

Points are not here: they stand beside their checks, in the hidden suites.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import os
import secrets
import sys
import sysconfig
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from autograder import __version__
from autograder._yaml import YamlFile, did_you_mean
from autograder.errors import CourseError

COURSE_FILE = "course.yml"
STATE_FOLDER = ".autograder"
HASHED_PARTS = ("channel", "examiner", "suite", "worker")
HASHED_MODULES = (
    "definitions.py",
    "grading.py",
    "matching.py",
    "mend.py",
    "merging.py",
    "notebook.py",
    "report.py",
    "rescue.py",
    "restoration.py",
    "runnable.py",
    "stubs.py",
)
JUDGED_BY = b"judged_by("
"""In a suite that makes use of another assignment's."""
SEED_LIMIT = 2**31
DATABASES = ("postgresql://", "postgresql+psycopg://")
"""What the address of a gradebook's database begins with."""

Tier = Literal["A", "B", "C"]
"""How well student code is confined, best first; a required tier means this one or a better one."""

# Each description completes the sentence "<key> must be ...".
Text = Annotated[str, Meta(min_length=1, description="a text")]
Language = Annotated[str, Meta(pattern=r"^[a-z]{2,3}(_[A-Z]{2})?$", description="a language such as en or zh_CN")]
Seconds = Annotated[float, Meta(gt=0, le=86400, description="a number of seconds above 0 and at most 86400")]
Restarts = Annotated[int, Meta(ge=0, le=100, description="a whole number from 0 to 100")]
Kilobytes = Annotated[int, Meta(ge=1, le=1_048_576, description="a whole number from 1 to 1048576")]
Megabytes = Annotated[int, Meta(ge=1, le=1_048_576, description="a whole number from 1 to 1048576")]
# Below this `import torch` itself fails, and every student would get 0 for it.
WorkerMegabytes = Annotated[int, Meta(ge=1024, le=1_048_576, description="a whole number from 1024 to 1048576")]
Minutes = Annotated[int, Meta(ge=1, le=10_000, description="a whole number from 1 to 10000")]
Due = Annotated[datetime.datetime, Meta(description="a date and time such as 2026-12-20T23:59:00+08:00")]
RequiredTier = Annotated[Tier, Meta(description="A, B or C")]
DottedName = Annotated[str, Meta(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
DottedNames = Annotated[
    tuple[DottedName, ...],
    Meta(description="a list of dotted names such as torch.nn.MultiheadAttention"),
]
GroupNames = Annotated[tuple[str, ...], Meta(description="a list of groups that stand under `forbidden`")]
YesOrNo = Annotated[bool, Meta(description="true or false")]
CourseId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        description="a short name of letters, digits, -, _ and ., with a letter or a digit first",
    ),
]
DatabaseAddress = Annotated[
    str, Meta(description="the address of a PostgreSQL database such as postgresql://db.example.org/attention")
]
AssignmentName = Annotated[str, Meta(pattern=r"^[A-Za-z]\w*$", description="a name of letters, digits and _")]
ExerciseName = Annotated[str, Meta(pattern=r"^[A-Za-z_]\w*$", description="the name of a function")]
ValueName = Annotated[str, Meta(pattern=r"^[A-Za-z_]\w*$", description="the name of a variable")]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one submission may use."""

    call_seconds: Seconds = 10.0
    cell_seconds: Seconds = 60.0
    submission_seconds: Seconds = 300.0
    memory_mb: WorkerMegabytes = 3072
    output_kb: Kilobytes = 1024  # of one cell
    scratch_mb: Megabytes = 64
    restarts: Restarts = 3


class ConfinementPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tier that each command requires; less is refused."""

    grade: RequiredTier = "B"
    check: RequiredTier = "C"


class Exercise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One exercise.

    Attributes:
        forbidden: groups of the course's `forbidden` that its answer may not reach.
        manual: a human grades it; its points stand in its cell of the source notebook.
        value: the variable that it asks for, where that is no function of the exercise's own name.
    """

    name: ExerciseName
    forbidden: GroupNames = ()
    manual: YesOrNo = False
    value: ValueName | None = None

    @property
    def answer(self) -> str:
        """What the notebook calls the answer."""
        return self.value or self.name


class Assignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One assignment, which is one notebook."""

    name: AssignmentName
    title: Text
    exercises: dict[str, Exercise]
    minutes: Minutes = 30
    due: Due | None = None


class Course(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole course; `root` is the folder that holds ``course.yml``.

    `database` is where nbgrader's gradebook is kept, if not in ``gradebook.db``; there may be a password in it.
    """

    root: Path
    title: Text
    assignments: dict[str, Assignment]
    id: CourseId | None = None  # the course's name in nbgrader's exchange
    language: Language = "en"
    database: DatabaseAddress | None = None
    limits: Limits = Limits()
    confinement: ConfinementPolicy = ConfinementPolicy()
    forbidden: dict[str, DottedNames] = {}

    def assignment(self, name: str) -> Assignment:
        """The assignment of that name, or a `CourseError` that lists those there are."""
        try:
            return self.assignments[name]
        except KeyError:
            has = ", ".join(self.assignments)
            raise CourseError(f"{COURSE_FILE} has no assignment '{name}'; it has: {has}.") from None

    def suites(self, assignment: str) -> tuple[str, ...]:
        """The exercises of an assignment that a hidden suite grades; a human grades the others."""
        return tuple(name for name, exercise in self.assignment(assignment).exercises.items() if not exercise.manual)

    def forbidden_names(self, assignment: str, exercise: str) -> tuple[str, ...]:
        """The dotted names that an answer to this exercise may not call, in the order of ``course.yml``."""
        groups = self.assignment(assignment).exercises[exercise].forbidden
        return tuple(dict.fromkeys(name for group in groups for name in self.forbidden[group]))

    def source_notebook(self, assignment: str) -> Path:
        """The instructor's notebook, with solutions."""
        return self.root / "source" / assignment / f"{assignment}.ipynb"

    def release_notebook(self, assignment: str) -> Path:
        """The notebook that students get."""
        return self.root / "release" / assignment / f"{assignment}.ipynb"

    def hidden_folder(self, assignment: str) -> Path:
        """Where the hidden suites and the known mistakes of an assignment are."""
        return self.root / "tests" / "hidden" / assignment


def find_course(start: Path) -> Path:
    """The nearest folder with a ``course.yml``, from `start` upwards."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / COURSE_FILE).is_file():
            return folder
    raise CourseError(
        f"there is no {COURSE_FILE} in {start} or above it; go into the course's folder, or name it with --course."
    )


def load_course(root: Path) -> Course:
    """Read ``course.yml`` in `root`.

    Raises:
        CourseError: one sentence with the line, the key, and what is expected there.
    """
    file = YamlFile(root / COURSE_FILE)
    course = file.struct(Course, root=root)
    if not course.assignments:
        raise file.error(("assignments",), "must name at least one assignment")
    _check_database(file, course.database)
    for assignment in course.assignments.values():
        if assignment.due is not None and assignment.due.tzinfo is None:
            raise file.error(
                ("assignments", assignment.name, "due"), "must name its time zone, as 2026-12-20T23:59:00+08:00 does"
            )
        for exercise in assignment.exercises.values():
            _check_value(file, assignment, exercise)
            for group in exercise.forbidden:
                if group not in course.forbidden:
                    key = ("assignments", assignment.name, "exercises", exercise.name, "forbidden")
                    near = did_you_mean(group, course.forbidden)
                    raise file.error(key, f"names the group '{group}', which is not under `forbidden`{near}")
    return course


def _check_database(file: YamlFile, address: str | None) -> None:
    """Refuse an address that can't be understood, without showing it: there may be a password in it."""
    key = ("database",)
    if address is None:
        return
    if not address.startswith(DATABASES):
        raise file.error(
            key,
            "must begin with postgresql://, as in postgresql://db.example.org/attention; "
            "leave it out for a gradebook in a file of SQLite",
        )
    try:
        parts = urlsplit(address)
        is_odd = parts.netloc.count("@") > 1 or parts.port == 0
    except ValueError:
        is_odd = True
    if is_odd:
        raise file.error(
            key,
            "can't be understood: its parts are postgresql://user@host:port/database, and signs of a password such as "
            "@, : and / are written %40, %3A and %2F there; it is better kept in ~/.pgpass",
        )


def _check_value(file: YamlFile, assignment: Assignment, exercise: Exercise) -> None:
    """Refuse an exercise for a value that could not be graded as its other keys say."""
    key = ("assignments", assignment.name, "exercises", exercise.name)
    if exercise.value is not None and exercise.manual:
        raise file.error(
            (*key, "value"), "does not go together with `manual`: a human looks at the cell, not at a value"
        )
    if exercise.value is not None and exercise.forbidden:
        raise file.error((*key, "forbidden"), "has no effect on a value: what is looked at is how a function is called")
    if exercise.answer in [one.answer for one in assignment.exercises.values() if one is not exercise]:
        raise file.error((*key, "value"), f"asks for '{exercise.answer}', as another exercise of the assignment does")


def course_seed(course: Course) -> int:
    """The seed of the course's random draws: drawn once, then read from ``.autograder/seed``.

    Where that file can't be written, the draw serves this run alone, so call this once in a run.
    """
    path = course.root / STATE_FOLDER / "seed"
    for _ in range(2):
        try:
            text = path.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            drawn = secrets.randbelow(SEED_LIMIT)
            if not _create_once(path, f"{drawn}\n"):
                return drawn
            continue  # read it back: another process may have been first
        except OSError as fault:
            raise CourseError(f"the course's seed in {path} can't be read: {fault.strerror}.") from None
        if text.isdecimal() and len(text) <= 10 and int(text) < SEED_LIMIT:
            return int(text)
        raise CourseError(
            f"{path} does not hold a whole number below {SEED_LIMIT}; restore it, or delete it to draw a new seed."
        )
    return drawn


def suite_hash(course: Course, assignment: str) -> str:
    """SHA-256 (hex) of all that decides a score beside the submission and the seed.

    That is the assignment's hidden files, those of other assignments that they make use of, its source notebook (or,
    where there is none, what was released), the parts of this package that mend, run and examine, its version, what is
    installed beside it, and the rules of ``course.yml`` that they apply.
    """
    hidden = course.hidden_folder(assignment)
    exercises = course.assignment(assignment).exercises
    if course.suites(assignment) and not any(hidden.glob("test_*.py")):
        raise CourseError(f"{hidden} holds no hidden suite (test_<exercise>.py).")
    digest = hashlib.sha256()
    _feed(digest, "version", __version__.encode())
    _feed(digest, "environment", "\n".join((sys.version, *_installed())).encode())
    _feed(digest, "limits", msgspec.json.encode(course.limits))
    rules = {
        name: (exercise.value, exercise.manual, course.forbidden_names(assignment, name))
        for name, exercise in exercises.items()
    }
    _feed(digest, "rules", msgspec.json.encode(rules))
    package = Path(__file__).parent
    source, release = course.source_notebook(assignment), course.release_notebook(assignment)
    released = source if source.is_file() else release  # as `autograder.mend.released_notebook` takes them
    _feed(digest, "source", released.read_bytes() if released.is_file() else b"")
    for name in HASHED_MODULES:
        _feed(digest, name, (package / name).read_bytes())
    if any(JUDGED_BY in path.read_bytes() for path in hidden.rglob("*.py")):
        hidden = hidden.parent
    # Beside the suites may lie what they read.
    parts = [("hidden", hidden, "*"), *((part, package / part, "*.py") for part in HASHED_PARTS)]
    for label, folder, pattern in parts:
        for path in sorted(folder.rglob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                _feed(digest, f"{label}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _installed() -> tuple[str, ...]:
    """What is installed, with its versions: torch decides numbers, and what can be imported decides what runs."""
    # Not by `sys.path`: what happens to be imported adds to it.
    folders = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    return tuple(sorted(info.name for folder in folders for info in folder.glob("*.dist-info")))


def _feed(digest: Any, name: str, content: bytes) -> None:
    """Add one named part; its length stands before it, so that no two lists of parts look alike."""
    digest.update(f"{name}\0{len(content)}\0".encode())
    digest.update(content)


def _create_once(path: Path, text: str) -> bool:
    """Create a file whole, unless it exists; False where it can't be written.

    A hard link to a finished file is the one step that creates it and never replaces another's.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError:
        return False
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
