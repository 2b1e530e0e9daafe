"""The commands about a class, from parsed options to an exit code: grade, feedback, export."""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from autograder._options import (
    assignments_of,
    console_for,
    course_of,
    near,
    print_json,
    seed_of,
    translations_of,
    warm_grader,
)
from autograder.errors import CourseError
from autograder.submissions import Submission, submissions

if TYPE_CHECKING:
    from autograder.classroom import Result
    from autograder.course import Course
    from autograder.grading import Grader
    from autograder.nbgrader.gradebook import ClassGradebook

Item = TypeVar("Item")


def grade(options: argparse.Namespace) -> int:
    """``autograder grade``: a class, into the gradebook, and as a table."""
    course = course_of(options)
    names = assignments_of(course, options)
    found = _submitted(course, names, options)
    seed = seed_of(course, options)
    clock = Clock()
    results: dict[str, list[Result]] = {}
    with contextlib.ExitStack() as until_done:
        gradebook = until_done.enter_context(_gradebook(course, options))
        until_done.enter_context(gradebook.alone())
        from autograder.classroom import grade_class

        @functools.cache
        def grader() -> Grader:  # the seconds of its start are for what has to be examined
            warm = until_done.enter_context(warm_grader(course, course.confinement.grade, options.workers))
            clock.ready()
            return warm

        for name, submitted in found.items():
            graded = grade_class(grader, gradebook, course, name, submitted, seed, again=options.force)
            results[name] = list(_progress(graded, len(submitted), name))
            _show(course, name, results[name], options)
        everyone = [result for graded in results.values() for result in graded]
        if not options.json:
            _show_outcome(everyone, gradebook, clock.summary(everyone, options.workers), seed)
    return 3 if any(result.report.status == "ungraded" for result in everyone) else 0


def feedback(options: argparse.Namespace) -> int:
    """``autograder feedback``: a page for each graded submission."""
    course = course_of(options)
    names = assignments_of(course, options)
    translations = translations_of(course, options)
    written = 0
    with _gradebook(course, options) as gradebook:
        from autograder.feedback.pages import write_pages

        for name in names:
            total = len(options.student or gradebook.graded(name))
            for page in _progress(write_pages(gradebook, course, name, options.student, translations), total, name):
                written += 1
                last = page
        if not written:
            whose = f" of {', '.join(options.student)}" if options.student else ""
            raise CourseError(
                f"there is no graded notebook{whose} in {near(gradebook.graded_root)}; run `autograder grade` first."
            )
        print(f"wrote {written} pages to {near(gradebook.feedback_root)}/, such as {near(last)}")
    return 0


def export(options: argparse.Namespace) -> int:
    """``autograder export``: the gradebook as a table."""
    course = course_of(options)
    named = assignments_of(course, options) if options.assignments else []
    with _gradebook(course, options) as gradebook:
        from autograder.export import rows, to_csv, to_json, write

        found = rows(gradebook.nbgrader, named, options.student)
    form = options.format or ("json" if options.to is not None and options.to.suffix == ".json" else "csv")
    text = to_json(found) if form == "json" else to_csv(found)
    if options.to is None:
        sys.stdout.write(text)
        return 0
    write(options.to, text)
    print(f"wrote {len(found)} rows to {near(options.to)}")
    return 0


def _gradebook(course: Course, options: argparse.Namespace) -> ClassGradebook:
    """The course's gradebook, or one in the folder that was named."""
    from autograder.nbgrader.config import nbgrader_of
    from autograder.nbgrader.gradebook import ClassGradebook

    folders: dict[str, str] = {}
    if getattr(options, "submissions", None) is not None:
        folders["submitted_directory"] = str(options.submissions.resolve())
    if options.into is not None:
        into = options.into.resolve()
        into.mkdir(parents=True, exist_ok=True)
        folders["db_url"] = f"sqlite:///{into / 'gradebook.db'}"
        folders |= {f"{step}_directory": str(into / step) for step in ("autograded", "feedback")}
    return ClassGradebook(course, nbgrader_of(course, **folders))


