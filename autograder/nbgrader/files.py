"""A class's files, where nbgrader has them: submissions, graded notebooks, feedback pages."""

from __future__ import annotations

import copy
import fnmatch
import functools
import itertools
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import nbformat
from nbformat.v4.nbjson import BytesEncoder
from nbformat.v4.rwbase import split_lines, strip_transient
from nbgrader.apps.baseapp import NbGrader
from nbgrader.converters import Autograde
from nbgrader.utils import rmtree

from autograder.course import Course
from autograder.errors import CourseError
from autograder.fingerprints import configuration_of, own_modules
from autograder.folders import drafts
from autograder.lock import alone
from autograder.setting import Setting

# fmt: off
PASSIVE = frozenset({
    ".csv", ".gif", ".gz", ".ipynb", ".jpeg", ".jpg", ".json", ".log", ".md", ".npy", ".npz", ".parquet", ".pdf",
    ".pkl", ".png", ".pt", ".pth", ".py", ".rst", ".safetensors", ".tar", ".toml", ".tsv", ".txt", ".webp", ".yaml",
    ".yml", ".zip",
})
# fmt: on
"""What browsers show or save, and never run. Everything else is left out: there are too many names for live pages."""
MAX_FILES = 10_000
"""How many of a student's files are taken into the graded folder."""
LAYOUT = "{nbgrader_step}/{student_id}/{assignment_id}"


class ClassFiles:
    """The folders of a class.

    Args:
        course: the course.
        app: nbgrader, set up for it (`autograder.nbgrader.config.nbgrader_of`).

    Raises:
        CourseError: nbgrader is set to another layout of folders.
    """

    def __init__(self, course: Course, app: NbGrader) -> None:
        self._course, self._coursedir = course, app.coursedir
        if app.coursedir.directory_structure != LAYOUT:
            raise CourseError(
                f"nbgrader is set to the folders {app.coursedir.directory_structure!r}; these commands know {LAYOUT!r} "
                "alone, so use nbgrader's own, or take CourseDirectory.directory_structure out of its configuration."
            )
        self._converter = Autograde(coursedir=app.coursedir, parent=app)
        root = Path(app.coursedir.root)
        self.submitted = Path(root, app.coursedir.submitted_directory)
        self.graded = Path(root, app.coursedir.autograded_directory)
        self.feedback = Path(root, app.coursedir.feedback_directory)

    @property
    def excluded(self) -> list[str]:
        """The students whom nbgrader is told to leave out."""
        return [one for one in self._coursedir.student_id_exclude.split(",") if one]

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of nbgrader's configuration; see `configuration_of`."""
        return configuration_of(self._course, own_modules())

    def setting(self, gradebook: Path) -> Setting:
        """Where the class is, for a run that need not ask nbgrader; without a `gradebook` that is no file."""
        return Setting(
            configuration=self.fingerprint,
            modules=own_modules(),
            submitted=str(self.submitted),
            graded=str(self.graded),
            database=str(gradebook) if gradebook.is_file() else "",
            excluded=tuple(self.excluded),
        )

    def alone(self) -> AbstractContextManager[None]:
        """Keep other class runs out while this one writes; see `autograder.lock.alone`."""
        return alone(self._course, self.graded)

    def notebook(self, student: str, assignment: str) -> Path:
        """Where the graded notebook of a student lies."""
        return self.graded / student / assignment / f"{assignment}.ipynb"

    def notebooks(self, assignment: str) -> list[tuple[str, Path]]:
        """All graded notebooks of an assignment, second ones too, each with its student."""
        found = sorted(self.graded.glob(f"*/{assignment}/*.ipynb"))
        return [(path.parents[1].name, path) for path in found if not path.parents[1].name.startswith(".")]

    def put_back(self, student: str, assignment: str) -> None:
        """Remove what a run has left that was killed while it wrote; where the old folder was moved away, put it back.

        Raises:
            OSError: something can't be moved or removed.
        """
        target = self.notebook(student, assignment).parent
        draft, old = drafts(target)
        if old.exists() and not target.exists():
            old.rename(target)
        for leftover in (draft, old):
            if leftover.exists():
                rmtree(leftover)

    def write(
        self, student: str, assignment: str, folder: Path, notebooks: Mapping[str, nbformat.NotebookNode]
    ) -> None:
        """Put the graded notebooks and the submission's other files in the place of what was there before.

        They are made beside it first, so that a run that is killed leaves the old ones, for a moment aside
        (`put_back`), and never half of them. The course's files win over a student's of the same name, as in nbgrader.
        Links are not followed: what a student's link points to is not the student's.

        Raises:
            OSError: something can't be read or written.
        """
        self.put_back(student, assignment)
        target = self.notebook(student, assignment).parent
        draft, old = drafts(target)
        try:
            self._fill(draft, assignment, folder, notebooks)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)  # a full disk needs the room
            raise
        if target.exists():
            target.rename(old)
        draft.rename(target)
        self._converter.set_permissions(assignment, student)
        if old.exists():
            rmtree(old)

    def _fill(self, draft: Path, assignment: str, folder: Path, notebooks: Mapping[str, nbformat.NotebookNode]) -> None:
        draft.mkdir(parents=True)
        ignored = [*self._coursedir.ignore, "*.ipynb"]
        self._copy(folder, draft, filter(is_harmless, itertools.islice(files_in(folder, ignored), MAX_FILES)))
        source = self._course.source_notebook(assignment).parent
        left = {str(source / name) for name in self._converter.exclude_overwriting.get(assignment, [])}
        self._copy(source, draft, [name for name in files_in(source, ignored) if name not in left])
        for name, notebook in notebooks.items():
            path = draft / f"{name}.ipynb"
            _make_way(path)
            path.write_bytes(notebook_bytes(notebook))

    def _copy(self, root: Path, target: Path, files: Iterable[str]) -> None:
        room = self._coursedir.max_dir_size * 1000  # bytes; nbgrader counts in thousands
        for name in files:
            path = Path(name)
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > min(room, self._coursedir.max_file_size * 1000):
                continue
            room -= status.st_size
            copy = target / path.relative_to(root)
            _make_way(copy)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)


