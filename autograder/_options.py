"""What the commands share: from parsed options to the course, its seed, a grader, a language and a console."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from autograder.errors import CourseError

if TYPE_CHECKING:
    import gettext

    from rich.console import Console

    from autograder.course import Course, Tier
    from autograder.grading import ClassGrader, Grader


Item = TypeVar("Item")


@contextlib.contextmanager
def warm_grader(course: Course, required: Tier, workers: int = 1, assignments: Sequence[str] = ()) -> Iterator[Grader]:
    """A warm grader."""
    from autograder.grading import Grader

    with contextlib.closing(Grader(course, required, workers, assignments=assignments)) as grader:
        wait_for(grader)
        yield grader


def wait_for(grader: ClassGrader) -> None:
    """Wait until it is warm; on a terminal, stderr says what is waited for."""
    console = console_for(sys.stderr)
    if not console.is_terminal:
        grader.wait()
        return
    with console.status("warming up: two processes import torch, which takes some seconds"):
        grader.wait()


def with_progress(items: Iterable[Item], total: int, name: str) -> Iterator[Item]:
    """The same items, with a bar on a terminal's stderr that disappears at the end."""
    console = console_for(sys.stderr)
    if not console.is_terminal:
        yield from items
        return
    from rich.progress import track

    yield from track(items, name, total, console=console, transient=True, auto_refresh=False)


def print_json(value: dict[str, Any]) -> None:
    """One JSON value on one line of stdout."""
    import json

    # All but ASCII is escaped: a student's exception may hold what moves a terminal's cursor.
    print(json.dumps(value), flush=True)


def course_of(options: argparse.Namespace) -> Course:
    """The course that was named, or the one that we are in."""
    from autograder.course import COURSE_FILE, find_course, load_course

    named = options.course
    if named is not None and named.name == COURSE_FILE and named.is_file():
        named = named.parent
    return load_course(named if named is not None else find_course(Path.cwd()))


def assignments_of(course: Course, options: argparse.Namespace) -> list[str]:
    """The assignments that were named, or all of the course."""
    names = options.assignments or list(course.assignments)
    for name in names:
        course.assignment(name)
    return names


def seed_of(course: Course, options: argparse.Namespace) -> int:
    """The seed that was named, or the course's."""
    from autograder.course import STATE_FOLDER, course_seed

    if options.seed is not None:
        return int(options.seed)
    seed = course_seed(course)
    kept = course.root / STATE_FOLDER / "seed"
    if not kept.is_file():
        print(f"{kept} can't be written: the seed {seed} is of this run alone; --seed uses it again.", file=sys.stderr)
    return seed


def translations_of(course: Course, options: argparse.Namespace) -> gettext.NullTranslations:
    """The language that was named, or the course's."""
    from autograder.messages import languages, translations

    language = options.language or course.language
    if language not in languages():
        raise CourseError(f"there is no language {language!r}; there is: {', '.join(languages())}.")
    return translations(language)


def near(path: Path) -> Path:
    """A path as short as it can be typed from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def console_for(stream: TextIO) -> Console:
    """A console that writes to a stream."""
    from rich.console import Console

    return Console(file=stream)
