"""Examines one submission: runs its cells, and at each exercise the hidden suite, check by check."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from autograder.channel.proxy import Student
from autograder.examiner.diagnosis import find_mistake
from autograder.examiner.forbidden import find_forbidden
from autograder.examiner.job import Examined, Job, JobExercise
from autograder.examiner.outcomes import forbidden, outcome_of
from autograder.examiner.plugin import SuitePlugin
from autograder.examiner.session import NoMoreRestarts, NoMoreTime, Session, WorkerDied
from autograder.examiner.suites import Suite, check_id, spec_of
from autograder.examiner.zygotes import Worker
from autograder.messages import N_, Message, message
from autograder.report import CheckReport, ExerciseReport, Outcome, total
from autograder.suite import Mistake


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
        self._student = Student(exercise.id, session, exercise.forbidden)

    def report(self) -> ExerciseReport:
        """Examine the exercise."""
        if self._exercise.untouched:
            checks = self._all_alike("not_attempted", message(N_("this exercise is not written yet")))
            return self._made_of(checks, None)
        sources = [cell.source for cell in self._job.cells[: self._exercise.after]]
        breach = find_forbidden(sources, self._exercise.id, self._exercise.forbidden)
        if breach is not None:
            return self._made_of(self._all_alike("forbidden", forbidden(breach)), None)
        problem = self._why_not_callable()
        if problem is not None:
            return self._made_of(self._first_says(*problem), None)
        checks = self._run_checks()
        return self._made_of(checks, self._diagnose(checks))

    def _why_not_callable(self) -> tuple[Outcome, Message | None] | None:
        """Why there is no function to examine, or None when there is one."""
        try:
            self._session.run_until(self._exercise.after)
            kind = self._session.request({"op": "kind", "name": self._exercise.id}, ())[0].get("kind")
        except WorkerDied as death:
            return outcome_of(death)
        if kind == "callable":
            return None
        name = self._exercise.id
        defines = re.compile(rf"^\s*(def|class)\s+{name}\b|^{name}\s*=", re.MULTILINE)
        for cell in self._job.cells[: self._exercise.after]:
            error = self._session.errors.get(cell.number)
            if error is not None and defines.search(cell.source):
                return "error", _cell_error(name, error)
        if kind == "missing":
            return "error", message(N_("there is no function {name} after your notebook has run"), name=name)
        return "error", message(N_("{name} is a {kind} and not a function"), name=name, kind=str(kind)[:100])

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
            checks.append(check)
            if check.outcome in ("forbidden", "not_attempted"):
                return self._all_alike(check.outcome, check.message)
        return checks

    def _run_check(self, item: pytest.Function, passed: set[str]) -> CheckReport:
        missing = [need for need in spec_of(item).needs if need not in passed]
        if missing:
            titles = {check_id(other): spec_of(other).title for other in self._suite.items}
            return _report(item, "skipped", message(N_('needs "{title}" first'), title=message(titles[missing[0]])))
        raised = self._plugin.run(item, self._student, self._job.seed)
        return _report(item, *outcome_of(raised))

    def _diagnose(self, checks: list[CheckReport]) -> Mistake | None:
        if not any(check.outcome in ("failed", "error") for check in checks):
            return None
        started = time.monotonic()
        found = find_mistake(self._student.calls, self._suite.mistakes, self._suite.reference)
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

    def _all_alike(self, outcome: Outcome, said: Message | None) -> list[CheckReport]:
        """All checks share an outcome, and the first one says why."""
        first, *others = self._suite.items
        return [_report(first, outcome, said), *(_report(item, outcome, None) for item in others)]

    def _first_says(self, outcome: Outcome, said: Message | None) -> list[CheckReport]:
        """The first check tells what is wrong, and the others wait for it: one message and not ten."""
        first, *others = self._suite.items
        waiting = message(N_('needs "{title}" first'), title=message(spec_of(first).title))
        return [_report(first, outcome, said), *(_report(item, "skipped", waiting) for item in others)]


def _report(item: pytest.Function, outcome: Outcome, said: Message | None) -> CheckReport:
    spec = spec_of(item)
    return CheckReport(
        id=check_id(item),
        title=message(spec.title),
        outcome=outcome,
        score=float(spec.points) if outcome == "passed" else 0.0,
        max_score=float(spec.points),
        message=said,
        hint=message(spec.hint) if outcome in ("failed", "error") else None,
    )


def _mark(checks: list[CheckReport], mistake: Mistake) -> list[CheckReport]:
    """Put the mistake's id on the check that exists to catch it, or else on the first that failed."""
    lost = [check.id for check in checks if check.outcome in ("failed", "error")]
    chosen = mistake.caught_by if mistake.caught_by in lost else lost[0]
    return [
        CheckReport(
            check.id,
            check.title,
            check.outcome,
            check.score,
            check.max_score,
            check.message,
            mistake.id,
            check.hint,
        )
        if check.id == chosen
        else check
        for check in checks
    ]


def _cell_error(name: str, error: dict[str, object]) -> Message:
    text, line = str(error.get("text") or "").strip(), error.get("line")
    what = f"{error.get('type')}: {text.splitlines()[0][:300] if text else ''}"
    if isinstance(line, int):
        return message(
            N_("the cell that defines {name} did not run: {what} (line {line})"), name=name, what=what, line=line
        )
    return message(N_("the cell that defines {name} did not run: {what}"), name=name, what=what)
