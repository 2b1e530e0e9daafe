"""What ``autograder grade`` prints: a table for each assignment, and then what came of the class."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from autograder._options import console_for, near, print_json, translations_of, with_progress
from autograder.settled import REOPENED

if TYPE_CHECKING:
    from autograder.class_result import Result
    from autograder.course import Course
    from autograder.terminal import Sign


class Done(NamedTuple):
    """A class run that has come to its end.

    Attributes:
        results: of all assignments, and `assignments`, how many these are.
        missed: what was not handed in where it is looked for.
        gradebook, graded: where things lie.
        told: to be called once people were told of all that.
        ended: which of a cluster's workers have ended meanwhile.
    """

    results: Sequence[Result]
    assignments: int
    missed: Sequence[str]
    gradebook: Path
    graded: Path
    told: Callable[[], None] = lambda: None
    ended: Sequence[str] = ()


def tell(done: Done, clock: Clock, course: Course, seed: int, options: argparse.Namespace) -> None:
    """Print what came of the class, behind its tables."""
    from autograder.changes import changes

    several = done.assignments > 1
    if several:
        _show_totals(done.results, course, options)
    said = [*_outcome(done.results, several), *done.missed, *changes(done.results, several)]
    said += done.ended
    said.append(f"{clock.summary(done.results)}; seed {seed}")
    said.append(f"gradebook: {near(done.gradebook)}; graded notebooks: {near(done.graded)}")
    _show_lines(said)


def shown(
    course: Course, name: str, results: Iterator[Result], count: int, options: argparse.Namespace
) -> list[Result]:
    """Print one assignment: a line of JSON for each submission as it is recorded, or a table at the end."""
    translations = translations_of(course, options)
    done: list[Result] = []
    try:
        for result in with_progress(results, count, name):
            done.append(result)
            if options.json:
                print_json({"student": result.student} | result.report.public(translations) | _marks(result))
    except KeyboardInterrupt:
        rest = "is as it was: run this with --fresh again" if options.fresh else "is graded by the next run"
        print(f"{name}: {len(done)} of {count} are recorded; the rest {rest}.", file=sys.stderr)
        raise
    if not options.json:
        from autograder.terminal import ClassRow, show_class

        console = console_for(sys.stdout)
        console.print(f"{course.assignment(name).title} ({name})\n", style="bold", markup=False, highlight=False)
        rows = [ClassRow(one.student, one.report, one.seconds, _settled(one)) for one in done]
        show_class(rows, console, translations)
        console.print()
    return done


def _settled(result: Result) -> dict[str, Sign]:
    """Signs of the exercises that only a human marks, and that wait for none: marked, or left as they were released."""
    open_ones = {exercise.id for exercise in result.report.exercises if exercise.manual and exercise.score is None}
    return {
        name: "by_hand" if name in result.marked else "not_attempted" for name in open_ones.difference(result.waiting)
    }


def _marks(result: Result) -> dict[str, Any]:
    """What a class run knows of a submission beside its report."""
    change = result.change
    return {
        "unchanged": result.unchanged,
        "stored": result.stored,
        "retained": result.retained,
        "provisional": result.provisional,
        "again": result.again,
        "waiting": list(result.waiting),
        "marked": list(result.marked),
        "reopened": dict(result.reopened),
        "adjusted": result.adjusted,
        "remarks": list(result.remarks),
        "left_out": list(result.left_out),
        "change": None if change is None else {"from": change.before, "to": change.after, "why": list(change.why)},
    }


def _show_totals(results: Sequence[Result], course: Course, options: argparse.Namespace) -> None:
    """Print everybody's scores in all the assignments that were graded."""
    from autograder.terminal import show_totals

    scores: dict[str, dict[str, float | None]] = {}
    for result in results:
        scores.setdefault(result.student, {})[str(result.report.assignment)] = result.report.score
    console = console_for(sys.stdout)
    console.print("All of them\n", style="bold", markup=False, highlight=False)
    show_totals(scores, console, translations_of(course, options))
    console.print()


def _show_lines(lines: Sequence[str]) -> None:
    from autograder.terminal import show_lines

    show_lines(lines, console_for(sys.stdout))


