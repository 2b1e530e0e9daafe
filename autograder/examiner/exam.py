"""Examines one submission: runs its cells, and at each exercise the hidden suite, check by check."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from autograder.channel.frames import ProtocolError
from autograder.channel.proxy import Student
from autograder.examiner import replies
from autograder.examiner.diagnosis import find_mistake
from autograder.examiner.forbidden import find_forbidden
from autograder.examiner.job import Examined, Job, JobExercise
from autograder.examiner.outcomes import Verdict, cell_error, forbidden, stopped_by, verdict_of
from autograder.examiner.plugin import SuitePlugin
from autograder.examiner.session import NoMoreRestarts, NoMoreTime, Session, WorkerDied
from autograder.examiner.suites import Suite, check_id, spec_of
from autograder.examiner.zygotes import Worker
from autograder.messages import N_, Message, message
from autograder.report import CheckReport, ExerciseReport, Outcome, total
from autograder.suite import Mistake

LOST: tuple[Outcome, ...] = ("failed", "error")
"""Outcomes that say something about the function's own code."""

MAX_NOTES = 5


def examine(job: Job, plugin: SuitePlugin, spawn: Callable[[], Worker]) -> Examined:
    """Examine a submission.

    Args:
        job: the submission.
        plugin: holds the hidden suites and runs their checks.
        spawn: starts a fresh confined worker.
    """
    started = time.monotonic()
    session = Session(spawn, job.cells, job.limits)
    seconds = {"checks": 0.0, "diagnosis": 0.0}
    try:
        reports = tuple(_Exam(job, exercise, plugin, session, seconds).report() for exercise in job.exercises)
        _finish(session, len(job.cells))
        return Examined(
            exercises=reports,
            outputs=session.outputs,
            confinement=session.confinement,
            seconds={**session.seconds, **seconds, "total": time.monotonic() - started},
            notes=_notes(job, session),
            calls=session.calls,
            memory=session.memory(),
        )
    finally:
        session.close()


def _finish(session: Session, cells: int) -> None:
    # The cells behind the last exercise are run for their outputs alone.
    try:
        session.run_until(cells)
    except (NoMoreTime, NoMoreRestarts):
        pass


def _notes(job: Job, session: Session) -> tuple[Message, ...]:
    """The student's own cells that stopped: nothing was taken off for them, but they should know."""
    names = [exercise.id for exercise in job.exercises]
    own = [
        (cell.number + 1, session.errors[cell.number])
        for cell in job.cells
        if cell.number in session.errors
        and not cell.public_tests
        and not any(_defines(name, cell.source) for name in names)
    ]
    said = N_("cell {place} of the notebook stopped with {what}; nothing was taken off for it")
    return tuple(message(said, place=place, what=stopped_by(error)) for place, error in own[:MAX_NOTES])


