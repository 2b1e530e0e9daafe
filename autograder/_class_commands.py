"""The commands about a class, from parsed options to an exit code: grade, feedback, export."""

from __future__ import annotations

import argparse
import collections
import contextlib
import difflib
import itertools
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autograder._class_outcome import Clock, Done, shown, tell
from autograder._options import (
    assignments_of,
    course_of,
    near,
    seed_of,
    translations_of,
    wait_for,
    with_progress,
)
from autograder.errors import CourseError

if TYPE_CHECKING:
    from nbgrader.apps.baseapp import NbGrader

    from autograder.class_result import Result
    from autograder.cluster import Cluster
    from autograder.course import Course
    from autograder.feedback.pages import Asked
    from autograder.feedback.place import Place
    from autograder.grading import ClassGrader, Graded
    from autograder.nbgrader.files import ClassFiles
    from autograder.nbgrader.gradebook import ClassGradebook
    from autograder.submissions import Submission


def grade(options: argparse.Namespace) -> int:
    """``autograder grade``: a class, into the gradebook, and as a table."""
    course = course_of(options)
    names = assignments_of(course, options)
    seed = seed_of(course, options)
    clock = Clock()
    with contextlib.ExitStack() as until_done:
        done = None if options.fresh else _unchanged(course, names, seed, options)
        if done is None:
            done = _grade(course, names, seed, options, clock, until_done)
        if not options.json:
            tell(done, clock, course, seed, options)
        sys.stdout.flush()
        done.told()
    failed = (result for result in done.results if result.report.status == "ungraded" and not result.undecided)
    return 3 if any(failed) else 0


def _unchanged(course: Course, names: Sequence[str], seed: int, options: argparse.Namespace) -> Done | None:
    """What a run prints that finds all as the last one left it, without nbgrader; None where it does not."""
    from autograder.setting import setting_of
    from autograder.unchanged import unchanged_class

    setting = setting_of(course, options.submissions, options.into)
    if setting is None:
        return None
    found = _submitted(Path(setting.submitted), setting.excluded, names, options)
    results = unchanged_class(course, found, seed, setting)
    if results is None:
        return None
    missed = _told_missed(Path(setting.submitted), course, found, options)
    for name, each in results.items():
        shown(course, name, iter(each), len(each), options)
    everyone = [result for each in results.values() for result in each]
    return Done(everyone, len(found), missed, Path(setting.database), Path(setting.graded))


def _grade(
    course: Course,
    names: Sequence[str],
    seed: int,
    options: argparse.Namespace,
    clock: Clock,
    until_done: contextlib.ExitStack,
) -> Done:
    """Grade what has to be graded, and record the class."""
    from autograder.grading import Grader

    # Its start takes seconds, in which nbgrader is imported.
    cluster = None if options.scheduler is None else _cluster(course, names, options)
    grader: ClassGrader = cluster or Grader(
        course, course.confinement.grade, options.workers, follow=False, assignments=names
    )
    until_done.callback(grader.close)
    app = _nbgrader(course, options)
    from autograder.classroom import ClassRun
    from autograder.feedback.place import place_of
    from autograder.nbgrader.files import ClassFiles
    from autograder.nbgrader.gradebook import ClassGradebook
    from autograder.setting import keep_setting

    files = ClassFiles(course, app)
    found = _submitted(files.submitted, files.excluded, names, options)
    missed = _told_missed(files.submitted, course, found, options)
    until_done.enter_context(files.alone())
    if options.into is not None:
        _make_folder(options.into)
    _expect_writable(app)
    gradebook = until_done.enter_context(ClassGradebook(course, app))
    keep_setting(course, files.setting(gradebook.path), options.submissions, options.into)
    place_of(course, options.into, files, gradebook.path)  # for the pages, which then need not ask nbgrader

    fresh = options.fresh
    runs = {name: ClassRun(course, gradebook, files, name, each, seed, fresh) for name, each in found.items()}
    new = [one for run in runs.values() for one in run.new]
    if new:
        wait_for(grader)
        clock.ready(cluster.how if cluster else f"{options.workers} at a time")
    # All assignments in one go: the last submission to one of them keeps no lane waiting.
    examined = grader.grade_many(new, seed)

    def one_more(path: Path, assignment: str) -> Graded:
        return next(grader.grade_many([(path, assignment)], seed))

    everyone: list[Result] = []
    for name, run in runs.items():
        everyone += shown(course, name, run.results(examined, one_more), len(found[name]), options)

    def told() -> None:
        for run in runs.values():
            run.told()

    ended = _told_ended(cluster, options) if cluster else ()
    return Done(everyone, len(found), missed, gradebook.path, files.graded, told, ended)


def _cluster(course: Course, names: Sequence[str], options: argparse.Namespace) -> Cluster:
    """The machines that grade in this one's place; only where they are asked for is Dask imported."""
    from autograder.cluster import Cluster

    return Cluster(course, options.scheduler, names)


def _told_ended(cluster: Cluster, options: argparse.Namespace) -> list[str]:
    """The workers that have ended meanwhile, in one line."""
    ended = ", ".join(cluster.ended())
    lines = [f"workers that have ended meanwhile: {ended}; what they had not finished went to others"] if ended else []
    return _also_with_json(lines, options)


def _also_with_json(lines: list[str], options: argparse.Namespace) -> list[str]:
    """The lines, which the end of a run tells; with JSON, stderr does."""
    if options.json:
        print(*lines, sep="\n", end="\n" if lines else "", file=sys.stderr)
    return lines


def _told_missed(
    folder: Path, course: Course, found: Mapping[str, Sequence[Submission]], options: argparse.Namespace
) -> list[str]:
    """What was not handed in; nothing where students are named."""
    return _also_with_json([] if options.student else list(_missed(folder, course, found)), options)


