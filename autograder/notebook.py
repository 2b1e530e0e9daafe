"""Reading a notebook file that may be anything, and finding the cells of an exercise in it.

Formats: https://nbformat.readthedocs.io/en/latest/format_description.html, and the cell metadata of nbgrader
(schema version 3 and before). Nothing is validated beyond what we use: a submission with odd metadata is
still a submission.
"""

from __future__ import annotations

import errno
import math
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from autograder.errors import UnusableNotebook
from autograder.messages import N_, Message, message
from autograder.rescue import document_of

MAX_MEGABYTES = 100
MAX_CELLS = 2_000
MAX_VALUES = 10_000_000
"""Commas in a file, outside of texts, and five for each list or object: two bytes there, and a hundred in memory."""
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
TEST_PREFIX = "test_"

Kind = Literal["code", "markdown", "raw"]


@dataclass(frozen=True)
class Cell:
    """One cell; `index` is its place in the notebook, from 0."""

    index: int
    kind: Kind
    source: str
    id: str
    grade_id: str | None = None
    points: float = 0.0
    is_solution: bool = False
    is_grade: bool = False
    is_locked: bool = False
    is_task: bool = False
    tags: frozenset[str] = frozenset()
    metadata: dict[str, Any] = field(default_factory=dict)
    attachments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Notebook:
    """A notebook; `path` is as it was given.

    Attributes:
        repairs: what had to be mended before the file could be read; they go before those of its cells.
        cut: a damaged file has lost some of its cells, so that an answer which is not here may have been among them:
            it can't be told from one that was never given, and a human decides (`expect_whole`).
    """

    path: Path
    cells: tuple[Cell, ...]
    metadata: dict[str, Any] = field(default_factory=dict)
    repairs: tuple[Message, ...] = ()
    cut: bool = False


@dataclass(frozen=True)
class ExerciseCells:
    """The cells that carry an exercise's grade_ids. A student may have copied or deleted some."""

    name: str
    answers: tuple[Cell, ...] = ()  # grade_id <name>, a solution
    graded: tuple[Cell, ...] = ()  # grade_id test_<name>, or the answer itself where a human grades it

    @property
    def manual(self) -> bool:
        """Whether a human grades the answer itself."""
        return any(cell.is_grade for cell in self.answers)


def read_notebook(path: Path, follow: bool = True) -> Notebook:
    """Read a notebook of format 3 or 4, in UTF-8 (or UTF-16, as some editors save), with or without a BOM.

    A damaged text is mended or salvaged as far as no guess is needed (`autograder.rescue`).

    Args:
        path: the file.
        follow: whether it may be a link; one that a student hands in may lead to what is not the student's.

    Raises:
        UnusableNotebook: one sentence that says why this file is no notebook.
    """
    rescued = document_of(path, _content(path, follow))
    notebook = notebook_of(rescued.document, path)
    return replace(notebook, repairs=(*rescued.repairs, *notebook.repairs), cut=rescued.cut)


def notebook_of(document: dict[str, Any], path: Path) -> Notebook:
    """A notebook from its JSON values; `path` is what the sentences of an error call it.

    Raises:
        UnusableNotebook: one sentence that says why these values are no notebook.
    """
    version = document.get("nbformat")
    repairs: tuple[Message, ...] = ()
    if version == 3:
        document = _upgraded(path, document)
        repairs = (message(N_("converted the notebook from format 3")),)
    elif version != 4:
        if "cells" not in document and "worksheets" not in document:
            raise UnusableNotebook(f"{path} is not a notebook: it is JSON, but without cells.")
        raise UnusableNotebook(
            f"{path} is in notebook format {_short(version)}; "
            "formats 3 and 4 can be read, so save it again in JupyterLab."
        )
    cells = document.get("cells")
    if not isinstance(cells, list):
        raise UnusableNotebook(f"{path} is not a notebook: it has no list of cells.")
    if len(cells) > MAX_CELLS:
        raise UnusableNotebook(f"{path} has {len(cells)} cells; more than {MAX_CELLS} are not read.")
    return Notebook(
        path=path,
        cells=tuple(_cell(path, index, cell) for index, cell in enumerate(cells)),
        metadata=_mapping(document.get("metadata")),
        repairs=repairs,
    )


def exercises_of(cells: Iterable[Cell]) -> dict[str, ExerciseCells]:
    """The exercises that these cells belong to, by name, in the order of their first cells."""
    answers: dict[str, list[Cell]] = {}
    graded: dict[str, list[Cell]] = {}
    names: dict[str, None] = {}
    for cell in cells:
        if cell.grade_id is None:
            continue
        if cell.is_solution:
            names[cell.grade_id] = None
            answers.setdefault(cell.grade_id, []).append(cell)
            if cell.is_grade:
                graded.setdefault(cell.grade_id, []).append(cell)
        elif cell.is_grade and cell.grade_id.startswith(TEST_PREFIX):
            name = cell.grade_id.removeprefix(TEST_PREFIX)
            names[name] = None
            graded.setdefault(name, []).append(cell)
    return {name: ExerciseCells(name, tuple(answers.get(name, ())), tuple(graded.get(name, ()))) for name in names}


