"""Puts an answer through a hidden suite in this process: both sides of the channel, and no border between."""

from __future__ import annotations

import importlib.util
import inspect
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from autograder.channel.proxy import Call
from autograder.examiner.rehearsal import SameProcess
from autograder.suite import CheckFailed, CheckSpec, Correct, Draws, Mistake, Student, StudentRaised

Answer = Callable[..., Any]

HIDDEN = Path(__file__).parents[1] / "hidden"


@dataclass(frozen=True)
class Outcome:
    """What became of an answer: the outcome and the sentence of each check, by id, and the recorded calls."""

    outcomes: dict[str, str]
    messages: dict[str, str]
    calls: list[Call]

    @property
    def failed(self) -> list[str]:
        return [id for id, outcome in self.outcomes.items() if outcome == "failed"]


@dataclass(frozen=True)
class Suite:
    """A hidden suite with its known mistakes and correct answers."""

    exercise: str
    checks: dict[str, tuple[CheckSpec, Callable[..., None]]]
    mistakes: list[Mistake]
    correct: list[Correct]

    @classmethod
    def load(cls, assignment: str, exercise: str) -> Suite:
        kinds = ("test", "mistakes", "correct")
        suite, mistakes, correct = (_module(assignment, f"{kind}_{exercise}") for kind in kinds)
        checks = {
            name.removeprefix("test_"): (test.check, test)
            for name, test in vars(suite).items()
            if name.startswith("test_")
        }
        return cls(
            exercise,
            checks,
            [value.mistake for value in vars(mistakes).values() if hasattr(value, "mistake")],
            list(_correct(correct)),
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """What the exercise calls its arguments."""
        return tuple(inspect.signature(self.reference).parameters)

    @property
    def reference(self) -> Answer:
        """A correct answer."""
        return next(correct.answer for correct in self.correct if correct.answer)

    def exam(self, answer: Answer, seed: int, alone: str | None = None) -> Outcome:
        """Run the checks in their order, as the engine does; all of them, or one alone, whatever it needs."""
        student = Student(self.exercise, SameProcess(answer), parameters=self.parameters)
        outcomes: dict[str, str] = {}
        messages = {}
        for id, (spec, test) in self.checks.items():
            if alone not in (None, id):
                continue
            if alone is None and any(outcomes[need] != "passed" for need in spec.needs):
                outcomes[id] = "skipped"
                continue
            try:
                test(student, Draws(seed, self.exercise, id))
                outcomes[id] = "passed"
            except (CheckFailed, StudentRaised) as no:
                outcomes[id], messages[id] = "failed", str(no)
        return Outcome(outcomes, messages, student.calls)

    def answer(self, mistake: str) -> Answer:
        """The function of a known mistake."""
        return next(known.answer for known in self.mistakes if known.id == mistake)

    def score(self, outcome: Outcome) -> float:
        return sum(spec.points for id, (spec, _) in self.checks.items() if outcome.outcomes[id] == "passed")


def answer_of(correct: Correct, exercise: str) -> Answer:
    """The function of a correct answer; a cell's text is run as a cell would be."""
    if correct.answer is not None:
        return correct.answer
    assert correct.source is not None
    name = f"<cell {correct.id}>"
    linecache.cache[name] = len(correct.source), None, correct.source.splitlines(keepends=True), name
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(correct.source, name, "exec"), cell)
    answer: Answer = cell[exercise]
    return answer


def _correct(module: ModuleType) -> Iterator[Correct]:
    for value in vars(module).values():
        if isinstance(value, Correct):
            yield value
        elif isinstance(getattr(value, "correct", None), Correct):
            yield value.correct


def _module(assignment: str, name: str) -> ModuleType:
    path = HIDDEN / assignment / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"hidden_{name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
