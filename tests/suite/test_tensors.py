"""The assertions of hidden suites: what passes, and the sentence that is read when something does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch

from autograder.messages import Message
from autograder.suite import (
    CheckFailed,
    Unsupported,
    expect_close,
    expect_dtype,
    expect_finite,
    expect_gradients,
    expect_inputs_unchanged,
    expect_rows_sum_to_one,
    expect_shape,
    results,
)

AXES = ("query", "key")


def sentence(assertion: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """What the student reads. The message has to survive its way through a JSON report."""
    with pytest.raises(CheckFailed) as raised:
        assertion(*args, **kwargs)
    message = raised.value.message
    stored = msgspec.json.decode(msgspec.json.encode(message), type=Message)
    assert stored.render() == message.render()
    json.dumps(msgspec.to_builtins(message))
    return message.render()


def pair(value: Any) -> str:
    return sentence(results, value, output=(2, 3), weights=(2, 4))


# results


def test_results_come_back_in_their_order_from_a_tuple_or_a_list() -> None:
    output, weights = torch.zeros(2, 3), torch.ones(2, 4)
    for value in ((output, weights), [output, weights]):
        assert results(value, output=(2, 3), weights=(2, 4)) == (output, weights)


def test_any_shape_will_do_where_none_is_due() -> None:
    assert len(results((torch.zeros(1), torch.zeros(2, 2)), Q=None, K=None)) == 2


def test_a_forgotten_return_is_told() -> None:
    assert pair(None) == "your function returned None, expected (output, weights): does it end with a return?"


def test_one_tensor_where_two_are_due_is_told() -> None:
    assert pair(torch.zeros(2, 3)) == (
        "your function returned one tensor of shape (2, 3), expected 2 results: (output, weights)"
    )


def test_two_rows_of_one_tensor_are_not_two_results() -> None:
    assert "one tensor of shape (2, 3)" in pair(torch.zeros(2, 3))


def test_three_results_are_told() -> None:
    assert pair((torch.zeros(2, 3),) * 3) == "your function returned 3 results, expected 2: (output, weights)"


def test_swapped_results_are_told_by_their_shapes() -> None:
    assert pair((torch.zeros(2, 4), torch.zeros(2, 3))) == (
        "your results come in the order (weights, output), expected (output, weights)"
    )


def test_a_wrong_shape_is_told_by_name() -> None:
    assert pair((torch.zeros(2, 3), torch.zeros(4, 2))) == ("the shape of your weights is (4, 2), expected (2, 4)")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Unsupported("numpy.ndarray", "numpy"), "a numpy array"),
        (Unsupported("generator", "generator"), "a generator (does it yield where it should return?)"),
        (Unsupported("Words", "other"), "an object of type Words"),
        (Unsupported("Tagged", "subclass"), "a tensor subclass (Tagged)"),
        (Unsupported("torch.Tensor", "something new"), "an object of type torch.Tensor"),
        ({"output": 1}, "a dict"),
        ("text", "a str"),
        (0.5, "a plain number"),
        (True, "a bool"),
    ],
)
def test_what_is_no_tensor_is_told_in_words(value: Any, words: str) -> None:
    assert pair(value) == f"your function returned {words}, expected 2 tensors: (output, weights)"
    assert pair((torch.zeros(2, 3), value)) == f"your weights is {words}, expected a tensor"


def test_complex_numbers_are_told() -> None:
    assert pair((torch.zeros(2, 3, dtype=torch.complex64), torch.zeros(2, 4))) == (
        "your output holds complex numbers (complex64)"
    )


# shapes, dtypes, finiteness


def test_shapes_and_dtypes_are_told() -> None:
    expect_shape(torch.zeros(2, 5), (2, 5), "mask")
    expect_dtype(torch.zeros(2), torch.float32, "mask")
    assert sentence(expect_shape, torch.zeros(5), (2, 5), "mask") == ("the shape of your mask is (5,), expected (2, 5)")
    assert sentence(expect_dtype, torch.zeros(2), torch.bfloat16, "mask") == (
        "the dtype of your mask is float32, while the inputs are bfloat16"
    )


def test_the_first_number_that_is_not_finite_is_told_with_its_place() -> None:
    x = torch.zeros(2, 3, 4)
    expect_finite(x, "weights", AXES)
    x[1, 2, 0], x[1, 2, 3] = float("nan"), float("-inf")
    assert sentence(expect_finite, x, "weights", AXES) == (
        "your weights at sentence 1, query 2, key 0: nan (2 of 24 entries are not finite)"
    )


# closeness


def test_the_worst_place_is_told_with_both_numbers() -> None:
    wanted = torch.zeros(2, 3, 4, dtype=torch.float64)
    seen = wanted.clone()
    seen[0, 0, 0], seen[1, 2, 3] = 0.25, -0.5
    assert sentence(expect_close, seen, wanted, "weights", AXES) == (
        "your weights at sentence 1, query 2, key 3: -0.5, expected 0 (2 of 24 entries differ)"
    )


def test_places_are_indices_where_axes_have_no_names() -> None:
    seen = torch.zeros(2, 2, 3, 4)
    seen[1, 0, 2, 3] = 1
    assert "weights at [1, 0, 2, 3]: 1, expected 0" in sentence(
        expect_close, seen, torch.zeros(2, 2, 3, 4), "weights", AXES
    )
    assert "loss at []: 1, expected 2" in sentence(expect_close, torch.tensor(1.0), torch.tensor(2.0), "loss")


def test_numbers_that_nearly_agree_are_shown_with_the_digits_that_tell_them_apart() -> None:
    seen, wanted = torch.tensor([0.5000123], dtype=torch.float64), torch.tensor([0.5], dtype=torch.float64)
    assert "[0]: 0.50001, expected 0.5 " in sentence(expect_close, seen, wanted, "output")


def test_two_nans_are_not_equal() -> None:
    nan = torch.tensor([float("nan")])
    assert "nan" in sentence(expect_close, nan, nan, "output")


def test_a_float32_root_passes_in_float64_and_a_coarser_error_does_not() -> None:
    wanted = torch.tensor([3.0], dtype=torch.float64)
    expect_close(wanted * (1 + 6e-8), wanted, "output")
    sentence(expect_close, wanted * (1 + 1e-5), wanted, "output")


def test_float32_is_compared_as_coarsely_as_it_is() -> None:
    wanted = torch.tensor([3.0], dtype=torch.float64)
    expect_close((wanted * (1 + 1e-5)).float(), wanted, "output")
    sentence(expect_close, (wanted * (1 + 1e-3)).float(), wanted, "output")


def test_shapes_that_would_broadcast_are_not_close() -> None:
    assert "shape" in sentence(expect_close, torch.zeros(1, 3), torch.zeros(2, 3), "output")


# rows


def test_rows_that_sum_to_one_pass() -> None:
    expect_rows_sum_to_one(torch.full((2, 3, 4), 0.25), "weights", AXES)


def test_the_first_bad_row_is_told() -> None:
    weights = torch.full((2, 3, 4), 0.25)
    weights[0, 1] = 0.125
    weights[1, 2] = 0.5
    assert sentence(expect_rows_sum_to_one, weights, "weights", AXES) == (
        "the row of your weights at sentence 0, query 1 sums to 0.5, expected 1"
    )


def test_columns_that_sum_to_one_instead_are_told() -> None:
    assert "the columns sum to 1" in sentence(expect_rows_sum_to_one, torch.full((2, 4, 2), 0.25), "weights", AXES)


def test_a_negative_weight_is_told_even_where_rows_sum_to_one() -> None:
    assert sentence(expect_rows_sum_to_one, torch.tensor([[1.5, -0.5]]), "weights", AXES) == (
        "your weights at query 0, key 1: -0.5, and a weight is never negative"
    )


# gradients


def graph() -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    y = torch.full((2,), 3.0, dtype=torch.float64, requires_grad=True)
    return x, y, {"x": x, "y": y}


def test_equal_gradients_pass_and_none_counts_as_zero() -> None:
    x, _, inputs = graph()
    expect_gradients(2 * x, x + x, inputs, torch.ones(2, dtype=torch.float64), "output")


def test_a_detached_result_is_told() -> None:
    x, _, inputs = graph()
    assert sentence(expect_gradients, x.detach(), x, inputs, torch.ones(2), "output") == (
        "no gradients flow through your output: on the way from the inputs the graph is cut"
    )


def test_an_input_that_no_gradient_reaches_is_told() -> None:
    x, y, inputs = graph()
    assert sentence(expect_gradients, x * y.detach(), x * y, inputs, torch.ones(2), "output") == (
        "no gradient of your output arrives at y"
    )


def test_a_wrong_gradient_is_told_with_its_input() -> None:
    x, y, inputs = graph()
    assert sentence(expect_gradients, x * y + x, x * y, inputs, torch.ones(2, dtype=torch.float64), "output") == (
        "your gradient of output with respect to x at [0]: 4, expected 3 (2 of 2 entries differ)"
    )


def test_a_gradient_where_none_is_due_is_wrong() -> None:
    x, y, inputs = graph()
    assert "with respect to y" in sentence(expect_gradients, x + y, x, inputs, torch.ones(2), "output")


# inputs


def test_changed_inputs_are_told_once() -> None:
    expect_inputs_unchanged([])
    assert sentence(expect_inputs_unchanged, ["argument 1", "argument 1", "V"]) == (
        "your function changes what it is given (V, argument 1): print it before the call and after"
    )
