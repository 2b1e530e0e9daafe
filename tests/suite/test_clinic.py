"""The sick functions that the clinic hands out: each makes one famous mistake, and is known by it."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from autograder.channel.proxy import Call
from autograder.examiner.diagnosis import equals, find_mistakes
from autograder.stubs import released
from tests.suite.exam import HIDDEN, Answer, Suite

SICK = {
    "clinic_attention": ("attention", "scaled_dot_product_attention", "softmax-over-axis-1"),
    "clinic_padding": ("masking", "masked_attention", "padding-along-queries"),
    "clinic_causal": ("masking", "masked_attention", "and-instead-of-or"),
    "clinic_loss": ("loss", "sequence_cross_entropy", "mean-of-sentence-means"),
    "clinic_split": ("multihead", "split_heads", "exchanged-too-early"),
    "clinic_multihead": ("multihead", "multi_head_attention", "biases-of-keys-and-values-exchanged"),
}
NOTEBOOK = HIDDEN.parents[1] / "source" / "clinic" / "clinic.ipynb"
SEED = 20261129
AS_SICK = "as-sick-as-before"


@pytest.fixture(autouse=True)
def small_tensors() -> Iterator[None]:
    """Threads cost more than they bring here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def cell(name: str) -> str:
    """The instructor's cell of an exercise."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    source = next(each["source"] for each in cells if each["id"] == name)
    return source if isinstance(source, str) else "".join(source)


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
    return function(name, released(cell(name), stock_stub="raise NotImplementedError()"))


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
        ("clinic_loss", "phantom-words", "nothing but pads"),
        ("clinic_loss", "words-without-loss-left-out", "cost 0 and 0.693"),
        ("clinic_split", "pieces-of-num-heads", "the shape is"),
        ("clinic_multihead", "values-with-the-bias-of-the-queries", "weights are off by at most 0.000"),
    ],
)
def test_the_notebook_says_what_is_wrong_with_a_half_repair(name: str, mistake: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        run_public_tests(name, Suite.load("clinic", name).answer(mistake))
