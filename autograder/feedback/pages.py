"""The feedback pages of a class, from its graded notebooks and marks; by several processes where it is large."""

from __future__ import annotations

import gettext
import multiprocessing
import os
import shutil
import signal
import stat
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.course import Course
from autograder.errors import GraderFault
from autograder.feedback.kept import read_page
from autograder.feedback.marks import Marks
from autograder.feedback.page import page

if TYPE_CHECKING:
    from autograder.nbgrader.files import ClassFiles
    from autograder.nbgrader.gradebook import ClassGradebook

MIN_PAGES = 16
"""Pages for which another process is worth its start."""
MAX_CHUNK = 8
"""Pages that a process takes at a time; an interrupted run waits for no more than these."""

FindMarks = Callable[[str, str, str], Marks]
"""The marks of a notebook, by its student, assignment and name."""


@dataclass(frozen=True)
class Asked:
    """A page to write: about which graded notebook with which marks, and where to."""

    student: str
    assignment: str
    notebook: Path
    target: Path
    title: str
    marks: Marks


def write_pages(
    gradebook: ClassGradebook,
    files: ClassFiles,
    course: Course,
    assignment: str,
    students: Collection[str] = (),
    translations: gettext.NullTranslations | None = None,
) -> Iterator[Path]:
    """Write ``feedback/<student>/<assignment>/<notebook>.html`` for each graded notebook; yields each path.

    Args:
        gradebook: of the course; a human's marks and comments in it are on the page.
        files: where the graded notebooks are, and the pages go.
        course: the course.
        assignment: which one.
        students: these alone; all by default.
        translations: the language of our sentences.
    """
    pages = asked(course, assignment, files.graded, files.feedback, gradebook.marks, students)
    return filter(None, written(pages, translations))


def asked(
    course: Course, assignment: str, graded: Path, feedback: Path, marks: FindMarks, students: Collection[str] = ()
) -> list[Asked]:
    """The pages of an assignment, one for each graded notebook, second ones too.

    Args:
        course: the course.
        assignment: which one.
        graded: the folder of graded notebooks.
        feedback: the folder of pages.
        marks: what the gradebook says of each.
        students: these alone; all by default.
    """
    title = course.assignment(assignment).title
    return [
        Asked(
            student,
            assignment,
            path,
            feedback / student / assignment / f"{path.stem}.html",
            title if path.stem == assignment else f"{title}: {path.stem}",
            marks(student, assignment, path.stem),
        )
        for path in sorted(graded.glob(f"*/{assignment}/*.ipynb"))
        if not (student := path.parents[1].name).startswith(".") and (not students or student in students)
    ]


def written(
    pages: Sequence[Asked], translations: gettext.NullTranslations | None = None, workers: int = 1
) -> Generator[Path | None]:
    """Write pages, and beside each what ``nbgrader release_feedback`` needs to find whose it is.

    Yields where each went, in order; None for one whose notebook can't be read.

    Args:
        pages: which.
        translations: the language of our sentences.
        workers: how many processes write at once, where there are enough pages for them.

    Raises:
        OSError: a page can't be written; those before it stay.
        GraderFault: a process was killed.
    """
    workers = min(workers, len(pages) // MIN_PAGES)
    if workers > 1:
        yield from _in_processes(pages, translations, workers)
    else:
        for one in pages:
            yield _write(one, translations)


def _in_processes(
    pages: Sequence[Asked], translations: gettext.NullTranslations | None, workers: int
) -> Iterator[Path | None]:
    """The same in forks of this process, which have its imports and what its caches hold."""
    # What an assignment's pages have in common is rendered with the first of them, before the fork.
    first = {one.assignment: place for place, one in reversed(list(enumerate(pages)))}
    done = {place: _write(pages[place], translations) for place in sorted(first.values())}
    others = [place for place in range(len(pages)) if place not in done]
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), _begin, (pages, translations))
    try:
        results = _started(pool, others, max(1, min(MAX_CHUNK, len(others) // (4 * workers))))
        for place in range(len(pages)):
            yield done[place] if place in done else next(results)
    except BrokenProcessPool:
        raise GraderFault(
            "a process that writes pages was killed, as the system does where memory runs out; run this again with "
            "--workers 1."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _started(pool: ProcessPoolExecutor, places: Sequence[int], size: int) -> Iterator[Path | None]:
    """Fork the processes, deaf to Ctrl-C: it reaches them too, and this one tells them when to end."""
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.map(_write_there, places, chunksize=size)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


_there: tuple[Sequence[Asked], gettext.NullTranslations | None] = ((), None)
"""In a process of `_in_processes`, the pages and the language that it was forked with."""


def _begin(pages: Sequence[Asked], translations: gettext.NullTranslations | None) -> None:
    global _there
    _there = pages, translations
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process where its parent is killed: nothing else would tell it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _write_there(place: int) -> Path | None:
    pages, translations = _there
    return _write(pages[place], translations)


def _write(one: Asked, translations: gettext.NullTranslations | None) -> Path | None:
    """Write a page whole, or leave what was there."""
    notebook = read_page(one.notebook)
    if notebook is None:
        return None
    html = page(
        notebook,
        one.marks.marks,
        assignment_title=one.title,
        student=one.marks.name,
        late_penalty=one.marks.late_penalty,
        translations=translations,
    )
    one.target.parent.mkdir(parents=True, exist_ok=True)
    draft = one.target.with_suffix(".html.new")
    try:
        draft.write_text(html, encoding="utf-8")
        draft.replace(one.target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _keep_proof(one.notebook.parent, one.target.parent)
    return one.target


def _keep_proof(graded: Path, pages: Path) -> None:
    """Put beside pages what ``nbgrader release_feedback`` needs to find whose they are, or take away an older one's."""
    for name in ("timestamp.txt", "submission_secret.txt"):
        kept, copy = graded / name, pages / name
        copy.unlink(missing_ok=True)
        if kept.exists() and stat.S_ISREG(kept.lstat().st_mode):
            shutil.copyfile(kept, copy)
