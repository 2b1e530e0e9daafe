"""Marks that humans have given: they stay settled where what they were given for is what it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

REOPENED = {
    "answer": "marked by hand before the answer or its points changed",
    "score": "marked by hand before its automatic score changed",
    "unrecorded": "marked by hand, and no record is left of the answer",
}
"""Why an answer waits for a human that one has marked."""


def answers_in(notebooks: Mapping[str, Any], test_prefix: str, key: str, other: str = "") -> dict[str, str]:
    """Hashes of what each mark is given for: an answer, and its points; by notebook and graded cell (`name_of`).

    Args:
        notebooks: the graded notebooks, by name.
        test_prefix: what the name of a cell with tests begins with, before that of its answer.
        key: of our metadata in a cell, which tell of an answer that stands elsewhere: then all cells count.
        other: what else the answers are of.
    """
    found = {}
    for notebook, content in notebooks.items():
        roles = [(cell.metadata.get("nbgrader", {}), cell) for cell in content.cells]
        everything = [cell.source for cell in content.cells]
        for role, cell in roles:
            if not role.get("grade"):
                continue
            name = role["grade_id"]
            answers = [cell] if role["solution"] else _named(roles, name.removeprefix(test_prefix))
            elsewhere = not answers or any({"answered_in", "added"} & set(one.metadata.get(key, {})) for one in answers)
            sources = everything if elsewhere else [one.source + _attached(one) for one in answers]
            counted = "\0".join([other, str(role.get("points")), *sources])
            found[name_of(notebook, name)] = hashlib.sha256(counted.encode(errors="replace")).hexdigest()
    return found


def _attached(cell: Any) -> str:
    """The pictures in a cell of text, which are as much of the answer."""
    attached = cell.get("attachments")
    return f"\0{json.dumps(attached, sort_keys=True)}" if attached else ""


def name_of(notebook: str, cell: str) -> str:
    """What a graded cell is called here: its name alone is not unique in an assignment."""
    return f"{notebook}/{cell}"


def settle(grade: Any, auto_score: float | None, waited: bool, is_same: bool | None) -> str:
    """Leave a cell settled that a human has marked, and say why it is not, as a key of `REOPENED`.

    Args:
        grade: nbgrader's, with its new automatic score.
        auto_score: the one before, and whether it `waited` for a human.
        is_same: whether the answer and its points are what they were; None where that is not known.
    """
    if grade.manual_score is None or waited:
        return ""
    if is_same and grade.auto_score == auto_score:
        grade.needs_manual_grade = False
        return ""
    return "unrecorded" if is_same is None else "score" if is_same else "answer"


def _named(roles: list[tuple[Mapping[str, Any], Any]], name: str) -> list[Any]:
    return [cell for role, cell in roles if role.get("grade_id") == name]