def _submitted(course: Course, names: Sequence[str], options: argparse.Namespace) -> dict[str, list[Submission]]:
    """The submissions to grade, by assignment; students without one, and unknown ones, are told."""
    folder = options.submissions or course.root / "submitted"
    found = {name: submissions(folder, name) for name in names}
    if not any(found.values()):
        layout = f"<student>/{names[0]}/{names[0]}.ipynb"
        raise CourseError(f"no submissions in {folder}; they are looked for as {layout}.")
    if options.student:
        known = {submission.student for submitted in found.values() for submission in submitted}
        unknown = sorted(set(options.student) - known)
        if unknown:
            raise CourseError(
                f"no submission of {', '.join(unknown)} in {folder}; there are: {', '.join(sorted(known))}."
            )
        found = {name: [one for one in all_ if one.student in options.student] for name, all_ in found.items()}
    else:
        _tell_strays(folder, names, found)
    return {name: submitted for name, submitted in found.items() if submitted}


def _tell_strays(folder: Path, names: Sequence[str], found: Mapping[str, Sequence[Submission]]) -> None:
    """Students who have a folder and no submission where one is looked for: nobody vanishes without a word."""
    for name in names:
        graded = {submission.student for submission in found[name]}
        strays = [p.name for p in sorted(folder.iterdir()) if p.is_dir() and p.name[0] != "." and p.name not in graded]
        if graded and strays:
            print(f"no folder {name}/ in: {', '.join(strays)}", file=sys.stderr)


def _show(course: Course, name: str, results: Sequence[Result], options: argparse.Namespace) -> None:
    """Print one assignment: a table, or a line of JSON for each submission."""
    translations = translations_of(course, options)
    if options.json:
        for result in results:
            print_json({"student": result.student} | result.report.public(translations))
        return
    from autograder.terminal import ClassRow, show_class

    console = console_for(sys.stdout)
    console.print(f"{course.assignment(name).title} ({name})\n", style="bold", markup=False, highlight=False)
    show_class([ClassRow(one.student, one.report, one.seconds) for one in results], console, translations)
    console.print()


def _show_outcome(results: Sequence[Result], gradebook: ClassGradebook, summary: str, seed: int) -> None:
    """Print who was repaired, who needs a human, and where things lie."""
    from autograder.terminal import show_lines

    said = []
    for result in results:
        for repair in result.report.repairs:
            said.append(f"repaired, {result.student}: {repair.render()}")
    for result in results:
        if result.report.status != "graded":
            kept = "; the earlier result was kept" if result.kept else ""
            said.append(f"for a human, {result.student}: {_reason(result)}{kept}")
        elif result.by_hand:
            said.append(f"for a human, {result.student}: {', '.join(result.by_hand)}")
    said.append(f"{summary}; seed {seed}")
    said.append(f"gradebook: {near(gradebook.path)}; graded notebooks: {near(gradebook.graded_root)}")
    show_lines(said, console_for(sys.stdout))


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

    def ready(self) -> None:
        """The grader is warm."""
        self._ready = time.monotonic()

    def summary(self, results: Sequence[Result], workers: int) -> str:
        """One line about it."""
        examined = sum(not result.unchanged for result in results)
        if not examined:
            return f"nothing has changed since these {len(results)} were graded; --force grades them again"
        warm, graded = self._ready - self._started, time.monotonic() - self._ready
        unchanged = f" ({len(results) - examined} more are unchanged)" if examined < len(results) else ""
        return f"graded {examined}{unchanged} in {graded:.1f} s, {workers} at a time, after {warm:.1f} s of warming up"


def _progress(items: Iterable[Item], total: int, name: str) -> Iterator[Item]:
    """The same, with a bar on a terminal's stderr that disappears at the end."""
    from rich.progress import track

    console = console_for(sys.stderr)
    yield from track(
        items,
        name,
        total,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        auto_refresh=False,
    )
