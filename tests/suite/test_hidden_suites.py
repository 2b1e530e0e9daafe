"""The hidden suites of all assignments, proved in this process.

`autograder verify` proves the same in the engine; here it takes seconds, and no confinement.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from autograder.examiner.diagnosis import equals, find_mistakes
from autograder.suite import Correct, Draws, Mistake
from tests.suite.exam import Suite, answer_of

POINTS = {
    "sequences": {"rnn": 4, "pad_sequences": 4, "shapes": 4},
    "attention": {"project_qkv": 4, "scaled_dot_product_attention": 16},
    "masking": {"padding_mask": 4, "causal_mask": 4, "masked_attention": 14},
    "loss": {"ignore_padding": 4, "sequence_cross_entropy": 12, "tagging_loss": 6},
    "multihead": {"split_heads": 6, "merge_heads": 4, "multi_head_attention": 14},
    "heads": {"attention_bytes": 4, "positional_encoding": 6, "experiment": 4},
    "clinic": {
        "clinic_attention": 2,
        "clinic_padding": 2,
        "clinic_causal": 2,
        "clinic_loss": 2,
        "clinic_split": 2,
        "clinic_multihead": 2,
    },
}
SUITES = {
    exercise: Suite.load(assignment, exercise) for assignment, exercises in POINTS.items() for exercise in exercises
}
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


@pytest.mark.parametrize(("exercise", "points"), [each for exercises in POINTS.values() for each in exercises.items()])
def test_points_add_up(exercise: str, points: float) -> None:
    assert sum(spec.points for spec, _ in SUITES[exercise].checks.values()) == points


@pytest.mark.parametrize("exercise", SUITES)
def test_checks_need_only_checks_that_ran_before(exercise: str) -> None:
    before: set[str] = set()
    for id, (spec, _) in SUITES[exercise].checks.items():
        assert set(spec.needs) <= before
        before.add(id)


@pytest.mark.parametrize("exercise", SUITES)
def test_every_check_is_the_one_that_catches_some_mistake(exercise: str) -> None:
    assert {mistake.caught_by for mistake in SUITES[exercise].mistakes} == set(SUITES[exercise].checks)


@pytest.mark.parametrize(("suite", "correct"), CORRECT)
def test_a_correct_answer_earns_full_marks(suite: Suite, correct: Correct) -> None:
    outcome = suite.exam(answer_of(correct, suite.exercise), seed=20261129)
    assert outcome.messages == {}
    assert set(outcome.outcomes.values()) == {"passed"}


@pytest.mark.parametrize("exercise", SUITES)
def test_a_correct_answer_equals_no_mistake(exercise: str) -> None:
    suite = SUITES[exercise]
    outcome = suite.exam(answer_of(suite.correct[0], exercise), seed=0)
    assert [mistake.id for mistake in suite.mistakes if equals(mistake.answer, outcome.calls, suite.reference)] == []


@pytest.mark.parametrize(("suite", "mistake"), MISTAKES)
def test_a_known_mistake_is_caught_where_it_must_be_and_told_from_all_others(suite: Suite, mistake: Mistake) -> None:
    outcome = suite.exam(mistake.answer, seed=20261129)
    assert mistake.caught_by in outcome.failed
    assert [found.id for found in find_mistakes(outcome.calls, suite.mistakes, suite.reference)] == [mistake.id]


@pytest.mark.parametrize(
    ("exercise", "mistake", "points"),
    [
        ("project_qkv", "values-before-keys", 2),
        ("project_qkv", "queries-scaled", 2.5),
        ("scaled_dot_product_attention", "no-scale", 13),
        ("scaled_dot_product_attention", "softmax-over-queries", 5),
        ("scaled_dot_product_attention", "naive-exp", 15),
        ("scaled_dot_product_attention", "global-maximum", 15),
        ("scaled_dot_product_attention", "two-axes-only", 14),
        ("scaled_dot_product_attention", "three-axes-only", 15),
        ("scaled_dot_product_attention", "new-tensor-in-float32", 13.5),
        ("scaled_dot_product_attention", "scaled-in-place", 14.5),
        ("scaled_dot_product_attention", "detached-weights", 15),
        ("scaled_dot_product_attention", "divided-output", 13),
        ("padding_mask", "inverted", 1),
        ("padding_mask", "max-len-ignored", 3.5),
        ("padding_mask", "floats", 3.5),
        ("causal_mask", "itself-hidden", 3),
        ("causal_mask", "begins-below-the-diagonal", 2),
        ("causal_mask", "everything-hidden", 2),
        ("causal_mask", "floats", 3.5),
        ("masked_attention", "renormalised-after-softmax", 13.5),
        ("masked_attention", "nan-rows", 12),
        ("masked_attention", "lowest-number-times-a-mask", 12.5),
        ("masked_attention", "divided-by-nothing", 11.5),
        ("masked_attention", "uniform-rows", 12),
        ("masked_attention", "nan-replaced-afterwards", 13),
        ("masked_attention", "and-instead-of-or", 8.5),
        ("masked_attention", "no-scale", 10.5),
        ("masked_attention", "mask-turned-in-place", 13.5),
        ("masked_attention", "float32-mask", 13.5),
        ("masked_attention", "detached-weights", 13),
        ("masked_attention", "squeezed", 13.5),
        ("ignore_padding", "first-pad-left", 2.5),
        ("ignore_padding", "always-minus-100", 3.5),
        ("ignore_padding", "in-place", 3.5),
        ("sequence_cross_entropy", "mean-over-all-places", 9.5),
        ("sequence_cross_entropy", "mean-of-sentence-means", 9.5),
        ("sequence_cross_entropy", "sum", 9),
        ("sequence_cross_entropy", "always-minus-100", 10.5),
        ("sequence_cross_entropy", "nan-when-nothing-is-real", 10.5),
        ("sequence_cross_entropy", "naive-exp", 11),
        ("sequence_cross_entropy", "softmax-over-positions", 4),
        ("sequence_cross_entropy", "detached", 10.5),
        ("tagging_loss", "no-mask", 4),
        ("tagging_loss", "padding-in-the-loss", 4.5),
        ("tagging_loss", "mask-inverted", 3.5),
        ("tagging_loss", "ignore-index-not-passed-on", 5),
        ("tagging_loss", "no-scale", 5),
        ("split_heads", "view-without-transposing", 3),
        ("split_heads", "interleaved", 4),
        ("split_heads", "error-left-to-torch", 5.5),
        ("merge_heads", "reshape-without-transposing", 1.5),
        ("merge_heads", "view-after-transposing", 3.5),
        ("multi_head_attention", "no-scale", 11),
        ("multi_head_attention", "scale-by-embedding", 11),
        ("multi_head_attention", "weights-averaged", 10.5),
        ("multi_head_attention", "no-biases", 12),
        ("multi_head_attention", "no-projection-out", 11),
        ("multi_head_attention", "padding-ignored", 10.5),
        ("multi_head_attention", "padding-inverted", 10),
        ("multi_head_attention", "nan-rows", 12.5),
        ("multi_head_attention", "results-swapped", 12),
        ("multi_head_attention", "detached-weights", 13),
        ("multi_head_attention", "mask-turned-in-place", 13.5),
        ("shapes", "heads-by-default", 3.5),
        ("shapes", "never-a-head", 3.5),
        ("shapes", "parentheses-without-a-comma", 3.5),
        ("shapes", "keys-before-queries", 3),
        ("shapes", "one-sentence-alone", 2.5),
        ("shapes", "queries-from-elsewhere", 2.5),
        ("pad_sequences", "places-first", 3.5),
        ("pad_sequences", "always-zeros", 3.5),
        ("pad_sequences", "new-tensor-in-float32", 3.5),
        ("pad_sequences", "dtype-of-the-padding-value", 3.5),
        ("pad_sequences", "room-for-the-first", 3.5),
        ("pad_sequences", "padding-in-front", 3),
        ("pad_sequences", "sorted-by-length", 3),
        ("pad_sequences", "sorted-in-place", 2.5),
        ("pad_sequences", "room-for-the-shortest", 2.5),
        ("pad_sequences", "cut-at-the-shortest", 2.5),
        ("pad_sequences", "joined-end-to-end", 0.5),
        ("rnn", "last-state-only", 3.5),
        ("rnn", "return-inside-the-loop", 3.5),
        ("rnn", "joined-along-an-axis", 3.5),
        ("rnn", "h0-ignored", 3.5),
        ("rnn", "graph-cut-between-steps", 3.5),
        ("rnn", "first-axis-counted", 3.5),
        ("rnn", "states-matrix-transposed", 3.5),
        ("rnn", "matrix-before-the-state", 3),
        ("rnn", "no-tanh", 3),
        ("rnn", "tanh-around-the-word", 3),
        ("rnn", "backwards", 2.5),
        ("rnn", "never-handed-on", 0.5),
        ("attention_bytes", "queries-squared", 3),
        ("attention_bytes", "heads-forgotten", 3.5),
        ("attention_bytes", "always-four-bytes", 3.5),
        ("attention_bytes", "float-result", 3.5),
        ("attention_bytes", "sizes-added", 1.5),
        ("positional_encoding", "halves", 5),
        ("positional_encoding", "sine-and-cosine-swapped", 5),
        ("positional_encoding", "places-from-1", 5),
        ("positional_encoding", "exponent-halved", 5),
        ("positional_encoding", "base-1000", 5),
        ("positional_encoding", "sign-of-the-exponent", 5),
        ("positional_encoding", "number-of-the-column-for-the-hand", 4),
        ("positional_encoding", "all-sines", 4),
        ("positional_encoding", "same-row-everywhere", 1.5),
        ("positional_encoding", "list-of-rows", 5.5),
        ("positional_encoding", "transposed", 5.5),
        ("positional_encoding", "error-left-to-torch", 5.5),
        ("experiment", "typed-in", 0.5),
        ("experiment", "one-training-for-both", 3.5),
        ("experiment", "averaged-weights", 3),
        ("experiment", "heads-as-text", 3.5),
        ("experiment", "only-one-head-yet", 2),
        ("clinic_attention", "as-sick-as-before", 0),
        ("clinic_padding", "as-sick-as-before", 0),
        ("clinic_causal", "as-sick-as-before", 0),
        ("clinic_loss", "as-sick-as-before", 0),
        ("clinic_split", "as-sick-as-before", 0),
        ("clinic_multihead", "as-sick-as-before", 0),
    ],
)
def test_one_slip_costs_what_it_is_worth(exercise: str, mistake: str, points: float) -> None:
    suite = SUITES[exercise]
    assert suite.score(suite.exam(suite.answer(mistake), seed=1)) == points


def _of_suite(exercise: str, name: str) -> Any:
    """A helper of a hidden suite."""
    _, (_, test) = next(iter(SUITES[exercise].checks.items()))
    return test.__globals__[name]


def _draw(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def test_the_reference_for_attention_is_pythons_own_arithmetic_and_torchs_own_attention() -> None:
    reference = _of_suite("scaled_dot_product_attention", "reference")
    Q, K, V = _draw((2, 3, 5), (2, 4, 5), (2, 4, 6))
    output, weights = reference(Q, K, V)
    torch.testing.assert_close(output, F.scaled_dot_product_attention(Q, K, V))
    scores = [sum(q * k for q, k in zip(Q[1, 2].tolist(), key, strict=True)) / math.sqrt(5) for key in K[1].tolist()]
    total = sum(map(math.exp, scores))
    assert weights[1, 2].tolist() == pytest.approx([math.exp(score) / total for score in scores])


def test_the_reference_for_masked_attention_is_torchs_own_and_zero_where_nothing_is_allowed() -> None:
    reference = _of_suite("masked_attention", "reference")
    Q, K, V = _draw((2, 3, 5), (2, 4, 5), (2, 4, 6))
    padding = torch.tensor([[False, False, True, True], [False, False, False, True]])
    attn = torch.tensor([[True, True, False, False], [False, True, False, False], [False, False, False, True]])
    output, weights = reference(Q, K, V, padding, attn)
    allowed = ~(padding.unsqueeze(1) | attn)
    # Query 0 of sentence 0 has nothing left; torch has the opposite polarity, and zeros there too.
    torch.testing.assert_close(output, F.scaled_dot_product_attention(Q, K, V, attn_mask=allowed))
    assert output[0, 0].tolist() == [0] * 6
    assert weights[0, 0].tolist() == [0] * 4
    assert weights[~allowed].tolist() == [0] * int((~allowed).sum())
    assert weights.sum(-1).flatten().tolist() == pytest.approx([0, 1, 1, 1, 1, 1])


def test_masks_of_the_references_are_what_one_writes_by_hand() -> None:
    padding, causal = _of_suite("padding_mask", "reference"), _of_suite("causal_mask", "reference")
    assert padding(torch.tensor([2, 1]), 3).tolist() == [[False, False, True], [False, True, True]]
    assert padding(torch.tensor([2, 1])).tolist() == [[False, False], [False, True]]
    assert causal(3).tolist() == [[False, True, True], [False, False, True], [False, False, False]]


def test_the_references_for_losses_are_pythons_own_arithmetic() -> None:
    loss, tags = _of_suite("sequence_cross_entropy", "reference"), _of_suite("tagging_loss", "reference")
    logits = torch.tensor([[[0.0, 2, 0, 1], [1, 0, 0, 0]], [[0, 0, 0, 0], [9, 9, 9, 9]]], dtype=torch.float64)
    e = math.exp
    three = [-math.log(e(2) / (2 + e(2) + e(1))), -math.log(1 / (3 + e(1))), math.log(4)]
    assert float(loss(logits, torch.tensor([[1, 3], [2, -1]]), -1)) == pytest.approx(sum(three) / 3)
    x, W_out = torch.tensor([[[2.0], [0], [9]]]), torch.tensor([[math.log(3), 0.0]])
    zero, one = torch.zeros(1, 1), torch.ones(1, 1)
    seen = tags(x, torch.tensor([[0, 1, 7]]), torch.tensor([2]), zero, one, one, W_out)
    assert float(seen) == pytest.approx(-(math.log(3 / 4) + math.log(1 / 4)) / 2)
    targets = _of_suite("ignore_padding", "reference")(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([2, 3]), -1)
    assert targets.tolist() == [[1, 2, -1], [4, 5, 6]]


def test_the_references_for_heads_are_what_one_counts_out_by_hand() -> None:
    x = torch.arange(12).view(1, 2, 6)
    split = _of_suite("split_heads", "reference")(x, 3)
    assert split.tolist() == [[[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]]
    assert _of_suite("merge_heads", "reference")(split).tolist() == x.tolist()


def test_the_reference_for_multi_head_attention_is_pythons_own_arithmetic() -> None:
    case = _of_suite("multi_head_attention", "Case")
    log3, eye = math.log(3), torch.eye(2, dtype=torch.float64)
    keys = torch.tensor([[[log3, 0], [0, log3]]], dtype=torch.float64)
    query, values = torch.ones(1, 1, 2, dtype=torch.float64), torch.tensor([[[8.0, 8], [4, 4]]]).double()
    out, bias = torch.tensor([[1.0, 1], [0, 1]]).double(), torch.tensor([0.0, 10]).double()
    output, weights = _of_suite("multi_head_attention", "reference")(
        case(query, keys, values, 2, eye.repeat(3, 1), torch.zeros(6).double(), out, bias)
    )
    assert weights.flatten().tolist() == pytest.approx([3 / 4, 1 / 4, 1 / 4, 3 / 4])
    assert output.flatten().tolist() == pytest.approx([7 + 5, 5 + 10])


@pytest.mark.parametrize("seed", range(40))
def test_masks_that_are_drawn_forbid_something_in_each_row_and_leave_something(seed: int) -> None:
    """Otherwise a check might see nothing under some seed."""
    for inputs in (
        _of_suite("masked_attention", name)(Draws(seed, "x")) for name in ("only_padding", "only_attn", "both")
    ):
        forbidden = _of_suite("masked_attention", "forbidden_by")(inputs[0], inputs[1], *inputs[3:])
        counts = forbidden.sum(-1)
        assert (counts > 0).all() and (counts < forbidden.shape[-1]).all()
    empty = [
        _of_suite("masked_attention", "forbidden_by")(inputs[0], inputs[1], *inputs[3:]).all(-1)
        for inputs in _of_suite("masked_attention", "_with_empty_rows")(Draws(seed, "x"))
    ]
    assert all(rows.any() for rows in empty) and not any(rows.all() for rows in empty[:3])