def expect_whole(notebook: Notebook, missing: Iterable[str]) -> None:
    """Refuse a notebook that lost cells, where answers are missing: nobody loses marks for a file that broke.

    Args:
        notebook: as it was read.
        missing: the exercises that no cell of it answers.

    Raises:
        UnusableNotebook: an answer may be among the cells that are lost.
    """
    if notebook.cut and (names := ", ".join(missing)):
        whole = len(notebook.cells)
        raise UnusableNotebook(
            f"{notebook.path} is damaged: {whole} whole {'cell' if whole == 1 else 'cells'} could be read, without an "
            f"answer to {names}; ask for the file again, for what is lost may have held it."
        )


def file_content(path: Path, follow: bool = True) -> bytes:
    """The bytes of an ordinary file of bounded size; nothing is waited for, whatever lies there.

    Args:
        path: the file.
        follow: whether it may be a link.

    Raises:
        UnusableNotebook: one sentence that says why it can't be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _WITHOUT_WAITING | (0 if follow else _NO_LINK))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise UnusableNotebook(f"{path} is a folder; name the notebook file in it.")
            if not stat.S_ISREG(status.st_mode):
                raise UnusableNotebook(f"{path} is not an ordinary file.")
            if status.st_size > MAX_MEGABYTES * 2**20:
                raise UnusableNotebook(
                    f"{path} is larger than {MAX_MEGABYTES} MB; clear the outputs of its cells and save it again."
                )
            return file.read(MAX_MEGABYTES * 2**20 + 1)
    except FileNotFoundError:
        raise UnusableNotebook(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise UnusableNotebook(f"{path} is a folder; name the notebook file in it.") from None
    except (OSError, ValueError) as fault:  # ValueError: a NUL in the path
        if isinstance(fault, OSError) and fault.errno == errno.ELOOP and not follow:
            raise UnusableNotebook(f"{path} is a link; hand in the file itself.") from None
        reason = getattr(fault, "strerror", None) or fault
        raise UnusableNotebook(f"{path} can't be read: {reason}.") from None


def _content(path: Path, follow: bool) -> bytes:
    content = file_content(path, follow)
    if not content.strip(b" \t\r\n\0"):
        raise UnusableNotebook(f"{path} is empty; save the notebook and hand it in again.")
    # Brackets within texts, which printed tensors are full of, cost nothing; leaving texts out takes a while.
    if _values(content) > MAX_VALUES and _values(_TEXT.sub(b"", content)) > MAX_VALUES:
        raise UnusableNotebook(
            f"{path} holds millions of numbers or lists outside of texts; clear its outputs (in Jupyter: Edit, Clear "
            "Outputs of All Cells) and save it again."
        )
    return content


def _values(content: bytes) -> int:
    return content.count(b",") + 5 * (content.count(b"[") + content.count(b"{"))


def _upgraded(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """The same notebook in format 4."""
    import nbformat
    from nbformat.v3.nbjson import JSONReader

    try:
        upgraded = nbformat.convert(JSONReader().to_notebook(document), 4)
    except Exception:  # noqa: BLE001 - the converter trusts its input; a wrong type raises anything
        raise UnusableNotebook(
            f"{path} is in notebook format 3 and can't be converted; open it in JupyterLab and save it again."
        ) from None
    return dict(upgraded)


def _cell(path: Path, index: int, cell: Any) -> Cell:
    if not isinstance(cell, dict):
        raise UnusableNotebook(f"{path} is not a notebook: its cell {index + 1} is not a cell.")
    metadata = _mapping(cell.get("metadata"))
    nbgrader = _mapping(metadata.get("nbgrader"))
    grade_id = nbgrader.get("grade_id")
    kind = cell.get("cell_type")
    tags = metadata.get("tags")
    return Cell(
        index=index,
        kind=kind if kind in ("code", "markdown") else "raw",
        source=_source(path, index, cell.get("source")),
        id=_encodable(cell["id"]) if isinstance(cell.get("id"), str) else "",
        grade_id=_encodable(grade_id) if isinstance(grade_id, str) and grade_id else None,
        points=_points(nbgrader.get("points")),
        is_solution=nbgrader.get("solution") is True,
        is_grade=nbgrader.get("grade") is True,
        is_locked=nbgrader.get("locked") is True,
        is_task=nbgrader.get("task") is True,
        tags=frozenset(tag for tag in (tags if isinstance(tags, list) else []) if isinstance(tag, str)),
        metadata=metadata,
        attachments=_mapping(cell.get("attachments")),
    )


def _source(path: Path, index: int, source: Any) -> str:
    """A cell's text, which is one string or a list of lines; they end as Python counts them, Macs' old ones too."""
    if source is None:
        return ""
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        raise UnusableNotebook(f"{path} is not a notebook: the source of its cell {index + 1} is not text.")
    return _encodable("".join(lines)).replace("\r\n", "\n").replace("\r", "\n")


def _encodable(text: str) -> str:
    """The text without lone surrogates, which JSON can hold and UTF-8 can't."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _points(value: Any) -> float:
    """The points of a graded cell; what is no number from 0 up counts as 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        points = float(value)
    except OverflowError:
        return 0.0
    return points if math.isfinite(points) and points >= 0 else 0.0


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 20 else f"{text[:17]}..."
