"""Examines one submission: runs its cells, and at each exercise the hidden suite, check by check."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from autograder.channel import words
from autograder.channel.proxy import Student
from autograder.definitions import seems_to_define
from autograder.examiner.forbidden import Found, search
from autograder.examiner.hiding import Hiding
from autograder.examiner.job import Examined, Job, JobCell, JobExercise
from autograder.examiner.marking import Marking
from autograder.examiner.outcomes import Verdict, cell_error, cell_note, forbidden, verdict_of
from autograder.examiner.patience import OutOfPatience, bounded_time
from autograder.examiner.plugin import SuitePlugin
from autograder.examiner.session import NoMoreRestarts, NoMoreTime, Session, WorkerDied
from autograder.examiner.zygotes import Worker
from autograder.messages import N_, Message, message
from autograder.report import LOST, CheckReport, ExerciseReport
from autograder.suite import Mistake

STOPS = "raise NotImplementedError"
"""What the stub of a function does."""
MAX_NOTES = 5
MAX_HIDINGS = 20


def examine(job: Job, plugin: SuitePlugin, spawn: Callable[[], Worker]) -> Examined:
    """Examine a submission.

    Args:
        job: the submission.
        plugin: holds the hidden suites and runs their checks.
        spawn: starts a fresh confined worker.
    """
    started = time.monotonic()
    end = started + job.limits.submission_seconds
    examined, was_killed = _attempt(job, plugin, spawn, end)
    if was_killed and examined.in_time:  # that may be nothing of the student's doing
        again, was_killed = _attempt(job, plugin, spawn, end)
        if _points(again) >= _points(examined):  # little time may have been left for it
            examined = again
        else:
            was_killed = True
    seconds = {**examined.seconds, "total": time.monotonic() - started}
    return replace(examined, seconds=seconds, by_chance=examined.by_chance or was_killed)


def _points(examined: Examined) -> float:
    return sum(exercise.score or 0.0 for exercise in examined.exercises)


def _attempt(job: Job, plugin: SuitePlugin, spawn: Callable[[], Worker], end: float) -> tuple[Examined, bool]:
    """Examine a submission until `end`; and whether somebody else has killed one of its workers."""
    session, record = Session(spawn, job.cells, job.limits, end), _Record()
    try:
        in_time = _examine_in_time(job, plugin, session, record)
        for exercise in job.exercises[len(record.reports) :]:
            record.reports.append(_Exam(job, exercise, plugin, session, record).given_up())
        examined = Examined(
            exercises=tuple(record.reports),
            outputs=session.outputs,
            confinement=session.confinement,
            seconds={**session.seconds, **record.seconds},
            notes=_notes(job, session),
            doubts=tuple(record.doubts),
            calls=session.calls,
            in_time=in_time,
            by_chance=session.was_late,
        )
        return examined, session.was_killed
    finally:
        session.close()


@dataclass
class _Record:
    """What the exercises have come to so far, and what our own work has taken (seconds)."""

    reports: list[ExerciseReport] = field(default_factory=list)
    doubts: list[Message] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"search": 0.0, "checks": 0.0, "diagnosis": 0.0})


def _examine_in_time(job: Job, plugin: SuitePlugin, session: Session, record: _Record) -> bool:
    """Add the reports, one by one; whether they are all there before our own patience is at its end."""
    try:
        with bounded_time():
            for exercise in job.exercises:
                record.reports.append(_Exam(job, exercise, plugin, session, record).report())
            _finish(session, len(job.cells))
    except OutOfPatience:
        return False
    return True


def _finish(session: Session, cells: int) -> None:
    # The cells behind the last exercise are run for their outputs alone.
    try:
        session.run_until(cells)
    except (NoMoreTime, NoMoreRestarts):
        pass


def _notes(job: Job, session: Session) -> tuple[Message, ...]:
    """The student's own cells that stopped: nothing was taken off for them, but they should know."""
    names = [exercise.answer for exercise in job.exercises]
    own = [
        (cell.number + 1, session.errors[cell.number])
        for cell in job.cells
        if cell.number in session.errors
        and not cell.public_tests
        and not any(seems_to_define(name, cell.source) for name in names)
    ]
    return tuple(cell_note(place, error) for place, error in own[:MAX_NOTES])


