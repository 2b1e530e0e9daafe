"""The commands about a class, from parsed options to an exit code: grade, feedback, export."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from autograder.errors import CourseError
from autograder.submissions import Submission, strange_folders, submissions

if TYPE_CHECKING:
    from nbgrader.apps.baseapp import NbGrader

    from autograder.classroom import Result
    from autograder.course import Course
    from autograder.grading import Grader
    from autograder.nbgrader.files import ClassFiles
    from autograder.nbgrader.gradebook import ClassGradebook


def grade(options: argparse.Namespace) -> int:
    """``autograder grade``: a class, into the gradebook, and as a table."""
    course = course_of(options)
    names = assignments_of(course, options)
    seed = seed_of(course, options)
    clock = Clock()
    everyone: list[Result] = []
    missed: list[str] = []
    with contextlib.ExitStack() as until_done:
        app = _nbgrader(course, options)
        from autograder.classroom import ClassRun
        from autograder.nbgrader.files import ClassFiles
        from autograder.nbgrader.gradebook import ClassGradebook

        files = ClassFiles(course, app)
        found = _submitted(files, names, options)
        if not options.student:
            missed = list(_missed(files.submitted, course, found))
            print(*missed, sep="\n", end="\n" if missed else "", file=sys.stderr)
        until_done.enter_context(files.alone())
        if options.into is not None:
            options.into.mkdir(parents=True, exist_ok=True)
        _expect_writable(app)
        gradebook = until_done.enter_context(ClassGradebook(course, app))

        @functools.cache
        def grader() -> Grader:  # the seconds of its start are for what has to be examined
            tier, workers = course.confinement.grade, options.workers
            warm = until_done.enter_context(warm_grader(course, tier, workers, follow=False))
            clock.ready()
            return warm

        for name, submitted in found.items():
            run = ClassRun(course, gradebook, files, name, submitted, seed, again=options.force)
            results = run.results(grader() if run.new else None)
            everyone += _shown(course, name, results, len(submitted), options)
        if not options.json:
            if len(found) > 1:
                _show_totals(everyone, course, options)
            said = list(_outcome(everyone, several=len(found) > 1)) + missed
            said.append(f"{clock.summary(everyone, options.workers)}; seed {seed}")
            said.append(f"gradebook: {near(gradebook.path)}; graded notebooks: {near(files.graded)}")
            _show_lines(said)
    return 3 if any(result.report.status == "ungraded" for result in everyone) else 0


def feedback(options: argparse.Namespace) -> int:
    """``autograder feedback``: a page for each graded submission."""
    course = course_of(options)
    names = assignments_of(course, options)
    translations = translations_of(course, options)
    written: list[Path] = []
    with _existing(course, options) as (gradebook, files):
        from autograder.feedback.pages import write_pages

        known = {student for name in names for student, _ in files.notebooks(name)}
        unknown = sorted(set(options.student) - known)
        if unknown or not known:
            whose = f" of {', '.join(unknown)}" if unknown else ""
            raise CourseError(
                f"there is no graded notebook{whose} in {near(files.graded)}; run `autograder grade` first."
            )
        for name in names:
            count = sum(not options.student or student in options.student for student, _ in files.notebooks(name))
            pages = write_pages(gradebook, files, course, name, options.student, translations)
            for page in with_progress(pages, count, name):
                _keep_proof(files.graded / page.parent.relative_to(files.feedback), page.parent)
                written.append(page)
    print(f"wrote {_counted(len(written), 'page')} to {near(files.feedback)}, such as {near(written[-1])}")
    return 0


def _keep_proof(graded: Path, pages: Path) -> None:
    """Put beside pages what ``nbgrader release_feedback`` needs to find whose they are, or take away an older one's."""
    for name in ("timestamp.txt", "submission_secret.txt"):
        kept, copy = graded / name, pages / name
        copy.unlink(missing_ok=True)
        if kept.exists() and stat.S_ISREG(kept.lstat().st_mode):
            shutil.copyfile(kept, copy)


def export(options: argparse.Namespace) -> int:
    """``autograder export``: the gradebook as a table."""
    course = course_of(options)
    named = assignments_of(course, options) if options.assignments else []
    with _existing(course, options) as (gradebook, files):
        from autograder.classroom import doubts_of
        from autograder.export import rows, to_csv, to_json, write

        doubts = doubts_of(files, named or list(course.assignments))
        found = rows(gradebook.nbgrader, named, options.student, doubts)
    form = options.format or ("json" if options.to is not None and options.to.suffix == ".json" else "csv")
    text = to_json(found) if form == "json" else to_csv(found)
    if options.to is None:
        sys.stdout.write(text)
        return 0
    write(options.to, text)
    print(f"wrote {_counted(len(found), 'row')} to {near(options.to)}")
    return 0


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _nbgrader(course: Course, options: argparse.Namespace) -> NbGrader:
    """nbgrader in the course's folders, or in those that were named."""
    from sqlalchemy.engine import URL

    from autograder.nbgrader.config import nbgrader_of

    folders: dict[str, str] = {}
    if getattr(options, "submissions", None) is not None:
        folders["submitted_directory"] = str(options.submissions.resolve())
    if options.into is not None:
        into = options.into.resolve()
        folders["db_url"] = URL.create("sqlite", database=str(into / "gradebook.db")).render_as_string()
        folders |= {f"{step}_directory": str(into / step) for step in ("autograded", "feedback")}
    return nbgrader_of(course, **folders)


