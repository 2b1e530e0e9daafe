"""The hidden suites of the attention assignment, proved in this process.

`autograder verify` proves the same through the whole engine; here it takes seconds, and no confinement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from autograder.examiner.diagnosis import equals
from autograder.suite import Correct, Mistake
from tests.suite.exam import Suite, answer_of

POINTS = {"project_qkv": 4, "scaled_dot_product_attention": 16}
SUITES = {exercise: Suite.load(exercise) for exercise in POINTS}

MISTAKES = [
    pytest.param(suite, mistake, id=f"{exercise}-{mistake.id}")
    for exercise, suite in SUITES.items()
    for mistake in suite.mistakes
]
CORRECT = [
    pytest.param(suite, correct, id=f"{exercise}-{correct.id}")
    for exercise, suite in SUITES.items()
    for correct in suite.correct
]


@pytest.fixture(autouse=True)
def small_tensors() -> Iterator[None]:
    """Threads cost more than they bring here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("exercise", POINTS)
def test_points_add_up(exercise: str) -> None:
    assert sum(spec.points for spec, _ in SUITES[exercise].checks.values()) == POINTS[exercise]


@pytest.mark.parametrize("exercise", POINTS)
def test_checks_need_only_checks_that_ran_before(exercise: str) -> None:
    before: set[str] = set()
    for id, (spec, _) in SUITES[exercise].checks.items():
        assert set(spec.needs) <= before
        before.add(id)


@pytest.mark.parametrize("exercise", POINTS)
def test_every_check_is_the_one_that_catches_some_mistake(exercise: str) -> None:
    assert {mistake.caught_by for mistake in SUITES[exercise].mistakes} == set(SUITES[exercise].checks)


@pytest.mark.parametrize(("suite", "correct"), CORRECT)
def test_a_correct_answer_earns_full_marks(suite: Suite, correct: Correct) -> None:
    outcome = suite.exam(answer_of(correct, suite.exercise), seed=20261129)
    assert outcome.messages == {}
    assert set(outcome.outcomes.values()) == {"passed"}


@pytest.mark.parametrize("exercise", POINTS)
def test_a_correct_answer_equals_no_mistake(exercise: str) -> None:
    suite = SUITES[exercise]
    outcome = suite.exam(answer_of(suite.correct[0], exercise), seed=0)
    assert [mistake.id for mistake in suite.mistakes if equals(mistake.answer, outcome.calls[::-1])] == []


@pytest.mark.parametrize(("suite", "mistake"), MISTAKES)
def test_a_known_mistake_is_caught_where_it_must_be_and_told_from_all_others(suite: Suite, mistake: Mistake) -> None:
    outcome = suite.exam(mistake.answer, seed=20261129)
    assert mistake.caught_by in outcome.failed
    # The last calls are the hardest ones: asked first, they tell answers apart the soonest.
    assert [other.id for other in suite.mistakes if equals(other.answer, outcome.calls[::-1])] == [mistake.id]


@pytest.mark.parametrize(
    ("mistake", "points"),
    [
        ("no-scale", 13),
        ("softmax-over-queries", 5),
        ("naive-exp", 15),
        ("global-maximum", 15),
        ("two-axes-only", 14),
        ("three-axes-only", 15),
        ("new-tensor-in-float32", 13.5),
        ("scaled-in-place", 14.5),
        ("detached-weights", 15),
        ("divided-output", 13),
    ],
)
def test_one_slip_in_attention_costs_what_it_is_worth(mistake: str, points: float) -> None:
    suite = SUITES["scaled_dot_product_attention"]
    answer = next(known.answer for known in suite.mistakes if known.id == mistake)
    assert suite.score(suite.exam(answer, seed=1)) == points


@pytest.mark.parametrize(("mistake", "points"), [("values-before-keys", 2), ("queries-scaled", 2.5)])
def test_one_slip_in_the_projections_costs_what_it_is_worth(mistake: str, points: float) -> None:
    suite = SUITES["project_qkv"]
    answer = next(known.answer for known in suite.mistakes if known.id == mistake)
    assert suite.score(suite.exam(answer, seed=1)) == points


def test_the_reference_for_attention_is_pythons_own_arithmetic_and_torchs_own_attention() -> None:
    reference: Any = SUITES["scaled_dot_product_attention"].checks["weights"][1].__globals__["reference"]
    generator = torch.Generator().manual_seed(3)
    Q, K, V = (torch.randn(2, n, d, generator=generator, dtype=torch.float64) for n, d in ((3, 5), (4, 5), (4, 6)))
    output, weights = reference(Q, K, V)
    torch.testing.assert_close(output, F.scaled_dot_product_attention(Q, K, V))
    scores = [sum(q * k for q, k in zip(Q[1, 2].tolist(), key, strict=True)) / math.sqrt(5) for key in K[1].tolist()]
    total = sum(map(math.exp, scores))
    assert weights[1, 2].tolist() == pytest.approx([math.exp(score) / total for score in scores])
