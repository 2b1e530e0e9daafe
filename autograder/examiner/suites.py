"""The hidden suites, collected once: an exercise's checks as pytest items, known mistakes, correct answers."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from autograder.errors import CourseError
from autograder.suite import CheckSpec, Correct, Mistake
from autograder.suite._catalogue import Answer


@dataclass(frozen=True)
class Suite:
    """One exercise's hidden suite.

    Attributes:
        items: the pytest items, in the order of the file.
        mistakes: what learners really do, in the order in which they are looked for.
        correct: correct answers of every kind; the first plain function is the reference.
    """

    exercise: str
    items: tuple[pytest.Function, ...]
    mistakes: tuple[Mistake, ...]
    correct: tuple[Correct, ...]

    @property
    def points(self) -> float:
        """What the checks declare, together."""
        return sum(spec_of(item).points for item in self.items)

    @property
    def reference(self) -> Answer:
        """A correct answer, for telling a mistake from none."""
        return next(correct.answer for correct in self.correct if correct.answer is not None)

    @property
    def parameters(self) -> tuple[str, ...]:
        """What the exercise calls its arguments."""
        return tuple(inspect.signature(self.reference).parameters)


def spec_of(item: pytest.Function) -> CheckSpec:
    """What is declared beside a check."""
    spec: CheckSpec = item.function.check
    return spec


def check_id(item: pytest.Function) -> str:
    """The id of a check in reports: ``test_rows_sum_to_one`` is ``rows_sum_to_one``."""
    return item.name.removeprefix("test_")


def group_suites(items: Sequence[pytest.Item]) -> dict[tuple[str, str], Suite]:
    """The collected items by (assignment, exercise): by the folder and the file that they stand in.

    Raises:
        CourseError: a suite's check lacks its declaration, or needs one that does not stand before it.
    """
    grouped: dict[tuple[str, str], list[pytest.Function]] = {}
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item.function, "check"):
            raise CourseError(f"{item.nodeid} has no @check(points=…, title=…, hint=…)")
        key = item.path.parent.name, item.path.stem.removeprefix("test_")
        grouped.setdefault(key, []).append(item)
    return {key: _suite(key[1], functions) for key, functions in grouped.items()}


def _suite(exercise: str, items: list[pytest.Function]) -> Suite:
    seen: set[str] = set()
    for item in items:
        for needed in spec_of(item).needs:
            if needed not in seen:
                raise CourseError(f"{item.nodeid} needs {needed!r}, which is no check before it")
        seen.add(check_id(item))
    folder = items[0].path.parent
    mistakes, correct = _load(folder / f"mistakes_{exercise}.py"), _load(folder / f"correct_{exercise}.py")
    suite = Suite(
        exercise,
        tuple(items),
        tuple(found for value in vars(mistakes).values() if isinstance(found := _declared(value, "mistake"), Mistake)),
        tuple(found for value in vars(correct).values() if isinstance(found := _declared(value, "correct"), Correct)),
    )
    if not any(one.answer for one in suite.correct):
        raise CourseError(f"{folder / f'correct_{exercise}.py'} has no plain function marked @correct")
    for one in suite.mistakes:
        if one.caught_by not in seen:
            raise CourseError(f"the known mistake {one.id!r} is to be caught by {one.caught_by!r}, which is no check")
    return suite


def _declared(value: object, kind: str) -> object:
    return value if isinstance(value, Correct) else getattr(value, kind, None) if callable(value) else None


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hidden_{path.parent.name}_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise CourseError(f"{path} is missing: known mistakes and correct answers stand beside their suite")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
