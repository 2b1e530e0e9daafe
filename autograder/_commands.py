"""The commands, from parsed options to an exit code.

Each one imports what it needs when it runs, so that ``autograder --help`` comes at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from autograder.errors import CourseError
from autograder.submissions import Submission, submissions

if TYPE_CHECKING:
    import gettext

    from rich.console import Console

    from autograder.course import Course, Tier
    from autograder.grading import Graded, Grader
    from autograder.report import GradeReport


def check(options: argparse.Namespace) -> int:
    """``autograder check``: one's own notebooks, or anyone's, one report each."""
    course = _course(options)
    show = _shower(course, options)
    worst = 0
    seed = _seed(course, options)
    if options.assignment is not None:
        course.assignment(options.assignment)
    with _grader(course, course.confinement.check) as grader:
        for path in options.notebook:
            report = grader.grade(path, options.assignment, seed).report
            show(report)
            worst = max(worst, _check_code(report))
    return worst


def grade(options: argparse.Namespace) -> int:
    """``autograder grade``: a class, as a table."""
    course = _course(options)
    names = _assignments(course, options)
    folder = options.submissions or course.root / "submitted"
    found = {name: submissions(folder, name) for name in names}
    if not any(found.values()):
        layout = f"<student>/{names[0]}/{names[0]}.ipynb"
        raise CourseError(f"no submissions in {folder}; they are looked for as {layout}.")
    seed = _seed(course, options)
    faults = 0
    clock = Clock()
    _tell_strays(folder, names, found)
    with _grader(course, course.confinement.grade, options.workers) as grader:
        clock.ready()
        for name, submitted in found.items():
            if submitted:
                faults += _grade_assignment(grader, course, name, submitted, seed, options)
    count = sum(len(submitted) for submitted in found.values())
    print(f"{clock.summary(count, options.workers)}; seed {seed}", file=sys.stderr if options.json else sys.stdout)
    return 3 if faults else 0


def release(options: argparse.Namespace) -> int:
    """``autograder release``: the students' notebooks."""
    course = _course(options)
    names = _assignments(course, options)
    from autograder.release import check_release, write_release

    if options.check:
        stale = check_release(course, names)
        for path in stale:
            print(f"{_near(path)} is out of step with its source; run `autograder release`.")
        if not stale:
            print(f"in step with their sources: {', '.join(names)}")
        return 1 if stale else 0
    changed = write_release(course, names)
    for path in changed:
        print(f"wrote {_near(path)}")
    if not changed:
        print(f"nothing to write, in step with their sources: {', '.join(names)}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """``autograder verify``: the course proves itself."""
    course = _course(options)
    names = _assignments(course, options)
    seed = _seed(course, options)
    from autograder.verify import verify as holds

    return 0 if holds(course, names, seed, options.workers, _console(sys.stdout)) else 1


def doctor(_options: argparse.Namespace) -> int:
    """``autograder doctor``: what this machine offers."""
    from autograder.doctor import diagnose

    for line in diagnose().lines():
        print(line)
    return 0


def _grade_assignment(
    grader: Grader,
    course: Course,
    name: str,
    submitted: Sequence[Submission],
    seed: int,
    options: argparse.Namespace,
) -> int:
    """Grade and show one assignment; returns how many submissions stay ungraded through our fault."""
    from autograder.terminal import ClassRow, show_class

    translations = _translations(course, options)
    paths = [submission.path for submission in submitted]
    rows = []
    graded = grader.grade_many(paths, name, seed)
    for submission, result in zip(submitted, _progress(graded, len(paths), name), strict=True):
        seconds = result.examined.seconds.get("total", 0.0) if result.examined else 0.0
        rows.append(ClassRow(submission.student, result.report, seconds))
        if options.json:
            _print_json({"student": submission.student} | result.report.public(translations))
    if not options.json:
        console = _console(sys.stdout)
        console.print(f"{course.assignment(name).title} ({name})\n", style="bold", markup=False, highlight=False)
        show_class(rows, console, translations)
    return sum(row.report.status == "ungraded" for row in rows)


def _tell_strays(folder: Path, names: Sequence[str], found: Mapping[str, Sequence[Submission]]) -> None:
    """Students who have a folder and no submission where one is looked for: nobody vanishes without a word."""
    for name in names:
        graded = {submission.student for submission in found[name]}
        strays = [p.name for p in sorted(folder.iterdir()) if p.is_dir() and p.name[0] != "." and p.name not in graded]
        if graded and strays:
            print(f"no folder {name}/ in: {', '.join(strays)}", file=sys.stderr)


class Clock:
    """How long a class took: warming up, and grading."""

    def __init__(self) -> None:
        self._started = self._ready = time.monotonic()

    def ready(self) -> None:
        """The grader is warm."""
        self._ready = time.monotonic()

    def summary(self, count: int, workers: int) -> str:
        """One line about it."""
        warm, graded = self._ready - self._started, time.monotonic() - self._ready
        return f"graded {count} in {graded:.1f} s, {workers} at a time, after {warm:.1f} s of warming up"


def _grader(course: Course, required: Tier, workers: int = 1) -> Grader:
    """A warm grader; on a terminal, stderr says what is waited for."""
    from autograder.grading import Grader

    console = _console(sys.stderr)
    if not console.is_terminal:
        return Grader(course, required, workers)
    with console.status("warming up: two processes import torch, which takes some seconds"):
        return Grader(course, required, workers)


def _check_code(report: GradeReport) -> int:
    if report.status == "graded":
        return 0 if report.complete else 1
    return 2 if report.status == "unusable" else 3


def _shower(course: Course, options: argparse.Namespace) -> Callable[[GradeReport], None]:
    """How `check` shows a report: as one line of JSON, or as a page."""
    translations = _translations(course, options)
    if options.json:
        return lambda report: _print_json(report.public(translations))
    from autograder.terminal import show_report

    console = _console(sys.stdout)
    shown = 0

    def show(report: GradeReport) -> None:
        nonlocal shown
        if shown:
            console.print("\n")
        show_report(report, console, translations)
        shown += 1

    return show


def _print_json(value: dict[str, Any]) -> None:
    import json

    # All but ASCII is escaped: a student's exception may hold what moves a terminal's cursor.
    print(json.dumps(value), flush=True)


def _progress(graded: Iterable[Graded], total: int, name: str) -> Iterator[Graded]:
    """The same, with a bar on a terminal's stderr that disappears at the end."""
    from rich.progress import track

    console = _console(sys.stderr)
    yield from track(
        graded,
        name,
        total,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        auto_refresh=False,
    )


def _course(options: argparse.Namespace) -> Course:
    from autograder.course import COURSE_FILE, find_course, load_course

    named = options.course
    if named is not None and named.name == COURSE_FILE and named.is_file():
        named = named.parent
    return load_course(named if named is not None else find_course(Path.cwd()))


def _assignments(course: Course, options: argparse.Namespace) -> list[str]:
    names = options.assignments or list(course.assignments)
    for name in names:
        course.assignment(name)
    return names


def _seed(course: Course, options: argparse.Namespace) -> int:
    from autograder.course import STATE_FOLDER, course_seed

    if options.seed is not None:
        return int(options.seed)
    seed = course_seed(course)
    kept = course.root / STATE_FOLDER / "seed"
    if not kept.is_file():
        print(f"{kept} can't be written: the seed {seed} is of this run alone; --seed uses it again.", file=sys.stderr)
    return seed


def _translations(course: Course, options: argparse.Namespace) -> gettext.NullTranslations:
    from autograder.messages import languages, translations

    language = options.language or course.language
    if language not in languages():
        raise CourseError(f"there is no language {language!r}; there is: {', '.join(languages())}.")
    return translations(language)


def _near(path: Path) -> Path:
    """A path as short as it can be typed from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream)
