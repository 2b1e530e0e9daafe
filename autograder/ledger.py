"""What a class run has left, and from what: so that the next one redoes nothing that stands as it would leave it.

A ledger is of one assignment in one gradebook. An entry of it holds only as long as all that the run read and wrote is
as it was: the submitted folder, the graded one, the rows, the rules. Of each it keeps what is needed to tell which of
them has changed, which is why a score is another.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from autograder import __version__
from autograder.course import STATE_FOLDER, Course, Limits, suite_hash
from autograder.errors import CourseError
from autograder.folders import Snapshot, as_text, drafts, is_as, snapshot
from autograder.kept import read_kept, tidy, use, write_kept
from autograder.nbgrader.rows import Rows
from autograder.report import GradeReport
from autograder.submissions import Submission

if TYPE_CHECKING:
    from autograder.results import Result

LEDGERS = "ledgers"
MAX_LEDGERS = 256 << 20
"""Bytes of all ledgers; those of the gradebooks that were used last stay."""
CONFIGURATIONS = ("jupyter_config.py", "jupyter_config.json", "nbgrader_config.py", "nbgrader_config.json")
INSTALLED = ("nbgrader-", "nbformat-", "nbconvert-", "traitlets-")
"""What the folders begin with that tell the versions of packages."""
PACKAGE = Path(__file__).parent


class Rules(msgspec.Struct, frozen=True):
    """What decides a score beside the submission, in parts, so that it can be told which of them is another."""

    all: str
    suites: str
    limits: str
    version: str
    seed: int
    tier: str

    def others(self, then: Rules) -> tuple[str, ...]:
        """What is another than `then`; keys of `autograder.results.REASONS`."""
        found = {
            "suite": self.suites != then.suites and self.version == then.version,
            "limits": self.limits != then.limits,
            "version": self.version != then.version,
            "seed": self.seed != then.seed,
            "tier": self.tier != then.tier,
        }
        return tuple(name for name, is_other in found.items() if is_other)


class Entry(msgspec.Struct, frozen=True):
    """What a run has left of one submission, and its `report` without the notebook's place."""

    submission: str
    name: str
    rules: Rules
    handed_in: Snapshot | None
    graded: Snapshot | None
    rows: Rows
    report: GradeReport
    waiting: tuple[str, ...] = ()
    adjusted: bool = False
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def entry_of(
    result: Result,
    digest: str,
    submission: Submission,
    rules: Rules,
    handed_in: Snapshot | None,
    graded: Snapshot | None,
    rows: Rows,
) -> Entry:
    """What this run leaves of a submission."""
    return Entry(
        submission=digest,
        name=as_text(submission.name),
        rules=rules,
        handed_in=handed_in,
        graded=graded,
        rows=rows,
        report=msgspec.structs.replace(result.report, notebook=""),
        waiting=result.waiting,
        adjusted=result.adjusted,
        remarks=result.remarks,
        left_out=result.left_out,
    )


class _Content(msgspec.Struct):
    """The file of a ledger."""

    place: str = ""
    frame: str = ""
    assignment: str = ""
    entries: dict[str, Entry] = {}


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
        kept = read_kept(self._path, _Content)
        self._content = kept if kept is not None and kept.place == place else _Content(place)
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
            and file_hash != ""  # nothing is known of a file that can't be read
            and entry.report.status == "graded"
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

    def enter(self, student: str, entry: Entry) -> None:
        """Note what this run leaves of it."""
        try:
            msgspec.msgpack.encode((student, entry))
        except (TypeError, ValueError, OverflowError):  # a name that is no text: it is recorded anew by every run
            return
        if not self.in_frame:
            # Another frame: no other entry holds for the next run either, though it tells what was before.
            blank = {name: msgspec.structs.replace(one, graded=None) for name, one in self._content.entries.items()}
            self._content.entries, self.in_frame = blank, True
        self._content.entries[student] = entry

    def save(self, assignment_rows: str) -> None:
        """Keep it for the next run."""
        if self.in_frame:
            self._content.frame, self._content.assignment = self._frame, assignment_rows
            content = msgspec.msgpack.encode(self._content)
            write_kept(self._path, content)
            tidy(self._path.parent, MAX_LEDGERS)