def notebook_bytes(notebook: nbformat.NotebookNode) -> bytes:
    """A notebook as `nbformat.write` lays it out, in half the time; it is not validated, and its ids are not mended.

    Where json lays out, it does all in Python code.
    """
    plain = strip_transient(split_lines(_copied(notebook)))
    text = json.dumps(plain, cls=BytesEncoder, sort_keys=True, ensure_ascii=False).encode(errors="replace")
    try:
        return msgspec.json.format(text, indent=1) + b"\n"
    except msgspec.DecodeError:  # NaN, which is no JSON, and which nbformat writes all the same
        return f"{nbformat.writes(notebook)}\n".encode(errors="replace")


def _copied(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A copy of all that nbformat changes before it writes."""
    cells = []
    for cell in notebook.cells:
        copied = nbformat.NotebookNode({**cell, "metadata": nbformat.NotebookNode(cell.metadata)})
        if "outputs" in cell:
            copied.outputs = [nbformat.NotebookNode(output) for output in cell.outputs]
            for output in copied.outputs:
                if "data" in output:
                    output.data = nbformat.NotebookNode(output.data)
        if "attachments" in cell:
            copied.attachments = copy.deepcopy(cell.attachments)
        cells.append(copied)
    return nbformat.NotebookNode({**notebook, "metadata": nbformat.NotebookNode(notebook.metadata), "cells": cells})


def files_in(folder: str | Path, excluded: Iterable[str]) -> Iterator[str]:
    """All files of a folder but those whose names, or folders' names, match; as nbgrader finds them, in linear time.

    nbgrader lists a file's folder once more for each file and pattern (`nbgrader.utils.is_ignored`): minutes, where a
    student hands in thousands.
    """
    patterns = [(re.compile(fnmatch.translate(pattern)), pattern.startswith(".")) for pattern in excluded]

    def is_left_out(name: str) -> bool:
        # As in a shell, a pattern does not mean hidden files unless it says so itself.
        return any(pattern.match(name) and (of_hidden or name[0] != ".") for pattern, of_hidden in patterns)

    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_left_out(name))
        yield from (os.path.join(place, name) for name in sorted(files) if not is_left_out(name))


def is_harmless(name: str) -> bool:
    """Whether a student's file may lie where formgrader serves it: no link, no device, nothing that a browser runs."""
    return Path(name).suffix.lower() in PASSIVE and stat.S_ISREG(os.lstat(name).st_mode)


def read_graded(path: Path) -> nbformat.NotebookNode | None:
    """A graded notebook; None where there is none that can be read."""
    try:
        notebook: nbformat.NotebookNode = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except Exception:  # noqa: BLE001 - nbformat raises whatever the odd file makes its code stumble over
        return None
    return notebook if isinstance(notebook.get("cells"), list) else None


def _make_way(path: Path) -> None:
    """Remove what a student has put where a file of the course goes: a folder of its name, a file for its folder."""
    if path.is_dir():
        shutil.rmtree(path)
    for parent in path.parents:
        if parent.is_file():
            parent.unlink()
