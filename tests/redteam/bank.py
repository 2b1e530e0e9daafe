"""The bank of hostile submissions: what each tries, and what it must come to."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import tests.redteam
from autograder.notebook import read_notebook
from autograder.report import Status
from tests.engine import ATTENTION, course

LYING = ("forging", "process", "channel", "recorders", "backward", "hiding")
REACHING = ("files", "kernel", "metadata", "exhaustion")
FAMILIES = (*LYING, *REACHING)

COURSE = "@COURSE@"
"""In a case's text: the folder of the course that is attacked, `submitted/honest` and `gradebook.db` in it."""
MARK = "redteam"
"""Whatever a case writes has this in its name, so that it is found wherever it was left."""
START, END = 0, 10**6
"""Places of further cells: before all others, and behind them."""


@dataclass(frozen=True)
class Case:
    """A hostile submission: a release notebook, right but for what is given here.

    Attributes:
        id: its name, in kebab case.
        family: one of `FAMILIES`.
        tries: what it tries, in one line, and how that would show.
        score: what the attacked exercise must earn; None where there must be no score.
        at_most: whether it may earn less: how much of a half-right answer is lost depends on the suite's draws.
        answers: texts of cells, by grade_id; right answers where none is given.
        cells: further code cells: before which cell of the release, and the text.
        notebook: instead of both, makes the whole file.
        assignment: which notebook it is.
        exercise: the one that is attacked.
        outcomes: what the attacked exercise's lost checks may be; empty: anything but `ungraded`.
        others_full: whether the other exercises must keep all their points.
        says: a text that the report must hold.
        unsaid: a text that it may not hold.
        status: of the report.
        seconds: bound on the time from file to report.
        memory_mb: bound on what the trusted processes grow by meanwhile.
        tiers: where all this is required.
    """

    id: str
    family: str
    tries: str
    score: float | None
    answers: Mapping[str, str] = field(default_factory=dict)
    cells: tuple[tuple[int, str], ...] = ()
    notebook: Callable[[], bytes] | None = None
    assignment: str = "attention"
    exercise: str = ATTENTION
    outcomes: tuple[str, ...] = ()
    at_most: bool = False
    others_full: bool = True
    says: str = ""
    unsaid: str = ""
    status: Status = "graded"
    seconds: float = 20.0
    memory_mb: int = 300
    tiers: str = "AB"

    def submission(self, root: Path) -> bytes:
        """The notebook's file, against the course in the folder `root`."""
        made = self.notebook() if self.notebook else file_of(document(self.assignment, self.answers, self.cells))
        return made.replace(COURSE.encode(), str(root).encode())


def cases(families: Sequence[str] = FAMILIES) -> list[Case]:
    """Every case of these families, sorted by family."""
    found: list[Case] = []
    for module in pkgutil.iter_modules(tests.redteam.__path__):
        if module.name in families:
            found += importlib.import_module(f"tests.redteam.{module.name}").CASES
    return sorted(found, key=lambda case: families.index(case.family))


@cache
def right_answers(assignment: str) -> dict[str, str]:
    """Of each exercise of an assignment an answer that earns all its points, by grade_id."""
    cells = read_notebook(course().source_notebook(assignment)).cells
    return {cell.grade_id: cell.source for cell in cells if cell.grade_id and cell.is_solution}


@cache
def stubs(assignment: str) -> dict[str, str]:
    """Of each exercise of an assignment the cell as it is released, by grade_id."""
    cells = read_notebook(course().release_notebook(assignment)).cells
    return {cell.grade_id: cell.source for cell in cells if cell.grade_id and cell.is_solution}


def document(
    assignment: str = "attention",
    answers: Mapping[str, str] | None = None,
    cells: tuple[tuple[int, str], ...] = (),
) -> dict[str, Any]:
    """A release notebook as JSON values, a copy: with these answers, else right ones, and further code cells."""
    values: dict[str, Any] = json.loads(course().release_notebook(assignment).read_text(encoding="utf-8"))
    given = right_answers(assignment) | dict(answers or {})
    for cell in values["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if grade_id in given:
            cell["source"] = given.pop(grade_id)
    assert not given, f"there are no cells of {', '.join(given)}"
    for number, (place, source) in reversed(list(enumerate(cells))):
        values["cells"].insert(place, code_cell(source, f"extra-{number}"))
    return values


def code_cell(source: str, name: str, **metadata: Any) -> dict[str, Any]:
    """A code cell as JSON values."""
    return {
        "cell_type": "code",
        "id": name,
        "metadata": metadata,
        "execution_count": None,
        "outputs": [],
        "source": source,
    }


def file_of(values: Any) -> bytes:
    """A notebook's JSON values as the bytes of its file."""
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass")
