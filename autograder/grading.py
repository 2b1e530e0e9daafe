"""The way of a submission, from a file to a report: read, mend, examine, report. No database, no terminal."""

from __future__ import annotations

import itertools
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from autograder.course import COURSE_FILE, STATE_FOLDER, Course, Tier, suite_hash
from autograder.errors import AutograderError, CourseError, GraderFault, UnusableNotebook
from autograder.examiner.client import Examiner, Lane, LaneLost, deadline_of
from autograder.examiner.job import Examined, Job, JobCell, JobExercise, KnownJob
from autograder.mend import Mended, Undecided, mend, recognise, released_notebook
from autograder.messages import N_, Message, message
from autograder.notebook import Notebook, read_notebook
from autograder.report import ExerciseReport, GradeReport, Status, total, without_score

TIERS: tuple[Tier, ...] = ("A", "B", "C")
ATTEMPTS = 2
"""How often a submission is handed in to the examiner, all in its one time; only once where it has cost a lane."""
AHEAD = 32
"""How many submissions are begun for each lane before their turn to be recorded."""
MAX_BATCH = 6
"""Answers without a notebook that share a worker: its start takes as long as a small suite."""
RESET = "%reset -f"
"""What runs behind each of them, so that the next one finds no names of it."""


@dataclass(frozen=True)
class Graded:
    """A report, and what it was made from.

    Attributes:
        mended: the submission as the course knows it; None where it could not be read.
        examined: what the run left, outputs by cell number, and where the time went (seconds).
        undecided: why there is no score is in the submission, and no fault of the grader.
    """

    report: GradeReport
    mended: Mended | None = field(default=None, repr=False)
    examined: Examined | None = field(default=None, repr=False)
    undecided: bool = False


Submitted = tuple[Path | Notebook, str | None]
"""A notebook, or its file, and which assignment it answers: recognised from the notebook when None."""


class ClassGrader(Protocol):
    """What a class run needs of whoever examines for it, here or on other machines; it begins to warm up at once."""

    def wait(self) -> None:
        """Return when it is warm."""

    def grade_many(self, submissions: Iterable[tuple[Path, str]], seed: int) -> Iterator[Graded]:
        """Grade these files, each of which answers an assignment; the results come in their order."""

    def close(self) -> None:
        """Stop, in the middle of a submission too."""


class AloneAnswer(NamedTuple):
    """An answer without a notebook: the text of the one cell that defines an exercise's function."""

    assignment: str
    exercise: str
    source: str


class KnownMistake(NamedTuple):
    """A known mistake of a hidden suite as an answer, by its name."""

    assignment: str
    exercise: str
    id: str


