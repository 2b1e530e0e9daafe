"""The bank of damaged submissions: what an honest student handed in, and what must come of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.answers import attention as answers
from tests.engine import course

HandIn = Callable[[Path], None]
"""Writes what was handed in into the student's folder of an assignment, ``submitted/<student>/attention/``."""

FULL = 20.0
"""What `attention` is worth; the honest student of every case has solved all of it."""


@dataclass(frozen=True)
class Case:
    """One damaged submission.

    Attributes:
        id: its name in the family.
        family: what was damaged: ``files``, ``text``, ``cells``, ``metadata`` or ``code``.
        damage: what had happened to it, for people.
        hand_in: writes it.
        score: of the assignment; None where nobody can decide, so that it is ungraded and waits for a human.
        repairs: a piece of each sentence about a repair, in their order; there are as many, and no more.
        says: a piece of the reason that is told; needed where it is ungraded or has lost marks.
    """

    id: str
    family: str
    damage: str
    hand_in: HandIn
    score: float | None = FULL
    repairs: tuple[str, ...] = ()
    says: str = ""


def solved() -> dict[str, Any]:
    """The notebook of an honest student who has solved `attention`, as JSON values of one's own."""
    document: dict[str, Any] = json.loads(course().release_notebook("attention").read_text(encoding="utf-8"))
    for cell in document["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if grade_id in answers.ANSWERS["amara"]:
            cell["source"] = answers.ANSWERS["amara"][grade_id].splitlines(keepends=True)
    return document


def cell_of(document: dict[str, Any], grade_id: str) -> dict[str, Any]:
    """The cell of that grade_id."""
    found: dict[str, Any] = next(
        cell for cell in document["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id
    )
    return found


def edited(change: Callable[[dict[str, Any]], None], name: str = "attention.ipynb") -> HandIn:
    """Hands in the solved notebook after a change of its JSON values."""

    def hand_in(folder: Path) -> None:
        document = solved()
        change(document)
        (folder / name).write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")

    return hand_in


def place_of(document: dict[str, Any], grade_id: str) -> int:
    """Where the cell of that grade_id stands."""
    return int(document["cells"].index(cell_of(document, grade_id)))


def text_of(document: dict[str, Any], grade_id: str) -> str:
    """The text of the cell of that grade_id."""
    return "".join(cell_of(document, grade_id)["source"])


def write(document: dict[str, Any], grade_id: str, text: str) -> None:
    """Give the cell of that grade_id another text."""
    cell_of(document, grade_id)["source"] = text.splitlines(keepends=True)


def stub_of(grade_id: str) -> str:
    """The text of a cell as it was released."""
    released = json.loads(course().release_notebook("attention").read_text(encoding="utf-8"))
    return text_of(released, grade_id)


def code_cell(text: str, id: str = "my-own", **metadata: Any) -> dict[str, Any]:
    """A code cell of the student's own."""
    return {
        "cell_type": "code", "id": id, "metadata": metadata, "execution_count": None, "outputs": [],
        "source": text.splitlines(keepends=True),
    }  # fmt: skip


def as_text(cell: dict[str, Any], kind: str = "markdown") -> None:
    """Make a code cell one of another kind, as an editor does at the press of a key."""
    cell["cell_type"] = kind
    del cell["outputs"], cell["execution_count"]


def as_code(cell: dict[str, Any]) -> None:
    """Make a text cell one of code."""
    cell.update(cell_type="code", outputs=[], execution_count=None)


def without_metadata(document: dict[str, Any]) -> None:
    """Take all that nbgrader and Jupyter know about the cells, but for their ids."""
    for cell in document["cells"]:
        cell["metadata"] = {}


def with_new_ids(document: dict[str, Any]) -> None:
    """Give each cell another id, as copy and paste does."""
    for number, cell in enumerate(document["cells"]):
        cell["id"] = f"{number:08x}"
