"""What a hidden suite is written with: checks, failures, assertions on tensors, random draws, known mistakes."""

from autograder.channel.codec import Unsupported
from autograder.channel.proxy import Student, StudentRaised
from autograder.messages import N_
from autograder.suite._asking import ask, ask_exactly, with_last
from autograder.suite._catalogue import Correct, Mistake, correct, correct_source, mistake
from autograder.suite._checks import CheckFailed, CheckSpec, check, fail, with_hint
from autograder.suite._draws import Draws
from autograder.suite._judging import Judge, judged_by
from autograder.suite._masks import causal, padding, scattered
from autograder.suite._numbers import expect_same_number, largest_change, number_text, one_number, same_number
from autograder.suite._saying import described, error_of, is_refusal, shortened
from autograder.suite._tensors import (
    expect_close,
    expect_dtype,
    expect_finite,
    expect_gradients,
    expect_inputs_unchanged,
    expect_rows_sum_to_one,
    expect_shape,
    results,
)

__all__ = [
    "N_",
    "CheckFailed",
    "CheckSpec",
    "Correct",
    "Draws",
    "Judge",
    "Mistake",
    "Student",
    "StudentRaised",
    "Unsupported",
    "ask",
    "ask_exactly",
    "causal",
    "check",
    "correct",
    "correct_source",
    "described",
    "error_of",
    "expect_close",
    "expect_dtype",
    "expect_finite",
    "expect_gradients",
    "expect_inputs_unchanged",
    "expect_rows_sum_to_one",
    "expect_same_number",
    "expect_shape",
    "fail",
    "is_refusal",
    "judged_by",
    "largest_change",
    "mistake",
    "number_text",
    "one_number",
    "padding",
    "results",
    "same_number",
    "scattered",
    "shortened",
    "with_hint",
    "with_last",
]
