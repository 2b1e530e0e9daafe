"""What a door asks of the examiner, and what it gets back. Both cross a channel as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from autograder.course import Limits
from autograder.messages import Message
from autograder.report import ExerciseReport


class JobCell(msgspec.Struct, frozen=True):
    """A code cell to run.

    Attributes:
        number: its place in the notebook that came in, from 0; negative for a cell that the course added.
        public_tests: whether it holds the course's examples, which take no longer than a call may.
    """

    number: int
    source: str
    public_tests: bool = False


class JobExercise(msgspec.Struct, frozen=True):
    """An exercise to examine once `after` cells have run.

    Attributes:
        untouched: the answer is still the stub, so that nothing has to be asked.
        forbidden: dotted names that the answer may not reach.
        since: the first cell that may belong to the answer; those before it are other answers' own.
        value: the variable that it asks for, where that is no function.
    """

    id: str
    after: int
    untouched: bool
    forbidden: tuple[str, ...] = ()
    since: int = 0
    value: str | None = None

    @property
    def answer(self) -> str:
        """What the notebook calls the answer."""
        return self.value or self.id


class Job(msgspec.Struct, frozen=True):
    """One submission, mended, for the examiner."""

    assignment: str
    cells: tuple[JobCell, ...]
    exercises: tuple[JobExercise, ...]
    seed: int
    limits: Limits


class KnownJob(msgspec.Struct, frozen=True):
    """A known mistake of a hidden suite, to be examined as an answer: by its name, since its code is here already."""

    assignment: str
    exercise: str
    id: str
    seed: int


class Examined(msgspec.Struct, frozen=True):
    """What came of a job.

    Attributes:
        exercises: in the order of the job's.
        outputs: nbformat outputs by cell number.
        confinement: what the worker was confined by.
        notes: what else the student should know.
        doubts: what a person should look at.
        seconds: where the time went (``spawn``, ``cells``, ``channel``, ``search``, ``checks``,
            ``diagnosis``, ``total``).
        calls: how many requests were made of the student's functions, for measuring.
        in_time: whether the grader's own work came to its end; whoever did it is not to be asked again.
        by_chance: whether a time limit, or a kill from outside, has ended a worker: on a quieter machine it may not.
    """

    exercises: tuple[ExerciseReport, ...]
    outputs: dict[int, list[dict[str, Any]]] = {}
    confinement: str = "none"
    notes: tuple[Message, ...] = ()
    doubts: tuple[Message, ...] = ()
    seconds: dict[str, float] = {}
    calls: int = 0
    in_time: bool = True
    by_chance: bool = False
