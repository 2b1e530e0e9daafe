"""Marks one function: its suite's checks in their order, and the known mistake that it equals."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from autograder.channel.frames import ProtocolError
from autograder.channel.proxy import Student
from autograder.errors import GraderFault
from autograder.examiner.diagnosis import find_mistake
from autograder.examiner.outcomes import Verdict, verdict_of
from autograder.examiner.patience import OutOfPatience, note_memory
from autograder.examiner.plugin import SuitePlugin
from autograder.examiner.suites import Suite, check_id, spec_of
from autograder.messages import N_, Message, message
from autograder.report import LOST, CheckReport, ExerciseReport, total
from autograder.suite import Mistake
from autograder.suite._catalogue import Answer


class Marking:
    """A function in its suite.

    Args:
        suite: the suite.
        plugin: runs its checks.
        student: the function, wherever it lives.
        seed: of the checks' random draws.
        unwritten: the exercises of the notebook that are stubs still.
    """

    def __init__(
        self,
        suite: Suite,
        plugin: SuitePlugin,
        student: Student,
        seed: int,
        unwritten: frozenset[str] = frozenset(),
    ) -> None:
        self._suite, self._plugin, self._student, self._seed = suite, plugin, student, seed
        self._unwritten = unwritten

    def checks(self) -> list[CheckReport]:
        """Run the checks; those that need one that did not pass are skipped."""
        checks: list[CheckReport] = []
        passed: set[str] = set()
        for item in self._suite.items:
            check = self._run_check(item, passed)
            if check.outcome == "passed":
                passed.add(check.id)
            checks.append(check)
            if check.outcome == "forbidden":
                return self.all_alike(Verdict("forbidden", check.message))
        return checks

    def _run_check(self, item: pytest.Function, passed: set[str]) -> CheckReport:
        missing = [need for need in spec_of(item).needs if need not in passed]
        if missing:
            titles = {check_id(other): spec_of(other).title for other in self._suite.items}
            return _report(item, _waiting_for(titles[missing[0]]))
        raised = self._plugin.run(item, self._student, self._seed)
        if isinstance(raised, OutOfPatience | GraderFault):  # neither is the check's, nor the student's
            raise raised
        note_memory(raised)
        return _report(item, verdict_of(raised, self._suite.exercise, self._unwritten))

    def mistake(self, checks: Sequence[CheckReport], made_by: Answer | None = None) -> Mistake | None:
        """The known mistake that the function equals, where it has lost a check; `made_by` as in `find_mistake`."""
        if not any(check.outcome in LOST for check in checks):
            return None
        try:
            return find_mistake(self._student.calls, self._suite.mistakes, self._suite.reference, made_by)
        except ProtocolError:  # what was decoded once does not decode again: no mistake is like that
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, a name for the mistake must not cost a score
            note_memory(error)
            traceback.print_exc()
            return None

    def report(self, checks: list[CheckReport], mistake: Mistake | None = None) -> ExerciseReport:
        """The exercise's report."""
        if mistake is not None:
            checks = _mark(checks, mistake)
        ungraded = any(check.outcome == "ungraded" for check in checks)
        return ExerciseReport(
            id=self._suite.exercise,
            score=None if ungraded else total([check.score for check in checks]),
            max_score=self._suite.points,
            checks=_each_exception_once(checks),
            mistake=mistake.id if mistake else None,
            diagnosis=message(mistake.says) if mistake else None,
        )

    def all_alike(self, verdict: Verdict) -> list[CheckReport]:
        """All checks share an outcome, and the first one says why."""
        first, *others = self._suite.items
        return [_report(first, verdict), *(_report(item, Verdict(verdict.outcome)) for item in others)]

    def first_says(self, verdict: Verdict) -> list[CheckReport]:
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


def _each_exception_once(checks: Sequence[CheckReport]) -> tuple[CheckReport, ...]:
    """The checks, where those that raised what an earlier one has told only refer to that one."""
    told: dict[tuple[str, str], Message] = {}
    said = []
    for check in checks:
        raised = _exception(check)
        if raised is not None and raised in told:
            check = replace(check, message=message(N_('the same error as in "{title}"'), title=told[raised]), hint=None)
        elif raised is not None:
            told[raised] = check.title
        said.append(check)
    return tuple(said)


def _exception(check: CheckReport) -> tuple[str, str] | None:
    """What was raised, and where; shapes of the arguments apart."""
    args = check.message.args if check.message else {}
    return (str(args["what"]), str(args["where"])) if check.outcome == "error" and "what" in args else None


def _waiting_for(title: str) -> Verdict:
    return Verdict("skipped", message(N_('waits for "{title}"'), title=message(title)))


def _mark(checks: list[CheckReport], mistake: Mistake) -> list[CheckReport]:
    """Put the mistake's id on the check that exists to catch it, or else on the first that failed."""
    lost = [check.id for check in checks if check.outcome in LOST]
    chosen = mistake.caught_by if mistake.caught_by in lost else lost[0]
    return [replace(check, mistake=mistake.id) if check.id == chosen else check for check in checks]
