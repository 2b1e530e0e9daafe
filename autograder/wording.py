"""What is said of checks wherever people read about them: words for outcomes, points, and what can be said at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autograder.messages import N_, Message, message
from autograder.report import CheckReport, ExerciseReport, Outcome

# What each outcome means where no sentence of the check says more, best first: the last one is the worst.
WORDS: dict[Outcome, str] = {
    "passed": N_("passed"),
    "skipped": N_("waiting for another check"),
    "not_attempted": N_("not attempted yet"),
    "failed": N_("wrong result"),
    "error": N_("an error in the code"),
    "timeout": N_("took too long"),
    "out_of_memory": N_("out of memory"),
    "crashed": N_("the code ended the process"),
    "forbidden": N_("calls a ready-made function"),
    "ungraded": N_("could not be graded"),
}


@dataclass(frozen=True)
class Line:
    """One line about a check, or about several of which each would say the same.

    Attributes:
        checks: one, or more.
        said: what is said of several; None of one, which speaks for itself.
    """

    checks: tuple[CheckReport, ...]
    said: Message | None = None

    @property
    def outcome(self) -> Outcome:
        """Of all of them, or of the first."""
        return self.checks[0].outcome

    @property
    def score(self) -> float:
        """Points of all of them."""
        return sum(check.score for check in self.checks)

    @property
    def max_score(self) -> float:
        """What all of them are worth."""
        return sum(check.max_score for check in self.checks)


def points(score: float | None) -> str:
    """A score as people write it: 4, 17.5; a question mark while it is open."""
    return "?" if score is None else f"{score:.10g}"


def statement(exercise: ExerciseReport) -> Message | None:
    """What is said of the exercise as a whole, above its checks: the mistake, or what the answer may not call."""
    if exercise.diagnosis is not None or not _all_forbidden(exercise.checks):
        return exercise.diagnosis
    said = (check.message for check in exercise.checks if check.message is not None)
    return next(said, message(WORDS["forbidden"]))


def lines(checks: Sequence[CheckReport]) -> Iterator[Line]:
    """The lines of an exercise, in the order of its checks; those that wait come last."""
    outcomes = {check.outcome for check in checks}
    if "not_attempted" in outcomes and outcomes <= {"not_attempted", "skipped"}:
        said = [check.message for check in checks if check.outcome == "not_attempted" and check.message is not None]
        yield Line(tuple(checks), said[0] if said else message(N_("not attempted yet")))
        return
    if _all_forbidden(checks):
        yield Line(tuple(checks), message(N_("none of its checks counts then")))
        return
    waiting = [check for check in checks if check.outcome == "skipped"]
    waiting = waiting if len(waiting) > 1 else []
    for check in checks:
        if check not in waiting:
            yield Line((check,))
    if waiting:
        lost = [check for check in checks if check.outcome not in ("passed", "skipped")]
        until = N_("{count} more checks wait until the checks above pass")
        if len(lost) == 1:
            until = N_("{count} more checks wait until the check above passes")
        yield Line(tuple(waiting), message(until, count=len(waiting)))


def _all_forbidden(checks: Sequence[CheckReport]) -> bool:
    return bool(checks) and all(check.outcome == "forbidden" for check in checks)
