"""Two versions of one notebook in one file, as a merge conflict leaves them: one, where they agree in what counts.

What counts is the student's own: answers, and code outside of the course's locked cells. Outputs, counters, metadata
and texts do not, and neither does an answer cell as it was released (nbgrader's checksum tells it).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from autograder.definitions import MAX_CODE
from autograder.messages import N_

MAX_MARKS = 2_000
MAX_COMPARED = 300
"""Cells of each version that are compared one by one."""
_WORD = re.compile(r"\w+")
_MARK = re.compile(r"^(<{7}|\|{7}|={7}|>{7})(?![<|=>])[^\n]*\n?", re.MULTILINE)
_BINDS = re.compile(
    r"^[ \t]*(?:(?:async[ \t]+)?def|class|import|from)[ \t]+(\w+)|^[ \t]*(\w+)[ \t]*[:=](?!=)", re.MULTILINE
)
# In which order the marks of one conflict may come: ours, perhaps what both were made from, theirs.
_NEXT = {"": "<", "<": "|=", "|": "=", "=": ">"}


class Sides(NamedTuple):
    """Two versions, as JSON values of notebooks."""

    first: dict[str, Any]
    second: dict[str, Any]


class _Own(NamedTuple):
    """A cell that counts: its place in the notebook, its text, and what nbgrader knows of it."""

    place: int
    text: str
    grade_id: str
    untouched: bool


def conflict_line(text: str) -> int:
    """The line of the first conflict mark; 0 where there is none. No JSON text holds one: its lines are escaped."""
    if text.startswith("<" * 7):
        return 1
    start = text.find("\n" + "<" * 7) + 1
    return text.count("\n", 0, start) + 1 if start else 0


def sides_of(text: str) -> tuple[str, str] | None:
    """The text of each side; None where the marks do not fit together, or are absurdly many."""
    first: list[str] = []
    second: list[str] = []
    within, start = "", 0
    for number, mark in enumerate(_MARK.finditer(text)):
        kind = mark[1][0]
        if number >= MAX_MARKS or kind not in _NEXT[within]:
            return None
        piece = text[start : mark.start()]
        if within in ("", "<"):
            first.append(piece)
        if within in ("", "="):
            second.append(piece)
        within, start = "" if kind == ">" else kind, mark.end()
    if within:
        return None
    return "".join([*first, text[start:]]), "".join([*second, text[start:]])


def as_one(sides: Sides) -> tuple[dict[str, Any], str] | None:
    """The version that holds all that counts, and a sentence about it with the field `line`; None if neither does."""
    ours, theirs = _own_cells(sides.first), _own_cells(sides.second)
    if ours is None or theirs is None or sum(len(cell.text) for cell in (*ours, *theirs)) > 2 * MAX_CODE:
        return None
    if [cell.text for cell in ours] == [cell.text for cell in theirs]:
        said = N_("the file holds a merge conflict, in line {line}, about outputs or texts alone: read its first side")
        return sides.first, said
    if (merged := _answered(sides, ours, theirs)) is not None:
        said = N_(
            "the file holds a merge conflict, in line {line}, between answers and cells as they were released: read "
            "the answers"
        )
        return merged, said
    if (merged := _with_both(sides, ours, theirs)) is not None:
        return merged, N_(
            "the file holds a merge conflict, in line {line}, around its answers: read the cells of both sides"
        )
    return None


def _answered(sides: Sides, ours: Sequence[_Own], theirs: Sequence[_Own]) -> dict[str, Any] | None:
    """The first version with the second one's answers where its own were left as released; None if that is not all."""
    if [cell.grade_id for cell in ours] != [cell.grade_id for cell in theirs]:
        return None
    cells = list(sides.first["cells"])
    for mine, other in zip(ours, theirs, strict=True):
        if mine.text == other.text or other.untouched:
            continue
        if not mine.untouched:
            return None
        cells[mine.place] = sides.second["cells"][other.place]
    return {**sides.first, "cells": cells}


def _with_both(sides: Sides, ours: Sequence[_Own], theirs: Sequence[_Own]) -> dict[str, Any] | None:
    """All cells of both versions, in order; None where that would change an answer, or what it relies on.

    The cells that one of them alone has are none of the answers, and give no value to a name that the answers define,
    nor two values to one that any cell of both mentions.
    """
    steps = _steps(ours, theirs)
    mine = [cell for start, end, _, _ in steps for cell in ours[start:end]]
    others = [cell for _, _, start, end in steps for cell in theirs[start:end]]
    common = [cell for cell in ours if cell not in mine]
    answers = [cell for cell in common if cell.grade_id]
    twice = _bound(mine) & _bound(others)
    if answers:  # else what is given two values may be one
        twice &= set(_WORD.findall("\n".join(cell.text for cell in common)))
    added = [*mine, *others]
    if not steps or twice or any(cell.grade_id for cell in added) or _bound(added) & _bound(answers or common):
        return None
    cells = list(sides.first["cells"])
    for _, end, start, stop in reversed(steps):
        place = ours[end - 1].place + 1 if end else 0
        cells[place:place] = [sides.second["cells"][cell.place] for cell in theirs[start:stop]]
    return {**sides.first, "cells": cells}


def _steps(ours: Sequence[_Own], theirs: Sequence[_Own]) -> list[tuple[int, int, int, int]]:
    """Where the versions differ: places from and to in each of them. None of them where that is too much to compare."""
    if max(len(ours), len(theirs)) > MAX_COMPARED:
        return []
    matcher = SequenceMatcher(None, [cell.text for cell in ours], [cell.text for cell in theirs], autojunk=False)
    return [step[1:] for step in matcher.get_opcodes() if step[0] != "equal"]


def _bound(cells: Sequence[_Own]) -> set[str]:
    """The names that lines of these cells seem to give a value; rather one too many."""
    return {name for cell in cells for found in _BINDS.findall(cell.text) for name in found if name}


def _own_cells(document: dict[str, Any]) -> list[_Own] | None:
    """The cells that count; None where this is no notebook of format 4."""
    cells = document.get("cells")
    if not isinstance(cells, list):
        return None
    found = []
    for place, cell in enumerate(cells):
        if not isinstance(cell, dict):
            return None
        metadata = cell.get("metadata")
        nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
        nbgrader = nbgrader if isinstance(nbgrader, dict) else {}
        solution = nbgrader.get("solution") is True
        text = text_of(cell.get("source"))
        if text.strip() and (solution or cell.get("cell_type") == "code"):
            grade_id = str(nbgrader.get("grade_id") or "") if solution else ""
            found.append(_Own(place, _stripped(text), grade_id, solution and _is_untouched(cell, nbgrader, text)))
    return found


def _is_untouched(cell: dict[str, Any], nbgrader: dict[str, Any], text: str) -> bool:
    """Whether an answer cell is as it was released: nbgrader.utils.compute_checksum, for an answer without points."""
    parts = (text, str(cell.get("cell_type")), "False", "True", "False", str(nbgrader.get("grade_id")))
    checksum = hashlib.md5("".join(parts).encode(errors="replace"), usedforsecurity=False).hexdigest()
    return nbgrader.get("grade") is False and nbgrader.get("checksum") == checksum


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def text_of(source: Any) -> str:
    """A cell's text, which is one string or a list of lines; what is no text is left out."""
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))