@contextlib.contextmanager
def _existing(course: Course, options: argparse.Namespace) -> Iterator[tuple[ClassGradebook, ClassFiles]]:
    """A gradebook that is there already, and the files beside it."""
    app = _nbgrader(course, options)
    from autograder.nbgrader.files import ClassFiles
    from autograder.nbgrader.gradebook import ClassGradebook, file_of

    place = file_of(app.coursedir.db_url)
    if place is not None and not place.is_file():
        raise CourseError(f"there is no gradebook {near(place)}; run `autograder grade` first.")
    with ClassGradebook(course, app) as gradebook:
        yield gradebook, ClassFiles(course, app)


def _submitted(files: ClassFiles, names: Sequence[str], options: argparse.Namespace) -> dict[str, list[Submission]]:
    """The submissions to grade, by assignment; unknown students are told."""
    folder = files.submitted
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
    wanted = {name: [one for one in all_ if one.student not in files.excluded] for name, all_ in found.items()}
    return {name: submitted for name, submitted in wanted.items() if submitted}


def _missed(folder: Path, course: Course, found: Mapping[str, Sequence[Submission]]) -> Iterator[str]:
    """Students without a submission where one is looked for, and misspelt folders: nobody vanishes without a word."""
    for name in found:
        graded = {submission.student for submission in submissions(folder, name)}
        strays = [p.name for p in sorted(folder.iterdir()) if p.is_dir() and p.name[0] != "." and p.name not in graded]
        if strays:
            yield f"no folder {name}/ in: {', '.join(strays)}"
    for student, name in strange_folders(folder, course.assignments):
        yield f"not looked at, {student}: the folder {name}/, which is no assignment's name"


def _expect_writable(app: NbGrader) -> None:
    from autograder.nbgrader.gradebook import file_of

    place = file_of(app.coursedir.db_url)
    if place is None:
        return
    if not os.access(place.parent, os.W_OK | os.X_OK):  # SQLite keeps its journal there
        raise CourseError(f"the folder {near(place.parent)} can't be written; name another with --into.")
    if place.exists() and not os.access(place, os.W_OK):
        raise CourseError(
            f"the gradebook {near(place)} can't be written; look at its owner, or name another with --into."
        )


def _shown(
    course: Course, name: str, results: Iterator[Result], count: int, options: argparse.Namespace
) -> list[Result]:
    """Print one assignment: a line of JSON for each submission as it is recorded, or a table at the end."""
    translations = translations_of(course, options)
    done: list[Result] = []
    try:
        for result in with_progress(results, count, name):
            done.append(result)
            if options.json:
                marks = {"unchanged": result.unchanged, "kept": result.kept, "waiting": list(result.waiting)}
                print_json({"student": result.student} | result.report.public(translations) | marks)
    except KeyboardInterrupt:
        print(f"{name}: {len(done)} of {count} are recorded; the rest is graded by the next run.", file=sys.stderr)
        raise
    if not options.json:
        from autograder.terminal import ClassRow, show_class

        console = console_for(sys.stdout)
        console.print(f"{course.assignment(name).title} ({name})\n", style="bold", markup=False, highlight=False)
        show_class([ClassRow(one.student, one.report, one.seconds) for one in done], console, translations)
        console.print()
    return done


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
        if result.report.status != "graded":
            kept = "; the earlier result of the same file was kept" if result.kept else ""
            yield f"for a human, {name}: {_reason(result).rstrip('.')}{kept}"
        elif result.waiting:
            yield f"for a human, {name}: {', '.join(result.waiting)}"
    for name, result in zip(names, results, strict=True):
        yield from (f"for a human, {name}: {doubt.render()}" for doubt in result.report.doubts)
    adjusted = [name for name, result in zip(names, results, strict=True) if result.adjusted]
    if adjusted:
        listed = ("; " if several else ", ").join(adjusted)
        yield f"marks by hand or late penalties, which `autograder export` counts in: {listed}"


def _file_of(result: Result) -> str:
    return Path(result.report.notebook).name


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

    def ready(self) -> None:
        """The grader is warm."""
        self._ready = time.monotonic()

    def summary(self, results: Sequence[Result], workers: int) -> str:
        """One line about it."""
        examined = [result for result in results if not result.unchanged]
        if not examined:
            one = len(results) == 1
            which, them = ("this one was", "it") if one else (f"these {len(results)} were", "them")
            return f"nothing has changed since {which} graded; --force grades {them} again"
        warm, took = self._ready - self._started, time.monotonic() - self._ready
        graded = sum(result.report.status == "graded" for result in examined)
        done = f"graded {graded or 'none'}"
        failed = len(examined) - graded
        if failed:
            done += f", {failed} could not be"
        if len(examined) < len(results):
            done += f" ({len(results) - len(examined)} more are unchanged)"
        if failed:
            done += ","
        return f"{done} in {took:.1f} s, {workers} at a time, after {warm:.1f} s of warming up"