def rules_of(course: Course, assignment: str, seed: int) -> Rules:
    """What decides the scores of an assignment now."""
    plain = msgspec.structs.replace(course, limits=Limits())
    return Rules(
        all=suite_hash(course, assignment),
        suites=suite_hash(plain, assignment),
        limits=_hash([msgspec.json.encode(course.limits)]),
        version=__version__,
        seed=seed,
        tier=course.confinement.grade,
    )


def frame_of(course: Course, assignment: str, configuration: str) -> str:
    """A hash of what the files and rows of a whole class hang on beside its rules.

    Args:
        course: the course.
        assignment: which one.
        configuration: `fingerprint` of nbgrader's.
    """
    source = course.source_notebook(assignment).parent
    parts = [configuration.encode(), course.language.encode(), str(course.assignment(assignment).due).encode()]
    for name, seen in sorted((snapshot(source) or {}).items()):
        parts += [name.encode(), str(seen.mode).encode(), seen.content]
    return _hash(parts)


class Setting(msgspec.Struct, frozen=True):
    """Where the class is and how nbgrader is set up, as the last run found it; `modules` are what that hangs on."""

    configuration: str
    modules: tuple[str, ...]
    submitted: str
    graded: str
    database: str
    excluded: tuple[str, ...]


def setting_of(course: Course, *options: Path | None) -> Setting | None:
    """What the last run with the same options found; None where there was none."""
    path = _setting_file(course, options)
    use([path])
    return read_kept(path, Setting)


def keep_setting(course: Course, setting: Setting, *options: Path | None) -> None:
    """Keep what this run has found for the next one with the same options, which name folders."""
    with suppress(UnicodeError):  # a folder's name that is no text
        write_kept(_setting_file(course, options), msgspec.msgpack.encode(setting))


def _setting_file(course: Course, options: Iterable[Path | None]) -> Path:
    named = [os.fsencode(option.resolve()) if option is not None else b"" for option in options]
    return course.root / STATE_FOLDER / LEDGERS / f"{_hash([os.fsencode(Path.cwd()), *named])}-setting"


def fingerprint(course: Course, modules: Iterable[str]) -> str:
    """A hash of nbgrader's configuration and of the code that applies it.

    That is each file in which Jupyter looks for it, the modules of the user's own that these import, the environment
    variables that they name, and the versions and files of the packages.
    """
    from jupyter_core.paths import jupyter_config_dir, jupyter_config_path

    folders = dict.fromkeys([str(course.root), jupyter_config_dir(), *jupyter_config_path()])
    files = [os.path.join(folder, name) for folder in folders for name in CONFIGURATIONS]
    parts, words = [], set()
    for path in [*files, *sorted(modules)]:
        try:
            content = Path(path).read_bytes()
        except OSError:
            continue
        parts += [os.fsencode(path), content]
        words |= set(re.findall(rb"\w+", content))
    named = sorted(name for name in os.environ if os.fsencode(name) in words)
    parts += [os.fsencode(f"{name}={os.environ[name]}") for name in named]
    for packages in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        parts += sorted(os.fsencode(name) for name in os.listdir(packages) if name.startswith(INSTALLED))
    for file in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.mo")]):
        status = file.stat()
        parts += [os.fsencode(file), f"{status.st_size} {status.st_mtime_ns}".encode()]
    return _hash(parts)


def own_modules() -> tuple[str, ...]:
    """The files of the imported modules that are of no installed package: what a configuration has imported."""
    installed = {os.path.realpath(path) for path in sysconfig.get_paths().values()} | {os.path.realpath(PACKAGE)}
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    found = {os.path.realpath(file) for file in files if file}
    return tuple(sorted(path for path in found if not any(path.startswith(f"{one}{os.sep}") for one in installed)))


@contextmanager
def alone(course: Course, graded: Path) -> Iterator[None]:
    """Keep other class runs out while this one writes; the lock ends with the process, however it ends.

    It does not keep out nbgrader's own commands, which know nothing of it.

    Args:
        course: the course.
        graded: the folder of graded notebooks.

    Raises:
        CourseError: another run is at work here.
    """
    place = hashlib.sha256(str(graded.resolve()).encode()).hexdigest()[:16]
    path = course.root / STATE_FOLDER / f"grade-{place}.lock"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CourseError(f"another `autograder grade` is writing to {graded}; wait until it has ended.") from None
        yield


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
