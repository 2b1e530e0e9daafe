"""Where a class is, as the last run found it, so that the next one need not import nbgrader, which takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from autograder.course import STATE_FOLDER, Course
from autograder.fingerprints import hash_of
from autograder.statefiles import LEDGERS, read_state, use, write_state


class Setting(msgspec.Struct, frozen=True):
    """Where the class is and how nbgrader is set up, as the last run found it; `modules` are what that hangs on."""

    configuration: str
    modules: tuple[str, ...]
    submitted: str
    graded: str
    database: str
    excluded: tuple[str, ...]


def setting_of(course: Course, *options: Path | None) -> Setting | None:
    """What the last run with the same options found; None where there was none."""
    path = _setting_file(course, options)
    use([path])
    return read_state(path, Setting)


def keep_setting(course: Course, setting: Setting, *options: Path | None) -> None:
    """Keep what this run has found for the next one with the same options, which name folders."""
    with suppress(UnicodeError):  # a folder's name that is no text
        write_state(_setting_file(course, options), msgspec.msgpack.encode(setting))


def _setting_file(course: Course, options: Iterable[Path | None]) -> Path:
    named = [os.fsencode(option.resolve()) if option is not None else b"" for option in options]
    return course.root / STATE_FOLDER / LEDGERS / f"{hash_of([os.fsencode(Path.cwd()), *named])}-setting"
