"""Lets an exercise be judged by the hidden suite of another one, whose contract it shares."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autograder.channel.proxy import Student
from autograder.messages import N_, message
from autograder.suite._checks import CheckFailed, CheckSpec
from autograder.suite._draws import Draws


@dataclass(frozen=True)
class Judge:
    """Another exercise's hidden suite.

    Attributes:
        checks: each check with what is declared beside it, by id, in the order of the file.
    """

    checks: dict[str, tuple[CheckSpec, Callable[..., None]]]

    def expect_all(self, student: Student, rng: Draws) -> None:
        """The function passes all checks; otherwise the first that fails says why, under its title."""
        for id, (spec, test) in self.checks.items():
            try:
                test(student, rng.part(id))
            except CheckFailed as failed:
                said = message(
                    N_("“{title}” does not hold: {message}"), title=message(spec.title), message=failed.message
                )
                raise CheckFailed(said, failed.says_all, hint=failed.hint or message(spec.hint)) from None


def judged_by(suite: str, assignment: str, exercise: str) -> Judge:
    """The hidden suite of `exercise`, for the suite in the file `suite` (its ``__file__``).

    Raises:
        FileNotFoundError: there is none.
    """
    path = Path(suite).parents[1] / assignment / f"test_{exercise}.py"
    spec = importlib.util.spec_from_file_location(f"judge_{exercise}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Judge(
        {
            name.removeprefix("test_"): (test.check, test)
            for name, test in vars(module).items()
            if name.startswith("test_") and hasattr(test, "check")
        }
    )