class _Exam:
    """One exercise of one submission."""

    def __init__(
        self,
        job: Job,
        exercise: JobExercise,
        plugin: SuitePlugin,
        session: Session,
        seconds: dict[str, float],
    ) -> None:
        self._job, self._exercise, self._plugin, self._session = job, exercise, plugin, session
        self._seconds = seconds
        self._suite: Suite = plugin.suites[job.assignment, exercise.id]
        self._student = Student(exercise.id, session, exercise.forbidden, self._suite.parameters)

    def report(self) -> ExerciseReport:
        """Examine the exercise."""
        if self._exercise.untouched:
            said = message(N_("this exercise is not written yet"))
            return self._made_of(self._all_alike(Verdict("not_attempted", said)), None)
        sources = [cell.source for cell in self._job.cells[: self._exercise.after]]
        breach = find_forbidden(sources, self._exercise.id, self._exercise.forbidden)
        if breach is not None:
            return self._made_of(self._all_alike(Verdict("forbidden", forbidden(breach))), None)
        problem = self._why_not_callable()
        if problem is not None:
            return self._made_of(self._first_says(problem), None)
        checks = self._run_checks()
        if any(check.outcome in LOST for check in checks) and (stopped := self._cell_error()):
            # What stands of the function is not what its author wrote: the cell's own error comes first.
            return self._made_of(_with_first_lost(checks, stopped), None)
        return self._made_of(checks, self._diagnose(checks))

    def _why_not_callable(self) -> Verdict | None:
        """Why there is no function to examine, or None when there is one."""
        try:
            self._session.run_until(self._exercise.after)
            kind = replies.text(
                self._session.request({"op": "kind", "name": self._exercise.id}, ())[0].get("kind"), replies.MAX_NAME
            )
        except WorkerDied as death:
            return verdict_of(death)
        if kind == "callable":
            return None
        name = self._exercise.id
        if stopped := self._cell_error():
            return stopped
        if kind == "missing":
            said = message(N_("there is no function {name} after your notebook has run"), name=name)
            return Verdict("error", said, message(N_("Its name, and that its cell is a code cell, must stay.")))
        return Verdict("error", message(N_("{name} is no function but of type {kind}"), name=name, kind=kind))

    def _cell_error(self) -> Verdict | None:
        """What stopped the cell that defines the function, if something did."""
        for cell in self._job.cells[: self._exercise.after]:
            error = self._session.errors.get(cell.number)
            if error is not None and _defines(self._exercise.id, cell.source):
                return cell_error(self._exercise.id, error)
        return None

    def _run_checks(self) -> list[CheckReport]:
        started, channel = time.monotonic(), self._session.seconds["channel"]
        try:
            return self._checks()
        finally:
            waited = self._session.seconds["channel"] - channel
            self._seconds["checks"] += time.monotonic() - started - waited

    def _checks(self) -> list[CheckReport]:
        checks: list[CheckReport] = []
        passed: set[str] = set()
        for item in self._suite.items:
            check = self._run_check(item, passed)
            if check.outcome == "passed":
                passed.add(check.id)
            checks.append(_told_before(check, checks))
            if check.outcome == "forbidden":
                return self._all_alike(Verdict("forbidden", check.message))
        return checks

    def _run_check(self, item: pytest.Function, passed: set[str]) -> CheckReport:
        missing = [need for need in spec_of(item).needs if need not in passed]
        if missing:
            titles = {check_id(other): spec_of(other).title for other in self._suite.items}
            return _report(item, _waiting_for(titles[missing[0]]))
        return _report(item, verdict_of(self._plugin.run(item, self._student, self._job.seed)))

    def _diagnose(self, checks: list[CheckReport]) -> Mistake | None:
        if not any(check.outcome in LOST for check in checks):
            return None
        started = time.monotonic()
        try:
            found = find_mistake(self._student.calls, self._suite.mistakes, self._suite.reference)
        except ProtocolError:  # what was decoded once does not decode again: no mistake is like that
            found = None
        self._seconds["diagnosis"] += time.monotonic() - started
        return found

    def _made_of(self, checks: list[CheckReport], mistake: Mistake | None) -> ExerciseReport:
        if mistake is not None:
            checks = _mark(checks, mistake)
        ungraded = any(check.outcome == "ungraded" for check in checks)
        return ExerciseReport(
            id=self._exercise.id,
            score=None if ungraded else total([check.score for check in checks]),
            max_score=self._suite.points,
            checks=tuple(checks),
            mistake=mistake.id if mistake else None,
            diagnosis=message(mistake.says) if mistake else None,
        )

    def _all_alike(self, verdict: Verdict) -> list[CheckReport]:
        """All checks share an outcome, and the first one says why."""
        first, *others = self._suite.items
        return [_report(first, verdict), *(_report(item, Verdict(verdict.outcome)) for item in others)]

    def _first_says(self, verdict: Verdict) -> list[CheckReport]:
        """The first check tells what is wrong, and the others wait for it: one message and not ten."""
        first, *others = self._suite.items
        waiting = _waiting_for(spec_of(first).title)
        return [_report(first, verdict), *(_report(item, waiting) for item in others)]


def _report(item: pytest.Function, verdict: Verdict) -> CheckReport:
    spec = spec_of(item)
    return CheckReport(
        id=check_id(item),
        title=message(spec.title),
        outcome=verdict.outcome,
        score=float(spec.points) if verdict.outcome == "passed" else 0.0,
        max_score=float(spec.points),
        message=verdict.message,
        hint=message(spec.hint) if verdict.ask_check else verdict.hint,
    )


def _told_before(check: CheckReport, before: Sequence[CheckReport]) -> CheckReport:
    """The check, which only refers to an earlier one where the same exception has been told there."""
    raised = _exception(check)
    first = next((other for other in before if raised is not None and _exception(other) == raised), None)
    if first is None:
        return check
    return replace(check, message=message(N_('the same error as in "{title}"'), title=first.title), hint=None)


def _exception(check: CheckReport) -> tuple[object, object] | None:
    """What was raised, and where; shapes of the arguments apart."""
    args = check.message.args if check.message else {}
    return (args["what"], args["where"]) if check.outcome == "error" and "what" in args else None


def _waiting_for(title: str) -> Verdict:
    return Verdict("skipped", message(N_('waits for "{title}"'), title=message(title)))


def _mark(checks: list[CheckReport], mistake: Mistake) -> list[CheckReport]:
    """Put the mistake's id on the check that exists to catch it, or else on the first that failed."""
    lost = [check.id for check in checks if check.outcome in LOST]
    chosen = mistake.caught_by if mistake.caught_by in lost else lost[0]
    return [replace(check, mistake=mistake.id) if check.id == chosen else check for check in checks]


def _with_first_lost(checks: list[CheckReport], verdict: Verdict) -> list[CheckReport]:
    """The checks, with a verdict on the first that was lost."""
    first = next(place for place, check in enumerate(checks) if check.outcome in LOST)
    said = replace(checks[first], outcome=verdict.outcome, message=verdict.message, hint=verdict.hint)
    return [*checks[:first], said, *checks[first + 1 :]]


def _defines(name: str, source: str) -> bool:
    # By the look of it: a cell with a syntax error has no tree to ask.
    return re.search(rf"^[ \t]*(def|class)[ \t]+{name}\b|^{name}[ \t]*=", source, re.MULTILINE) is not None
