"""Graded notebooks as they lie in ``autograded/``, made by hand."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import msgspec

from autograder.feedback.mark import Mark
from autograder.feedback.page import page
from autograder.messages import Message
from autograder.report import CheckReport, ExerciseReport, GradeReport, Outcome

SEED = 20261129
SUBMISSION = "5f2a" + "0" * 60


def check(id: str, outcome: Outcome, most: float = 1.0, message: str = "", hint: str = "") -> CheckReport:
    """A check that is called after its id."""
    return CheckReport(
        id=id,
        title=Message(f"title of {id}"),
        outcome=outcome,
        score=most if outcome == "passed" else 0.0,
        max_score=most,
        message=Message(message) if message else None,
        hint=Message(hint) if hint else None,
    )


def exercise(id: str, *checks: CheckReport, **others: Any) -> ExerciseReport:
    """An exercise whose score is the sum of its checks."""
    score, most = sum(one.score for one in checks), sum(one.max_score for one in checks)
    return msgspec.structs.replace(ExerciseReport(id, score, most, checks), **others)


DOUBLE = exercise(
    "double",
    check("shape", "passed"),
    check("value", "failed", 3.0, "double(2) is 5, expected 4", "What is twice two?"),
    diagnosis=Message("You add one too many."),
)
HALF = exercise("half", check("half_value", "passed", 2.0))
OPEN = ExerciseReport("half", None, 2.0, (check("half_value", "ungraded", 2.0, "KeyError in /srv/suite.py"),))


def report(*exercises: ExerciseReport, **others: Any) -> GradeReport:
    """A report of these exercises."""
    scores = [one.score for one in exercises if not one.manual]
    known = [score for score in scores if score is not None]
    made = GradeReport(
        notebook="attention.ipynb",
        assignment="attention",
        status="graded" if len(known) == len(scores) else "ungraded",
        score=sum(known) if len(known) == len(scores) else None,
        max_score=sum(one.max_score for one in exercises if not one.manual),
        seed=SEED,
        suite_hash="abc",
        confinement="A",
        exercises=exercises,
    )
    return msgspec.structs.replace(made, **others)


def _cell(kind: str, source: str, course: bool, nbgrader: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if nbgrader:
        metadata["nbgrader"] = {"schema_version": 3, "task": False, "cell_type": kind, "checksum": ""} | nbgrader
    if course:
        metadata["autograder"] = {"course": True}
    return {"cell_type": kind, "metadata": metadata, "source": source}


def at(number: int, cell: dict[str, Any], count: int = 1) -> dict[str, Any]:
    """A cell at its place in the notebook that came in, and the count that IPython gave to its run."""
    own = cell["metadata"].get("autograder", {}) | {"number": number}
    ran = {"execution_count": count or None} if cell["cell_type"] == "code" else {}
    return cell | {"metadata": cell["metadata"] | {"autograder": own}} | ran


def text(source: str, course: bool = False, **nbgrader: Any) -> dict[str, Any]:
    """A Markdown cell."""
    return _cell("markdown", source, course, nbgrader)


def code(source: str, *outputs: dict[str, Any], course: bool = False, **nbgrader: Any) -> dict[str, Any]:
    """A code cell that ran."""
    return _cell("code", source, course, nbgrader) | {"execution_count": 1, "outputs": list(outputs)}


def answer(name: str, source: str = "", course: bool = False) -> dict[str, Any]:
    """The cell of an exercise that holds the answer."""
    source = source or f"def {name}(x):\n    return x"
    return code(source, course=course, grade_id=name, solution=True, grade=False, locked=False)


def graded_cell(name: str, points: float, *outputs: dict[str, Any]) -> dict[str, Any]:
    """The graded cell of an exercise."""
    source = f"assert {name}(2) == SECRET"
    return code(source, *outputs, grade_id=f"test_{name}", solution=False, grade=True, locked=True, points=points)


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    """What was printed."""
    return {"output_type": "stream", "name": name, "text": text}


def shown(**data: str) -> dict[str, Any]:
    """What was displayed; types are written with ``__`` for the slash."""
    bundle = {kind.replace("__", "/"): value for kind, value in data.items()}
    return {"output_type": "display_data", "data": bundle, "metadata": {}}


def raised(name: str, value: str, *lines: str) -> dict[str, Any]:
    """An exception that ended a cell."""
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": list(lines)}


CELLS = (
    text("# A lesson", course=True),
    code("import torch", course=True),
    answer("double", "def double(x):\n    return 2 * x + 1"),
    graded_cell("double", 4),
    text("More of the lesson", course=True),
    answer("half"),
    graded_cell("half", 2),
)


def notebook(graded: GradeReport | None, *cells: dict[str, Any]) -> dict[str, Any]:
    """A notebook of nbformat 4.5 with a report in it; with `CELLS` where none are given."""
    metadata: dict[str, Any] = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    if graded is not None:
        metadata["autograder"] = {"schema": 1, "submission": SUBMISSION, "report": msgspec.to_builtins(graded)}
    numbered = [cell | {"id": f"cell-{place}"} for place, cell in enumerate(cells or CELLS)]
    return {"cells": numbered, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def made(
    graded: GradeReport | None, *cells: dict[str, Any], marks: dict[str, Mark] | None = None, **others: Any
) -> str:
    """The page of such a notebook."""
    return page(notebook(graded, *cells), marks or {}, **{"assignment_title": "Attention", **others})


class Page(HTMLParser):
    """A page taken apart: its elements as (tag, attributes), and its text without style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._texts: list[str] = []
        self._stack: list[str] = []
        self.feed(html)

    @property
    def text(self) -> str:
        """What a reader reads, spaces and line breaks as one space each."""
        return " ".join("".join(self._texts).split())

    def tags(self) -> set[str]:
        """The names of all elements."""
        return {tag for tag, _ in self.elements}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._stack:
            while self._stack.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "style" not in self._stack:
            self._texts.append(data)