def _outcome(results: Sequence[Result], several: bool) -> Iterator[str]:
    """Who was repaired, and who needs a human; of `several` assignments, in which."""

    def whose(students: Iterable[str], assignment: str | None) -> str:
        return ", ".join([*students, assignment] if several and assignment else students)

    for (assignment, repair), students in _repaired(results).items():
        yield f"repaired, {whose(students, assignment)}: {repair}"
    names = [whose([result.student], result.report.assignment) for result in results]
    for name, result in zip(names, results, strict=True):
        yield from (f"remark, {name}: {remark}" for remark in result.remarks)
        yield from (f"not looked at, {name}: {one}, beside {_file_of(result)}" for one in result.left_out)
    for name, result in zip(names, results, strict=True):
        if result.report.status != "graded" and (result.waiting or not result.adjusted):  # nobody has marked it yet
            stays = "; the earlier result of the same file was kept" if result.retained else ""
            yield f"for a human, {name}: {_reason(result).rstrip('.')}{stays}"
        elif result.waiting:
            yield f"for a human, {name}: {', '.join(_waiting(result))}"
    for name, result in zip(names, results, strict=True):
        yield from (f"for a human, {name}: {doubt.render()}" for doubt in result.report.doubts)
    doubtful = [name for name, result in zip(names, results, strict=True) if result.provisional]
    if doubtful:
        listed = ("; " if several else ", ").join(doubtful)
        yield (
            f"a time limit or a killed process decided, {listed}: graded a second time by the next run that has "
            "anything to grade, and the better result stays"
        )
    # Whose score is another, of them `changes` tells.
    again = [name for name, result in zip(names, results, strict=True) if result.again and not result.change]
    if again:
        listed = ("; " if several else ", ").join(again)
        yield f"graded a second time, since a time limit or a killed process had decided before: {listed}"
    adjusted = [name for name, result in zip(names, results, strict=True) if result.adjusted]
    if adjusted:
        listed = ("; " if several else ", ").join(adjusted)
        yield f"marks by hand or late penalties, which `autograder export` counts in: {listed}"


def _file_of(result: Result) -> str:
    return Path(result.report.notebook).name


def _waiting(result: Result) -> Iterator[str]:
    """The exercises that wait for a human, and why those of them that one has marked."""
    for name in result.waiting:
        why = result.reopened.get(name)
        yield f"{name} ({REOPENED[why]})" if why else name


def _repaired(results: Sequence[Result]) -> dict[tuple[str | None, str], list[str]]:
    """The students of each repair, by assignment: an older release is repaired alike in a whole class."""
    students: dict[tuple[str | None, str], dict[str, None]] = {}
    for result in results:
        for repair in result.report.repairs:
            students.setdefault((result.report.assignment, repair.render()), {})[result.student] = None
    return {repair: list(names) for repair, names in students.items()}


def _reason(result: Result) -> str:
    """Why a submission has no score, in one sentence."""
    report = result.report
    if report.error is not None:
        return report.error.render()
    checks = (check for exercise in report.exercises for check in exercise.checks if check.outcome == "ungraded")
    return next((check.message.render() for check in checks if check.message), "a check could not be made")


class Clock:
    """How long a class took: warming up, and grading."""

    def __init__(self) -> None:
        self._started = self._ready = time.monotonic()
        self._how = ""

    def ready(self, how: str) -> None:
        """The grader is warm; `how` many submissions it examines at a time, and where."""
        self._ready, self._how = time.monotonic(), f", {how}"

    def summary(self, results: Sequence[Result]) -> str:
        """One line about it."""
        examined = [result for result in results if not result.stored]
        if not examined:
            one = len(results) == 1
            which, them = ("this one was", "it") if one else (f"these {len(results)} were", "them")
            if all(result.unchanged and result.change is None for result in results):
                return f"nothing has changed since {which} graded; --fresh grades {them} again"
            return f"{which} looked at before; --fresh grades {them} again"
        warm, took = self._ready - self._started, time.monotonic() - self._ready
        graded = sum(result.report.status == "graded" for result in examined)
        done = f"graded {graded or 'none'}"
        failed = len(examined) - graded
        if failed:
            done += f", {failed} could not be"
            done += ","
        done += f" in {took:.1f} s{self._how}, after {warm:.1f} s of warming up"
        stored = len(results) - len(examined)
        return f"{done}; {stored} of {len(results)} were looked at before" if stored else done
