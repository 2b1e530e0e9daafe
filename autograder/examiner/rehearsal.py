"""Runs the hidden suites against functions of their own: the reference, before any student's answer, and mistakes.

A suite that fails its reference must not judge anybody; and what torch and pytest do only the first time is then
done before the lanes are forked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autograder.channel.frames import Buffer
from autograder.channel.proxy import Frame, Student
from autograder.errors import CourseError
from autograder.examiner.job import KnownJob
from autograder.examiner.marking import Marking
from autograder.examiner.plugin import SuitePlugin
from autograder.report import ExerciseReport
from autograder.worker.calls import Callee

SEED = 0


class SameProcess:
    """An endpoint of the channel in this process, for trusted functions."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self._callee = function, Callee()

    def request(self, header: dict[str, Any], blobs: Sequence[Buffer]) -> Frame:
        """Answer a ``call`` or a ``backward`` as a worker would."""
        blob = b"".join(blobs)
        if header["op"] == "backward":
            reply, pieces = self._callee.backward(header, blob)
        else:
            self._callee.free(header["free"])
            reply, pieces = self._callee.call(self._function, header, blob)
        return reply, b"".join(bytes(piece) for piece in pieces)


def rehearse(plugin: SuitePlugin) -> None:
    """Run every suite against its reference.

    Raises:
        CourseError: one does not pass it.
    """
    for suite in plugin.suites.values():
        student = Student(suite.exercise, SameProcess(suite.reference), parameters=suite.parameters)
        for item in suite.items:
            raised = plugin.run(item, student, SEED)
            if raised is not None:
                raise CourseError(f"{item.nodeid} does not pass its own reference: {type(raised).__name__}: {raised}")


def examine_known(known: KnownJob, plugin: SuitePlugin) -> ExerciseReport:
    """Examine a known mistake as a student's answer would be, but in this process: it is code that we trust.

    Raises:
        CourseError: there is no such mistake.
    """
    suite = plugin.suites[known.assignment, known.exercise]
    answer = next((mistake.answer for mistake in suite.mistakes if mistake.id == known.id), None)
    if answer is None:
        raise CourseError(f"{known.exercise} has no known mistake {known.id!r}")
    student = Student(suite.exercise, SameProcess(answer), parameters=suite.parameters)
    marking = Marking(suite, plugin, student, known.seed)
    checks = marking.checks()
    return marking.report(checks, marking.mistake(checks, made_by=answer))
