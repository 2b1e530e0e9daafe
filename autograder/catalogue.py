"""Known mistakes and correct answers as text: each as the cell that a student might have handed in.

Read from the files beside the hidden suites without importing them, so that this side needs no torch.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.course import Exercise
from autograder.errors import CourseError


@dataclass(frozen=True)
class Answer:
    """One entry of a catalogue.

    Attributes:
        id: its name.
        source: the text of a cell that defines the exercise's function, or its value, in this way.
        caught_by: of a mistake, the check that must catch it.
        named: of a mistake, whether feedback must name it.
    """

    id: str
    source: str
    caught_by: str = ""
    named: bool = True


def known_mistakes(hidden: Path, exercise: Exercise) -> list[Answer]:
    """The known mistakes of an exercise, from its folder of hidden suites."""
    return _answers(hidden / f"mistakes_{exercise.name}.py", exercise)


def correct_answers(hidden: Path, exercise: Exercise) -> list[Answer]:
    """The correct answers of an exercise, from its folder of hidden suites."""
    return _answers(hidden / f"correct_{exercise.name}.py", exercise)


def _answers(path: Path, exercise: Exercise) -> list[Answer]:
    try:
        module = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError) as error:
        raise CourseError(f"{path} can't be read: {error}.") from None
    shared = [statement for statement in module.body if not _declares(statement) and not _is_ours(statement)]
    answers = []
    for statement in module.body:
        call = _declares(statement)
        if call is None:
            continue
        arguments = _arguments(call)
        if isinstance(statement, ast.FunctionDef):
            statement.decorator_list = []
            source = ast.unparse(ast.Module([*shared, statement], []))
            source += f"\n\n{exercise.answer} = {statement.name}{'()' if exercise.value else ''}\n"
        else:
            source = arguments["source"]
        answers.append(
            Answer(arguments["id"], source, arguments.get("caught_by", ""), "unnamed_because" not in arguments)
        )
    return answers


def _declares(statement: ast.stmt) -> ast.Call | None:
    """The ``mistake(…)``, ``correct(…)`` or ``correct_source(…)`` that makes an entry of a statement."""
    calls = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        calls = [statement.value]
    for call in calls:
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            if call.func.id in ("mistake", "correct", "correct_source"):
                return call
    return None


def _is_ours(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return True  # the docstring
    return isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("autograder")


def _arguments(call: ast.Call) -> dict[str, Any]:
    values: dict[str, Any] = dict(zip(("id", "source"), map(_constant, call.args), strict=False))
    values.update({keyword.arg: _constant(keyword.value) for keyword in call.keywords if keyword.arg})
    return values


def _constant(node: ast.expr) -> Any:
    if isinstance(node, ast.Call):  # N_("…")
        node = node.args[0]
    return ast.literal_eval(node)