class Grader:
    """Grades notebooks of a course, in up to `workers` lanes at a time.

    Args:
        course: the course.
        required: the weakest confinement that is accepted.
        workers: how many submissions are examined at a time.
        follow: whether a notebook may be a link; see `read_notebook`.
        assignments: what it will grade, which is what its suites are rehearsed for; all of the course by default.

    It begins to warm up at once. A ``with`` statement waits until it can grade.

    Raises:
        CourseError: an exercise has no hidden suite.
    """

    def __init__(
        self,
        course: Course,
        required: Tier,
        workers: int = 1,
        follow: bool = True,
        assignments: Sequence[str] = (),
    ) -> None:
        self._course, self._follow, self._workers = course, follow, workers
        tiers = TIERS[: TIERS.index(required) + 1]
        _expect_suites(course)
        log = course.root / STATE_FOLDER / "examiner.log"
        with_suites = [name for name in assignments if course.suites(name)]
        training = any(_trains(course.source_notebook(name)) for name in assignments or course.assignments)
        self._examiner = Examiner(course.root / "tests" / "hidden", tiers, log, with_suites, training=training)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="grader")
        self._lanes = threading.local()
        self._open: list[Lane] = []
        self._opening = threading.Lock()
        self._hashes: dict[str, str] = {}
        self._closed = False

    def wait(self) -> None:
        """Return when it is warm.

        Raises:
            ConfinementUnavailable: this machine can't confine student code as required.
            CourseError, GraderFault: the hidden suites can't be used, or the examiner did not start.
        """
        self._examiner.wait()

    @property
    def points(self) -> dict[str, dict[str, float]]:
        """What each exercise is worth, by assignment, as its checks declare it."""
        return self._examiner.points

    def serves(self) -> bool:
        """Whether it can still examine: no longer where its examiner has ended."""
        try:
            self._examiner.lane().close()
        except GraderFault:
            return False
        return True

    def grade(self, submission: Path | Notebook, assignment: str | None, seed: int) -> Graded:
        """Grade one notebook; what can't be read or graded is told in the report, never raised.

        Args:
            submission: the notebook, or its file.
            assignment: which one it answers; recognised from the notebook when None.
            seed: of the suites' random draws.
        """
        path = submission.path if isinstance(submission, Notebook) else submission
        try:
            notebook = submission if isinstance(submission, Notebook) else read_notebook(submission, self._follow)
            assignment = assignment or recognise(notebook, self._course)
            mended = mend(notebook, self._course, assignment)
        except UnusableNotebook as error:
            return Graded(self._unusable(path, assignment, seed, str(error)))
        except Undecided as error:
            report = self._without_score(path, assignment, seed, "ungraded", error.doubt)
            return Graded(report, error.mended, undecided=True)
        except AutograderError:
            raise  # the course itself is wrong: no submission can be graded
        except Exception as error:  # noqa: BLE001 - a notebook that we stumble over must not stop the class
            return Graded(self._stumbled(path, assignment, seed, f"{type(error).__name__}: {error}"))
        job = Job(assignment, mended.cells, mended.exercises, seed, self._course.limits)
        try:
            examined = self._examine(job)
        except GraderFault as fault:
            return Graded(self._report(notebook, job, mended, None, str(fault)), mended)
        report = self._report(notebook, job, mended, examined, None)
        if notebook.cut and report.status == "graded" and not report.complete:
            said = message(N_("part of the file is lost, and a person has to see whether what is missing stood there"))
            report = self._without_score(path, assignment, seed, "ungraded", said)
            return Graded(replace(report, repairs=mended.repairs), mended, examined, undecided=True)
        return Graded(report, mended, examined)

    def grade_many(self, submissions: Iterable[Submitted], seed: int) -> Iterator[Graded]:
        """Grade many notebooks in parallel, as `grade` does; the results come in the order of `submissions`.

        Only so many are begun before their turn that one which takes its whole time keeps no lane waiting: a class of
        any size takes the same memory.
        """
        waiting, begun = iter(submissions), deque[Future[Graded]]()
        while True:
            for submission, assignment in itertools.islice(waiting, AHEAD * self._workers - len(begun)):
                begun.append(self._pool.submit(self.grade, submission, assignment, seed))
            if not begun:
                return
            yield begun.popleft().result()

    def examine(self, answers: Sequence[AloneAnswer | KnownMistake], seed: int) -> Iterator[ExerciseReport]:
        """Examine answers without notebooks around them, in parallel; the reports come in the order of `answers`.

        Raises:
            GraderFault: one could not be examined.
        """
        jobs = [self._job(together, seed) for together in _batches(answers)]
        for examined in self._pool.map(self._examine, jobs):
            yield from examined.exercises

    def _job(self, answers: Sequence[AloneAnswer | KnownMistake], seed: int) -> Job | KnownJob:
        first = answers[0]
        if isinstance(first, KnownMistake):
            return KnownJob(first.assignment, first.exercise, first.id, seed)
        sources = [source for answer in answers if isinstance(answer, AloneAnswer) for source in (answer.source, RESET)]
        cells = tuple(JobCell(number, source) for number, source in enumerate(sources))
        forbidden = self._course.forbidden_names(first.assignment, first.exercise)
        value = self._course.assignment(first.assignment).exercises[first.exercise].value
        asked = tuple(
            JobExercise(first.exercise, place + 1, untouched=False, forbidden=forbidden, since=place, value=value)
            for place in range(0, len(cells), 2)
        )
        limits = self._course.limits
        limits = replace(limits, submission_seconds=limits.submission_seconds * len(asked))
        return Job(first.assignment, cells, asked, seed, limits)

    def close(self) -> None:
        """End the examiner and its workers, in the middle of a submission too."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._opening:
            self._closed = True
            for lane in self._open:
                lane.close()
        self._pool.shutdown()
        self._examiner.close()

    def __enter__(self) -> Grader:
        try:
            self.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _examine(self, job: Job | KnownJob) -> Examined:
        deadline = deadline_of(job)
        for attempt in range(ATTEMPTS):
            lane: Lane | None = getattr(self._lanes, "lane", None)
            try:
                if lane is None:
                    lane = self._lanes.lane = self._new_lane()
                return lane.examine(job, deadline)
            except GraderFault as fault:
                if lane is not None:
                    self._give_up(lane)
                if isinstance(fault, LaneLost) or attempt + 1 == ATTEMPTS or self._closed:
                    raise
        raise AssertionError("unreachable")

    def _give_up(self, lane: Lane) -> None:
        lane.close()
        self._lanes.lane = None
        with self._opening, suppress(ValueError):  # not one that `close` has met
            self._open.remove(lane)

    def _new_lane(self) -> Lane:
        with self._opening:
            if self._closed:
                raise GraderFault("the grader is closed")
            lane = self._examiner.lane()
            self._open.append(lane)
            return lane

    def _report(
        self, notebook: Notebook, job: Job, mended: Mended, examined: Examined | None, fault: str | None
    ) -> GradeReport:
        points = self._examiner.points[job.assignment]
        exercises = (
            examined.exercises
            if examined
            else tuple(ExerciseReport(exercise.id, None, points[exercise.id]) for exercise in job.exercises)
        )
        score = total([exercise.score for exercise in exercises])
        return GradeReport(
            notebook=str(notebook.path),
            assignment=job.assignment,
            status="ungraded" if score is None else "graded",
            score=score,
            max_score=sum(exercise.max_score for exercise in exercises),
            seed=job.seed,
            suite_hash=self._hash(job.assignment),
            confinement=examined.confinement if examined else "none",
            repairs=mended.repairs,
            notes=examined.notes if examined else (),
            doubts=examined.doubts if examined else (),
            exercises=self._with_manual(exercises, job.assignment),
            error=message(N_("the grader failed: {fault}"), fault=fault) if fault else None,
        )

    def _with_manual(self, examined: Sequence[ExerciseReport], assignment: str) -> tuple[ExerciseReport, ...]:
        """These, and those that wait for a human, in the order of the course."""
        found = {exercise.id: exercise for exercise in examined}
        worth = {cell.grade_id: cell.points for cell in released_notebook(self._course, assignment).cells}
        for name, exercise in self._course.assignment(assignment).exercises.items():
            if exercise.manual:
                found[name] = ExerciseReport(name, None, worth.get(name, 0.0), manual=True)
        return tuple(found[name] for name in self._course.assignment(assignment).exercises if name in found)

    def _unusable(self, path: Path, assignment: str | None, seed: int, why: str) -> GradeReport:
        return self._without_score(path, assignment, seed, "unusable", Message("{why}", {"why": why}))

    def _stumbled(self, path: Path, assignment: str | None, seed: int, fault: str) -> GradeReport:
        said = message(N_("the grader failed: {fault}"), fault=fault)
        return self._without_score(path, assignment, seed, "ungraded", said)

    def _without_score(
        self, path: Path, assignment: str | None, seed: int, status: Status, error: Message
    ) -> GradeReport:
        most = float(sum(self.points.get(assignment or "", {}).values()))
        suite = self._hash(assignment) if assignment else ""
        return without_score(path, assignment, status, error, max_score=most, seed=seed, suite_hash=suite)

    def _hash(self, assignment: str) -> str:
        if assignment not in self._hashes:
            self._hashes[assignment] = suite_hash(self._course, assignment)
        return self._hashes[assignment]


def _batches(answers: Sequence[AloneAnswer | KnownMistake]) -> Iterator[Sequence[AloneAnswer | KnownMistake]]:
    """The answers in their order, in parts that one job can take: a known mistake alone, others by their exercise."""
    start = 0
    for end in range(1, len(answers) + 1):
        first, after = answers[start], answers[end] if end < len(answers) else None
        alike = isinstance(first, AloneAnswer) and isinstance(after, AloneAnswer) and first[:2] == after[:2]
        if not alike or end - start == MAX_BATCH:
            yield answers[start:end]
            start = end


def _trains(notebook: Path) -> bool:
    """Whether a lesson trains a model, by the names in its notebook."""
    try:
        text = notebook.read_text(encoding="utf-8")
    except (OSError, ValueError):  # told where it is graded
        return False
    return bool(re.search(r"\boptim\b|tensorboard", text))


def _expect_suites(course: Course) -> None:
    """Each exercise has its hidden suite; told before seconds are spent on warming up."""
    for assignment in course.assignments.values():
        folder = course.hidden_folder(assignment.name)
        found = sorted(path.stem.removeprefix("test_") for path in folder.glob("test_*.py"))
        for name in course.suites(assignment.name):
            if name not in found:
                raise CourseError(
                    f"{COURSE_FILE}: assignments.{assignment.name}.exercises.{name} has no hidden suite; "
                    f"{folder} holds suites of: {', '.join(found) or 'nothing'}."
                )


def grade(notebook: Path, assignment: str | None, course: Course, seed: int) -> GradeReport:
    """Grade one notebook with an examiner of its own: a pure function of submission, suite and seed."""
    with Grader(course, course.confinement.grade) as grader:
        return grader.grade(notebook, assignment, seed).report
