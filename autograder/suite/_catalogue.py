"""Known mistakes and correct answers of every kind: the proof that a suite is good.

They stand beside the hidden suite as ordinary functions. `autograder verify` examines each one as a student's answer; a
known mistake also names itself in feedback, when a student's function equals it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Answer = Callable[..., Any]


@dataclass(frozen=True)
class Mistake:
    """A small wrong implementation.

    Attributes:
        id: its name in reports, such as ``no-scale``.
        caught_by: the check that must catch it.
        says: the sentence that a teacher would say.
        answer: the wrong function.
        unnamed_because: why feedback cannot name it (a random answer equals nothing); None where it can.
    """

    id: str
    caught_by: str
    says: str
    answer: Answer
    unnamed_because: str | None = None


@dataclass(frozen=True)
class Correct:
    """A correct answer of some kind: `source` is the text of the cell that defines the exercise's function."""

    id: str
    source: str | None
    answer: Answer | None


def mistake(id: str, *, caught_by: str, says: str, unnamed_because: str | None = None) -> Callable[[Answer], Answer]:
    """Declare the decorated function as a known mistake (see `Mistake`)."""

    def declare(answer: Answer) -> Answer:
        answer.mistake = Mistake(id, caught_by, says, answer, unnamed_because)  # type: ignore[attr-defined]
        return answer

    return declare


def correct(id: str) -> Callable[[Answer], Answer]:
    """Declare the decorated function as a correct answer that must earn full marks."""

    def declare(answer: Answer) -> Answer:
        answer.correct = Correct(id, None, answer)  # type: ignore[attr-defined]
        return answer

    return declare


def correct_source(id: str, source: str) -> Correct:
    """A correct answer that is no plain function (a callable object, a scripted function): the cell's text."""
    return Correct(id, source, None)