def feedback(options: argparse.Namespace) -> int:
    """``autograder feedback``: a page for each graded submission."""
    course = course_of(options)
    names = assignments_of(course, options)
    translations = translations_of(course, options)
    place, pages = _pages(course, names, options)
    from autograder.feedback.pages import written

    known = {page.student for page in pages}
    unknown = sorted(set(options.student) - known)
    if unknown or not known:
        whose = f" of {', '.join(unknown)}" if unknown else ""
        raise CourseError(
            f"there is no graded notebook{whose} in {near(Path(place.graded))}; run `autograder grade` first."
        )
    done: list[Path | None] = []
    with contextlib.closing(written(pages, translations, options.workers)) as results:
        for name, count in collections.Counter(page.assignment for page in pages).items():
            done += with_progress(itertools.islice(results, count), count, name)
    targets = [target for target in done if target is not None]
    if not targets:
        raise CourseError(
            f"no graded notebook in {near(Path(place.graded))} can be read; run `autograder grade` again."
        )
    for page, target in zip(pages, done, strict=True):
        if target is None:
            print(f"no page: {near(page.notebook)} can't be read; run `autograder grade` again.", file=sys.stderr)
    print(f"wrote {_counted(len(targets), 'page')} to {near(Path(place.feedback))}, such as {near(targets[-1])}")
    return 0


def _pages(course: Course, names: Sequence[str], options: argparse.Namespace) -> tuple[Place, list[Asked]]:
    """The pages to write, with their marks; nbgrader is asked the first time, or where the gradebook is no file."""
    import sqlite3

    from autograder.feedback.place import asked_in, known_place, place_of

    place = known_place(course, options.into)
    if place is not None:
        with contextlib.suppress(sqlite3.Error):
            return place, asked_in(place, course, names, options.student)
    with _existing(course, options) as (gradebook, files):
        from autograder.feedback.pages import asked

        place = place_of(course, options.into, files, gradebook.path)
        if place.database:
            with contextlib.suppress(sqlite3.Error):
                return place, asked_in(place, course, names, options.student)
        found = (asked(course, name, files.graded, files.feedback, gradebook.marks, options.student) for name in names)
        return place, [one for each in found for one in each]


def export(options: argparse.Namespace) -> int:
    """``autograder export``: the gradebook as a table."""
    course = course_of(options)
    named = assignments_of(course, options) if options.assignments else []
    form = options.format or _format_of(options.to)
    with _existing(course, options) as (gradebook, files):
        from autograder.classroom import doubts_of
        from autograder.export import rows, to_csv, to_json, write

        doubts = doubts_of(files, named or list(course.assignments))
        with gradebook.told():
            found = rows(gradebook.nbgrader, named, options.student, doubts)
    text = to_json(found) if form == "json" else to_csv(found)
    if options.to is None:
        sys.stdout.write(text)
        return 0
    write(options.to, text)
    print(f"wrote {_counted(len(found), 'row')} to {near(options.to)}")
    return 0


def _format_of(target: Path | None) -> str:
    """What the name of a file asks for."""
    ending = target.suffix.lower() if target is not None else ""
    if ending in (".xlsx", ".xls", ".ods"):
        raise CourseError(
            f"a spreadsheet's own format ({ending}) can't be written; name a file that ends in .csv, which it opens."
        )
    return "json" if ending == ".json" else "csv"


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
    with ClassGradebook(course, app, make=False) as gradebook:
        yield gradebook, ClassFiles(course, app)


def _submitted(
    folder: Path, excluded: Collection[str], names: Sequence[str], options: argparse.Namespace
) -> dict[str, list[Submission]]:
    """The submissions to grade, by assignment; unknown students are told."""
    from autograder.submissions import submissions

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
    wanted = {name: [one for one in all_ if one.student not in excluded] for name, all_ in found.items()}
    return {name: submitted for name, submitted in wanted.items() if submitted}


def _missed(folder: Path, course: Course, found: Mapping[str, Sequence[Submission]]) -> Iterator[str]:
    """Students without a submission where one is looked for, and misspelt folders: nobody vanishes without a word."""
    from autograder.submissions import is_text, strange_folders, submissions

    students = [place.name for place in sorted(folder.iterdir()) if place.is_dir() and place.name[0] != "."]
    for name in found:
        graded = {submission.student for submission in submissions(folder, name)}
        strays = [student for student in students if student not in graded and is_text(student)]
        if strays:
            yield f"no folder {name}/ in: {', '.join(strays)}"
    for student, name in strange_folders(folder, course.assignments):
        free = [one for one in course.assignments if not (folder / student / one).exists()]
        meant = difflib.get_close_matches(name.lower(), free, 1)
        advice = f"; rename it, if {meant[0]}/ is meant" if meant else ""
        yield f"not looked at, {student}: the folder {name}/, which is no assignment's name{advice}"
    for place in sorted(folder.iterdir()):
        if place.is_file() and place.name[0] != "." and is_text(place.name):
            yield f"not looked at: {place.name}, which is a file, where each student has a folder"
    for student in filter(is_text, students):
        for path in sorted((folder / student).glob("*.ipynb")):
            shown = path.name.encode(errors="replace").decode()
            yield f"not looked at, {student}: {shown}, which lies in no assignment's folder"
    for student in students:
        if not is_text(student):
            shown = student.encode(errors="replace").decode()
            yield f"not looked at: the folder {shown}/, whose name is no text (UTF-8); rename it"


def _make_folder(into: Path) -> None:
    try:
        into.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):  # there, or on the way
        raise CourseError(f"{into} can't be made a folder: a file is in its place; name another with --into.") from None


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
