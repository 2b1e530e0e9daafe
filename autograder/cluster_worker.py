"""A worker's side of a class that is graded on several machines: what crosses, and the one warm grader of a process.

A worker has a copy of the course: the folder that ``AUTOGRADER_COURSE`` names, or else the one that its working folder
lies in. It grades only where all that decides a score is there as it is where the class is recorded
(`autograder.course.suite_hash`).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import msgspec

from autograder import __version__
from autograder.course import COURSE_FILE, Course, Tier, find_course, load_course, suite_hash
from autograder.errors import AutograderError, CourseError
from autograder.grading import Graded, Grader
from autograder.messages import N_, message

COURSE_VARIABLE = "AUTOGRADER_COURSE"
PACKAGE = Path(__file__).parent
MAX_TOLD = 3
"""How many packages that differ are told."""
_State = frozenset[tuple[str, int, int]]
"""Files with their times and sizes."""


class Rules(msgspec.Struct, frozen=True):
    """What decides scores, as one machine has it.

    Attributes:
        suites: `suite_hash` of each assignment that is asked for; empty of one that is not there.
        tier: the confinement that grading requires.
    """

    suites: dict[str, str]
    tier: Tier


NO_RULES = Rules({}, "A")


class Machine(msgspec.Struct, frozen=True):
    """What is compared where the rules of two machines differ, to tell in what; `changed` since it began to grade.

    `suites` are those of its `Rules`.
    """

    version: str
    python: str
    packages: tuple[str, ...]
    tier: str
    changed: bool = False
    suites: dict[str, str] = {}


class Task(msgspec.Struct, frozen=True):
    """What a worker is asked: to be warm, or to grade a file of these bytes as well."""

    rules: Rules
    assignment: str = ""
    seed: int = 0
    content: bytes | None = None


class Reply(msgspec.Struct, frozen=True):
    """What a worker answers.

    Attributes:
        worker: its name, for people.
        graded: the result, and `place` what its sentences call the file.
        points: as `Grader.points`, from one that is asked to be warm.
        fault: why it can't grade: a name of `FAULTS`, and the sentence.
        other: it would grade by other rules than it was asked to.
    """

    worker: str
    graded: Graded | None = None
    place: str = ""
    points: dict[str, dict[str, float]] = {}
    fault: tuple[str, str] | None = None
    other: Machine | None = None


def perform(task: bytes) -> bytes:
    """Do a `Task` in a worker of the cluster; the `Reply`."""
    from distributed import get_worker

    asked = msgspec.msgpack.decode(task, type=Task)
    name = f"{socket.gethostname()} ({get_worker().address})"
    try:
        if asked.content is None:
            _bench.look()
            with _bench.grader(asked.rules) as grader:
                return msgspec.msgpack.encode(Reply(name, points=grader.points))
        graded, place = _bench.grade(asked, asked.content)
    except _OtherRules as error:
        return msgspec.msgpack.encode(Reply(name, other=error.args[0]))
    except AutograderError as error:
        return msgspec.msgpack.encode(Reply(name, fault=(type(error).__name__, str(error))))
    return packed(name, graded, place)


def packed(name: str, graded: Graded, place: str) -> bytes:
    """The `Reply` with a result; one that can't be sent is a human's."""
    try:
        return msgspec.msgpack.encode(Reply(name, graded, place))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:  # values that no honest notebook holds
        said = message(N_("the grader failed: {fault}"), fault=f"the result can't be sent ({type(error).__name__})")
        report = msgspec.structs.replace(graded.report, status="ungraded", score=None, exercises=(), error=said)
        return msgspec.msgpack.encode(Reply(name, Graded(report), place))


class _OtherRules(Exception):
    """This worker would grade by other rules than it is asked to; the argument is the `Machine`."""


class _Bench:
    """The one warm grader of a worker's process, for all its threads, from the first task to the worker's end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._grader: Grader | None = None
        self._rules = NO_RULES
        self._users = 0
        self._package = _state_of_package()
        self._course: Course | None = None
        self._files: _State = frozenset()
        atexit.register(self._close)

    def grade(self, asked: Task, content: bytes) -> tuple[Graded, str]:
        """A result, and what its sentences call the file; a second time where the examiner has ended meanwhile."""
        for _ in range(2):
            self.look(closely=False)
            with self.grader(asked.rules) as grader, _as_file(content) as place:
                graded = grader.grade(place, asked.assignment, asked.seed)
                is_fault = graded.report.status == "ungraded" and not graded.undecided
                if not is_fault or grader.serves():
                    break
            self._drop(grader)
        return graded, str(place)

    @contextlib.contextmanager
    def grader(self, rules: Rules) -> Iterator[Grader]:
        """A grader by these rules, which stays open meanwhile; another one is closed when nobody uses it any more.

        Raises:
            _OtherRules: there are other rules here.
            AutograderError: this machine can't grade.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._fits(rules) or not self._users)
            if not self._fits(rules):
                self._replace(rules)
            assert self._grader is not None
            grader = self._grader
            self._users += 1
        try:
            yield grader
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def _fits(self, rules: Rules) -> bool:
        is_same = rules.suites.items() <= self._rules.suites.items() and rules.tier == self._rules.tier
        return self._grader is not None and is_same

    def look(self, closely: bool = True) -> None:
        """Use the grader no longer where what it was made of has changed.

        Each class run begins so, and each task, which reads the files only where their times or sizes are others.
        """
        with self._changed:
            if self._course is None or self._rules == NO_RULES:
                return
            if self._is_outdated():
                self._rules = NO_RULES
            elif closely or _state_of_course(self._course) != self._files:
                try:
                    _, here, self._files = self._here()
                except OSError:  # in the middle of a change
                    here = NO_RULES
                if here != self._rules:
                    self._rules = NO_RULES

    def _here(self) -> tuple[Course, Rules, _State]:
        course = load_course(_place_of_course())
        files = _state_of_course(course)  # before they are read, so that a change meanwhile is noticed
        # All of them: a class run that asks for another assignment finds it warm.
        return course, all_rules(course), files

    def _is_outdated(self) -> bool:
        return self._package != _state_of_package()

    def _replace(self, rules: Rules) -> None:
        from distributed import get_worker

        try:
            course, here, files = self._here()
        except OSError:
            raise _OtherRules(this_machine(rules, changed=True)) from None
        if self._is_outdated() or rules.tier != here.tier or not rules.suites.items() <= here.suites.items():
            raise _OtherRules(this_machine(here, self._is_outdated()))
        self._close()
        grader = Grader(course, here.tier, get_worker().state.nthreads)
        try:
            grader.wait()
        except BaseException:
            grader.close()
            raise
        self._grader, self._rules, self._course, self._files = grader, here, course, files

    def _drop(self, grader: Grader) -> None:
        """Use it for no other task; it is closed with its last one."""
        with self._changed:
            if self._grader is grader:
                self._rules = NO_RULES

    def _close(self) -> None:
        if self._grader is not None:
            self._grader.close()
        self._grader, self._rules = None, NO_RULES


def _place_of_course() -> Path:
    if named := os.environ.get(COURSE_VARIABLE):
        return Path(named)
    try:
        return find_course(Path.cwd())
    except CourseError:
        raise CourseError(
            f"there is no {COURSE_FILE} in {Path.cwd()} or above it; start it in its copy of the course, or with "
            f"{COURSE_VARIABLE}=/path/to/course."
        ) from None


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[Path]:
    """A file of these bytes that lies in no folder, so that nothing of a student stays on a worker."""
    descriptor = os.memfd_create("submission")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        yield Path(f"/proc/self/fd/{descriptor}")


def all_rules(course: Course) -> Rules:
    """What decides the scores of all assignments."""
    return Rules({name: suite_hash(course, name) for name in course.assignments}, course.confinement.grade)


def this_machine(rules: Rules, changed: bool = False) -> Machine:
    """What there is on this machine."""
    # As the suites' hash has them: not by `sys.path`, which grows with what happens to be imported.
    folders = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    packages = {f"{one.name} {one.version}" for one in metadata.distributions(path=folders)}
    return Machine(__version__, sys.version, tuple(sorted(packages)), rules.tier, changed, rules.suites)


def difference(here: Machine, there: Machine) -> str:
    """The first reason why two machines' rules differ."""
    if there.changed:
        return "autograder was changed there since that worker began, so that it has to be started again"
    if there.version != here.version:
        return f"it has autograder {there.version}, and this machine {here.version}"
    if there.python != here.python:
        return f"it has Python {there.python.split()[0]}, and this machine {here.python.split()[0]}"
    if there.tier != here.tier:
        return f"its {COURSE_FILE} requires the confinement {there.tier}, and this machine's {here.tier}"
    only = [(set(one.packages) - set(other.packages)) for one, other in ((there, here), (here, there))]
    if any(only):
        theirs, ours = (", ".join(sorted(names)[:MAX_TOLD]) or "no such package" for names in only)
        return f"it has {theirs}, and this machine {ours}"
    if missing := here.suites.keys() - there.suites.keys():
        return f"its course has no {', '.join(sorted(missing))}"
    others = [name for name, suite in here.suites.items() if there.suites[name] != suite]
    if 0 < len(others) < len(here.suites):  # what they have in common is alike
        return f"its hidden tests, source notebook or rules in {COURSE_FILE} are others (seen in: {', '.join(others)})"
    return "its copy of the course or of autograder is another (hidden tests, source notebooks, limits or rules)"


def _state_of(places: Iterable[Path], suffix: str = "") -> _State:
    """What tells that files, or those in folders, have changed: what is in memory then is not what is there."""
    found = set()
    for place in places:
        files = [] if place.is_dir() else [str(place)]
        for folder, folders, names in os.walk(place):
            if "__pycache__" in folders:
                folders.remove("__pycache__")
            files += [f"{folder}/{name}" for name in names if name.endswith(suffix)]
        for path in files:
            with contextlib.suppress(OSError):
                status = os.stat(path)
                found.add((path, status.st_mtime_ns, status.st_size))
    return frozenset(found)


def _state_of_package() -> _State:
    return _state_of([PACKAGE], ".py")


def _state_of_course(course: Course) -> _State:
    """Of the files that `suite_hash` reads, and a few more."""
    places = {course.root / COURSE_FILE}
    for name in course.assignments:
        places |= {course.hidden_folder(name).parent, course.source_notebook(name), course.release_notebook(name)}
    return _state_of(places)


_bench = _Bench()
