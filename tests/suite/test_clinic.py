"""The sick functions that the clinic hands out: each makes one famous mistake, and is known by it."""

from __future__ import annotations

import ast
import functools
import json
import math
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from autograder.channel.proxy import Call
from autograder.examiner.diagnosis import equals, find_mistakes
from autograder.stubs import SOLUTION, STUB, regions, released
from tests.suite.exam import HIDDEN, Answer, Suite

SICK = {
    "clinic_attention": ("attention", "scaled_dot_product_attention", "softmax-over-axis-1"),
    "clinic_padding": ("masking", "masked_attention", "padding-along-queries"),
    "clinic_causal": ("masking", "masked_attention", "and-instead-of-or"),
    "clinic_loss": ("loss", "sequence_cross_entropy", "mean-of-sentence-means"),
    "clinic_split": ("multihead", "split_heads", "exchanged-too-early"),
    "clinic_multihead": ("multihead", "multi_head_attention", "biases-of-keys-and-values-exchanged"),
}
NOTEBOOKS = HIDDEN.parents[1] / "source"
NOTEBOOK = NOTEBOOKS / "clinic" / "clinic.ipynb"
SEED = 20261129
AS_SICK = "as-sick-as-before"
TELLING = 15
"""Code of more characters than this is nothing that one writes by chance."""


def cells(notebook: Path) -> list[dict[str, Any]]:
    """The instructor's cells, the source of each as one text."""
    found: list[dict[str, Any]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [{**each, "source": "".join(each["source"])} for each in found]


def cell(name: str) -> str:
    """The instructor's cell of an exercise."""
    source: str = next(each["source"] for each in cells(NOTEBOOK) if each["id"] == name)
    return source


def function(name: str, source: str) -> Answer:
    """What a cell defines, run with nothing but what the notebook imports."""
    namespace = imports()
    exec(compile(source, f"<cell {name}>", "exec"), namespace)
    answer: Answer = namespace[name]
    return answer


def imports() -> dict[str, Any]:
    return {"math": math, "torch": torch, "F": F, "nn": nn}


def repaired(name: str) -> Answer:
    """The function of the notebook's solution."""
    return function(name, cell(name).split("### BEGIN STUB")[0])


def run_public_tests(name: str, answer: Answer) -> None:
    """The notebook's test cell for a function, as students have it before them."""
    source = cell(f"test_{name}")
    exec(compile(source, f"<cell test_{name}>", "exec"), {**imports(), name: answer})


def sick(name: str) -> Answer:
    """The function that students get."""
    return function(name, as_released(cell(name)))


def as_released(source: str) -> str:
    return released(source, stock_stub="raise NotImplementedError()")


@functools.cache
def course() -> list[tuple[str, str]]:
    """What students can read before they have repaired anything: a cell's name, and its text."""
    texts = []
    for notebook in sorted(NOTEBOOKS.glob("*/*.ipynb")):
        for each in cells(notebook):
            where, source = f"{notebook.stem}, cell {each['id']}", each["source"]
            texts.append((where, source))
            if each["cell_type"] == "code":
                # Once as it is written, and once without comments, in the one form that all code has here.
                texts[-1:] = [(where, as_released(source)), (where, ast.unparse(ast.parse(as_released(source))))]
    return texts


def repair(source: str) -> set[str]:
    """The telling code of a solution that is not in its stub: lines, and all that they are made of."""
    bodies = {region.kind: textwrap.dedent("\n".join(region.lines)) for region in regions(source)}
    stub = "\n".join(re.sub(r"^# ?", "", line) for line in bodies[STUB].split("\n"))
    changed = (_lines(bodies[SOLUTION]) | _parts(bodies[SOLUTION])) - _lines(stub) - _parts(stub)
    return {code for code in changed if len(code) > TELLING}


def _lines(code: str) -> set[str]:
    return {line.partition("  #")[0].strip() for line in code.split("\n")}


def _parts(code: str) -> set[str]:
    return {ast.unparse(node) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.expr | ast.stmt)}


@functools.cache
def heard_by_the_original(name: str) -> tuple[Suite, list[Call]]:
    """The original's suite, and all calls that it makes of the sick function."""
    assignment, exercise, _ = SICK[name]
    original = Suite.load(assignment, exercise)
    return original, original.exam(sick(name), SEED).calls


def named(calls: list[Call], suite: Suite) -> list[str]:
    return [found.id for found in find_mistakes(calls, suite.mistakes, suite.reference)]


@pytest.mark.parametrize("name", SICK)
def test_a_sick_function_makes_one_famous_mistake_and_no_other(name: str) -> None:
    original, calls = heard_by_the_original(name)
    _, _, mistake = SICK[name]
    assert named(calls, original) == [mistake]


@pytest.mark.parametrize("name", SICK)
def test_a_sick_function_is_the_one_that_the_catalogue_calls_as_sick_as_before(name: str) -> None:
    # Its own suite stops at the first check that fails; the original's has seen all of it.
    original, calls = heard_by_the_original(name)
    suite = Suite.load("clinic", name)
    assert [known.id for known in suite.mistakes if equals(known.answer, calls, original.reference)] == [AS_SICK]


@pytest.mark.parametrize("name", SICK)
def test_a_sick_function_earns_nothing_and_is_named(name: str) -> None:
    suite = Suite.load("clinic", name)
    outcome = suite.exam(sick(name), SEED)
    assert outcome.failed == ["repaired"]
    assert named(outcome.calls, suite) == [AS_SICK]


@pytest.mark.parametrize("name", SICK)
def test_the_repair_in_the_notebook_is_what_the_original_asks_for(name: str) -> None:
    assert Suite.load("clinic", name).exam(repaired(name), SEED).outcomes == {"repaired": "passed"}


@pytest.mark.parametrize("name", SICK)
def test_no_case_and_no_lesson_holds_the_repair_of_a_case(name: str) -> None:
    telling = repair(cell(name))
    assert telling
    assert [(code, where) for code in sorted(telling) for where, text in course() if code in text] == []


@pytest.mark.parametrize("name", SICK)
def test_the_notebook_tells_sick_from_repaired(name: str) -> None:
    with pytest.raises(AssertionError):
        run_public_tests(name, sick(name))
    run_public_tests(name, repaired(name))


@pytest.mark.parametrize(
    ("name", "mistake", "says"),
    [
        ("clinic_attention", "batches-only", "one sentence alone: torch stops"),
        ("clinic_padding", "old-bans-kept", "which sum to 0.000"),
        ("clinic_padding", "rows-upside-down", "the padding is still heard"),
        ("clinic_causal", "padding-without-effect", "padding mask alone; .* which is a pad"),
        ("clinic_causal", "causal-without-effect", "causal mask alone; .* which lies in the future"),
        ("clinic_causal", "nobody-allowed-by-the-second", "causal mask alone; .* the weights sum to 0.00"),
        ("clinic_loss", "words-without-loss-left-out", "cost 0 and 0.693"),
        ("clinic_split", "pieces-of-num-heads", "the shape is"),
        ("clinic_multihead", "values-with-the-bias-of-the-queries", "weights are off by at most 0.000"),
    ],
)
def test_the_notebook_says_what_is_wrong_with_a_half_repair(name: str, mistake: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        run_public_tests(name, Suite.load("clinic", name).answer(mistake))
