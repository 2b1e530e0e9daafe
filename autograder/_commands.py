"""The commands about notebooks and about the course, from parsed options to an exit code.

Each one imports what it needs when it runs, so that ``autograder --help`` comes at once.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autograder._options import (
    assignments_of,
    console_for,
    course_of,
    near,
    print_json,
    seed_of,
    translations_of,
    warm_grader,
    with_progress,
)
from autograder.errors import CourseError, UnusableNotebook

if TYPE_CHECKING:
    from autograder.course import Course
    from autograder.report import GradeReport


def check(options: argparse.Namespace) -> int:
    """``autograder check``: one's own notebooks, or anyone's, one report each."""
    course = course_of(options)
    show = _shower(course, options)
    worst = 0
    seed = seed_of(course, options)
    if options.assignment is not None:
        course.assignment(options.assignment)
    unusable = _all_unusable(options.notebook, options.assignment, course, seed)
    if unusable is not None:
        for report in unusable:
            show(report)
        return _check_code(unusable[0])
    names = [options.assignment] if options.assignment else _recognised(options.notebook, course)
    with warm_grader(course, course.confinement.check, assignments=names) as grader:
        for path in options.notebook:
            report = grader.grade(path, options.assignment, seed).report
            show(report)
            worst = max(worst, _check_code(report))
    return worst


def _recognised(paths: Sequence[Path], course: Course) -> list[str]:
    """Which assignments these answer; that some can't be read is told by the grader."""
    from autograder.mend import recognise
    from autograder.notebook import read_notebook

    found = set()
    for path in paths:
        with contextlib.suppress(Exception):
            found.add(recognise(read_notebook(path), course))
    return sorted(found)


def _all_unusable(paths: Sequence[Path], assignment: str | None, course: Course, seed: int) -> list[GradeReport] | None:
    """The reports where none of the notebooks can be used, which costs no seconds of warming up; else None."""
    from autograder.course import suite_hash
    from autograder.mend import mend, recognise, released_notebook
    from autograder.messages import Message
    from autograder.notebook import TEST_PREFIX, read_notebook
    from autograder.report import without_score

    reports = []
    for path in paths:
        try:
            notebook = read_notebook(path)
            mend(notebook, course, assignment or recognise(notebook, course))
            return None
        except UnusableNotebook as fault:
            why = Message("{why}", {"why": str(fault)})
        except CourseError:
            raise
        except Exception:  # noqa: BLE001 - the grader tells of what we stumble over
            return None
        tests = {f"{TEST_PREFIX}{name}" for name in course.suites(assignment)} if assignment else set()
        released = released_notebook(course, assignment).cells if assignment else ()
        most = sum(cell.points for cell in released if cell.grade_id in tests)
        suite = suite_hash(course, assignment) if assignment else ""
        report = without_score(path, assignment, "unusable", why, max_score=most, seed=seed, suite_hash=suite)
        reports.append(report)
    return reports


def release(options: argparse.Namespace) -> int:
    """``autograder release``: the students' notebooks."""
    course = course_of(options)
    names = assignments_of(course, options)
    from autograder.release import check_release, write_release

    if options.check:
        stale = check_release(course, names)
        for path in stale:
            print(f"{near(path)} is out of step with its source; run `autograder release`.")
        if not stale:
            print(f"in step with their sources: {', '.join(names)}")
        return 1 if stale else 0
    changed = write_release(course, names)
    for path in changed:
        print(f"wrote {near(path)}")
    if not changed:
        print(f"nothing to write, in step with their sources: {', '.join(names)}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """``autograder verify``: the course proves itself."""
    if options.check and options.table is None:
        raise CourseError("--check goes with --table FILE: it tells whether that file is in step.")
    course = course_of(options)
    names = assignments_of(course, options)
    seed = seed_of(course, options)
    from autograder.killmatrix import page, show
    from autograder.verify import prove

    with warm_grader(course, course.confinement.grade, options.workers, names) as grader:
        proofs = prove(course, names, grader, seed, lambda reports, total: with_progress(reports, total, "proving"))
    show(proofs, seed, console_for(sys.stdout))
    holds = all(proof.holds for proof in proofs)
    if options.table is not None:
        in_step = _keep_table(options.table, page(proofs, seed), options.check)
        holds = holds and in_step
    return 0 if holds else 1


def _keep_table(path: Path, page: str, check: bool) -> bool:
    """Write a page, or only tell whether it stands there as it would be written."""
    if path.is_file() and path.read_text(encoding="utf-8") == page:
        return True
    if check:
        print(f"{near(path)} is out of step with the hidden suites; run `make matrix`.")
        return False
    from autograder.export import write

    write(path, page)
    print(f"wrote {near(path)}")
    return True


def doctor(options: argparse.Namespace) -> int:
    """``autograder doctor``: what this machine offers, and whether the course that we are in can be used."""
    from autograder.course import find_course
    from autograder.doctor import diagnose

    for line in diagnose().lines():
        print(line)
    if options.course is None:
        try:
            find_course(Path.cwd())
        except CourseError:
            return 0  # it needs none
    try:
        course_of(options)
    except CourseError as fault:
        print(f"The course can't be used: {fault}")
    return 0


def _check_code(report: GradeReport) -> int:
    if report.status == "graded":
        return 0 if report.complete else 1
    return 2 if report.status == "unusable" else 3


def _shower(course: Course, options: argparse.Namespace) -> Callable[[GradeReport], None]:
    """How `check` shows a report: as one line of JSON, or as a page."""
    translations = translations_of(course, options)
    if options.json:
        return lambda report: print_json(report.public(translations))
    from autograder.terminal import show_report

    console = console_for(sys.stdout)
    shown = 0

    def show(report: GradeReport) -> None:
        nonlocal shown
        if shown:
            console.print("\n")
        show_report(report, console, translations)
        shown += 1

    return show