def _doubt(exercise: str, hidings: Sequence[Hiding]) -> Message:
    """By what an answer could call a finished function unseen: the watch is in its process, and can be deceived."""
    told = [what if line is None else f"{what} (line {line})" for what, line in hidings[:MAX_HIDINGS]]
    more = [f"{len(hidings) - MAX_HIDINGS} more"] if len(hidings) > MAX_HIDINGS else []
    said = N_(
        "nothing was taken off, but a person should read the answer to {exercise}: it may call a finished function, by "
        "way of {what}"
    )
    return message(said, exercise=exercise, what=", ".join(told + more))


def _doubt_beside(exercise: str, names: Collection[str]) -> Message:
    """By what an answer could have a thread of another cell do its work."""
    said = N_(
        "nothing was taken off, but a person should read the notebook: while the answer to {exercise} ran, a thread "
        "that another cell has started called {what}"
    )
    return message(said, exercise=exercise, what=", ".join(sorted(name.rpartition(".")[2] for name in names)))


class _Exam:
    """One exercise of one submission."""

    def __init__(
        self,
        job: Job,
        exercise: JobExercise,
        plugin: SuitePlugin,
        session: Session,
        record: _Record,
    ) -> None:
        self._job, self._exercise, self._session, self._record = job, exercise, session, record
        suite = plugin.suites[job.assignment, exercise.id]
        is_value = exercise.value is not None
        student = Student(exercise.answer, session, exercise.forbidden, suite.parameters, is_value)
        self._student = student
        self._marking = Marking(suite, plugin, student, job.seed, _unwritten(job))

    def report(self) -> ExerciseReport:
        """Examine the exercise, after those before it."""
        mark = self._marking
        if self._exercise.untouched:
            return mark.report(mark.all_alike(Verdict("not_attempted", self._why_not_attempted())))
        searched = self._search()
        if searched.breach is not None:
            return mark.report(mark.all_alike(Verdict("forbidden", forbidden(searched.breach))))
        problem = self._why_not_there()
        if problem is not None:
            return mark.report(mark.first_says(problem))
        checks = self._run_checks()
        if any(check.outcome in LOST for check in checks) and (stopped := self._cell_error()):
            # What stands of the function is not what its author wrote: the cell's own error comes first.
            return mark.report(_with_first_lost(checks, stopped))
        mistake = self._diagnose(checks)
        report = mark.report(checks, mistake)
        if report.score and (hidings := self._hidings(searched)):
            self._record.doubts.append(_doubt(self._exercise.id, hidings))
        if report.score and self._student.called_beside:
            self._record.doubts.append(_doubt_beside(self._exercise.id, self._student.called_beside))
        if mistake is None and any(check.outcome in LOST for check in checks) and (other := self._leans_on()):
            first = N_("your answer calls {other}, which does not have all its points: mend that one first")
            return replace(report, diagnosis=message(first, other=other))
        return report

    def _why_not_attempted(self) -> Message:
        """What is said of an answer that is as it came: a stub, or code that was to be mended."""
        if any(
            seems_to_define(self._exercise.answer, cell.source) and STOPS in cell.source for cell in self._job.cells
        ):
            return message(N_("this exercise is not written yet"))
        return message(N_("this exercise is still as it came"))

    def _search(self) -> Found:
        started = time.monotonic()
        sources = [cell.source for cell in self._before()]
        found = search(sources, self._exercise.id, self._exercise.forbidden)
        self._record.seconds["search"] += time.monotonic() - started
        return found

    def _hidings(self, searched: Found) -> list[Hiding]:
        """What was found, but for names that really stand for nothing."""
        return [one for one in searched.hidings if one[0] not in searched.unbound or self._is_bound(one[0])]

    def _is_bound(self, name: str) -> bool:
        try:
            return self._kind(name) != "missing"
        except WorkerDied:
            return True  # nobody can tell

    def _kind(self, name: str) -> str:
        """What stands under a name after the cells have run: ``missing``, ``callable``, or a type."""
        return words.name(self._session.request({"op": "kind", "name": name}, ())[0].get("kind"))

    def _before(self) -> Sequence[JobCell]:
        """The cells that run before it and may belong to it."""
        return self._job.cells[self._exercise.since : self._exercise.after]

    def given_up(self) -> ExerciseReport:
        """The report where our own work on the submission took too long: no zero, since nobody has looked."""
        said = N_(
            "the grader stopped here: its own work on this notebook took too long, and a person has to look at it"
        )
        return self._marking.report(self._marking.all_alike(Verdict("ungraded", message(said))))

    def _why_not_there(self) -> Verdict | None:
        """Why there is nothing to examine, or None when there is."""
        name, is_value = self._exercise.answer, self._exercise.value is not None
        try:
            self._session.run_until(self._exercise.after)
            kind = self._kind(name)
        except WorkerDied as death:
            return verdict_of(death)
        if kind == "callable" if not is_value else kind not in ("callable", "missing"):
            return None
        if stopped := self._cell_error():
            return stopped
        if kind == "missing":
            missing = N_("{name} has no value after your notebook has run")
            if not is_value:
                missing = N_("there is no function {name} after your notebook has run")
            hint = message(N_("Its name, and that its cell is a code cell, must stay."))
            return Verdict("error", message(missing, name=name), hint)
        if is_value:
            return Verdict("error", message(N_("{name} is a function, and a plain value is asked for"), name=name))
        return Verdict("error", message(N_("{name} is no function but of type {kind}"), name=name, kind=kind))

    def _cell_error(self) -> Verdict | None:
        """What stopped the cell that defines the function, if something did."""
        for cell in self._before():
            error = self._session.errors.get(cell.number)
            if error is not None and seems_to_define(self._exercise.answer, cell.source):
                return cell_error(self._exercise.answer, error)
        return None

    def _leans_on(self) -> str | None:
        """An exercise before this one that its answer calls, and that is not right itself."""
        sources = [cell.source for cell in self._job.cells if seems_to_define(self._exercise.answer, cell.source)]
        called = set().union(*map(_calls, sources))
        shaky = (
            other.id for other in self._record.reports if other.score is not None and other.score < other.max_score
        )
        return next((other for other in shaky if other in called), None)

    def _run_checks(self) -> list[CheckReport]:
        started, channel = time.monotonic(), self._session.seconds["channel"]
        try:
            return self._marking.checks()
        finally:
            waited = self._session.seconds["channel"] - channel
            self._record.seconds["checks"] += time.monotonic() - started - waited

    def _diagnose(self, checks: list[CheckReport]) -> Mistake | None:
        started = time.monotonic()
        found = self._marking.mistake(checks)
        self._record.seconds["diagnosis"] += time.monotonic() - started
        return found


def _with_first_lost(checks: list[CheckReport], verdict: Verdict) -> list[CheckReport]:
    """The checks, with a verdict on the first that was lost."""
    first = next(place for place, check in enumerate(checks) if check.outcome in LOST)
    said = replace(checks[first], outcome=verdict.outcome, message=verdict.message, hint=verdict.hint)
    return [*checks[:first], said, *checks[first + 1 :]]


def _unwritten(job: Job) -> frozenset[str]:
    """The exercises that are stubs still, by their cells: not by what the notebook's process says."""
    return frozenset(
        exercise.id
        for exercise in job.exercises
        if exercise.untouched
        or any(seems_to_define(exercise.answer, cell.source) and STOPS in cell.source for cell in job.cells)
    )


def _calls(source: str) -> set[str]:
    """The names that a cell calls, and does not define itself."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return set()
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return called - defined
