"""Proves that an answer projects one input to queries, keys and values: ``x @ W`` three times, no more.

Each of the three is worth its own marks. Widths differ from one another, except where the first check looks
at shapes: with square matrices nearly every slip runs, and shows which one it is.
"""

from __future__ import annotations

import torch

from autograder.messages import Message
from autograder.suite import (
    N_,
    Draws,
    Student,
    StudentRaised,
    ask,
    check,
    expect_close,
    expect_dtype,
    expect_finite,
    expect_gradients,
    expect_inputs_unchanged,
    expect_shape,
    results,
)

B, T, D = 2, 5, 4
WIDTHS = {"Q": 6, "K": 6, "V": 3}
AXES = (N_("word"), N_("column"))


def reference(x: torch.Tensor, *matrices: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """For each matrix the rows of x, as sums over broadcast products: no matmul."""
    return tuple((x.unsqueeze(-1) * W).sum(-2) for W in matrices)


def draw(rng: Draws, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    """A batch, and the three matrices."""
    return rng.normal(B, T, D, dtype=dtype), *(rng.normal(D, width, dtype=dtype) for width in WIDTHS.values())


def project(student: Student, x: torch.Tensor, *matrices: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The student's Q, K and V. Copies are passed: a change does not pile up."""
    return results(ask(student, x, *matrices), Q=None, K=None, V=None)


def project_each(student: Student, x: torch.Tensor, *matrices: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """As `project`, for a batch; sentence by sentence where the function can't take a batch."""
    try:
        return project(student, x, *matrices)
    except StudentRaised as raised:
        try:
            sentences = [project(student, rows, *matrices) for rows in x]
        except StudentRaised:
            raise raised from None
    for sentence in sentences:
        for name, part, first in zip("QKV", sentence, sentences[0], strict=True):
            expect_shape(part, tuple(first.shape), name)  # what can't be stacked would be our fault, not the answer's
    return tuple(torch.stack(parts) for parts in zip(*sentences, strict=True))


@check(
    points=0.5,
    title=N_("Three tensors come back, each with a row for every word"),
    hint=N_(
        "What does the signature promise, and in which order? A row of x has D numbers; how many has the row "
        "that x @ W makes of it?"
    ),
)
def test_shapes(student: Student, rng: Draws) -> None:
    for name, found in zip("QKV", project_each(student, rng.normal(B, T, D), *_square(rng)), strict=True):
        expect_shape(found, (B, T, D), name)
    project_each(student, *draw(rng))  # other widths: it runs; what they should be is said one by one below


def _square(rng: Draws) -> list[torch.Tensor]:
    return [rng.normal(D, D) for _ in WIDTHS]


def _expect_projection(student: Student, rng: Draws, place: int) -> None:
    x, *matrices = draw(rng)
    for these in (matrices, _square(rng)):
        found = project_each(student, x, *these)
        expect_close(found[place], reference(x, *these)[place], "QKV"[place], AXES)


@check(
    points=0.5,
    title=N_("Q is x times W_q"),
    hint=N_(
        "Take a word of two numbers and a 2 × 2 matrix, and work out by hand what x @ W_q is. Does anything "
        "else happen to it?"
    ),
    needs="shapes",
)
def test_queries(student: Student, rng: Draws) -> None:
    _expect_projection(student, rng, 0)


@check(
    points=0.5,
    title=N_("K is x times W_k"),
    hint=N_("Which matrix makes the keys, and which place do they have among the three results?"),
    needs="shapes",
)
def test_keys(student: Student, rng: Draws) -> None:
    _expect_projection(student, rng, 1)


@check(
    points=0.5,
    title=N_("V is x times W_v"),
    hint=N_("Which matrix makes the values, and which place do they have among the three results?"),
    needs="shapes",
)
def test_values(student: Student, rng: Draws) -> None:
    _expect_projection(student, rng, 2)


@check(
    points=0.5,
    title=N_("Any leading axes will do: one word, one sentence, a batch, a batch of batches"),
    hint=N_("Which of your steps counts axes from the front, or writes down a size that it could ask for?"),
    needs=("queries", "keys", "values"),
)
def test_leading_axes(student: Student, rng: Draws) -> None:
    x, *matrices = draw(rng)
    for shaped in (
        x[0],
        x,
        x[:1],
        x[:, :1],
        torch.stack([x, x.flip(0), x.flip(1)]),
        x.mT.contiguous().mT,
        x[..., :1],
    ):
        narrowed = [W[: shaped.shape[-1]] for W in matrices]
        expected = reference(shaped, *narrowed)
        for name, seen, wanted in zip("QKV", project(student, shaped, *narrowed), expected, strict=True):
            what = Message(N_("{name} for x of shape {shape}"), {"name": name, "shape": str(tuple(shaped.shape))})
            expect_close(seen, wanted, what)


@check(
    points=0.5,
    title=N_("float32, float64 and bfloat16 go in, and the same comes out"),
    hint=N_("Does one of your steps make a new tensor? Which dtype does it get?"),
    needs="shapes",
)
def test_dtypes(student: Student, rng: Draws) -> None:
    inputs = draw(rng)
    found = {}
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        found[dtype] = project_each(student, *(x.to(dtype) for x in inputs))
        for name, part in zip("QKV", found[dtype], strict=True):
            expect_dtype(part, dtype, name)
            expect_finite(part, name, AXES)
    # Whether the numbers are right is said above, for float64: here, that they are the same.
    for name, part, exact in zip("QKV", found[torch.float32], found[torch.float64], strict=True):
        expect_close(part, exact, Message(N_("{name} in float32"), {"name": name}), AXES)


@check(
    points=0.5,
    title=N_("Gradients reach x and all three matrices"),
    hint=N_(
        "Call backward() on the sum of your results, and print W_q.grad, W_k.grad and W_v.grad. Which of "
        "your steps leaves the graph?"
    ),
    needs=("queries", "keys", "values"),
)
def test_gradients(student: Student, rng: Draws) -> None:
    x, W_q, W_k, W_v = (tensor.requires_grad_() for tensor in draw(rng))
    inputs = {"x": x, "W_q": W_q, "W_k": W_k, "W_v": W_v}
    found, expected = project_each(student, x, W_q, W_k, W_v), reference(x, W_q, W_k, W_v)
    for name, seen, wanted in zip("QKV", found, expected, strict=True):
        expect_gradients(seen, wanted, inputs, rng.normal(*wanted.shape), name)


@check(
    points=0.5,
    title=N_("The inputs stay as they were, and the same call gives the same again"),
    hint=N_("Print x before and after the call. Which of your steps writes into a tensor that it was given?"),
    needs="shapes",
)
def test_hygiene(student: Student, rng: Draws) -> None:
    x, *matrices = draw(rng)
    first = project_each(student, x, *matrices)
    project_each(student, rng.normal(3, 2, 5), *(rng.normal(5, width) for width in (2, 2, 4)))
    second = project_each(student, x, *matrices)
    expect_inputs_unchanged(student.changed_inputs)
    for name, seen, wanted in zip("QKV", second, first, strict=True):
        expect_close(seen, wanted, Message(N_("{name} of the second call with the same inputs"), {"name": name}), AXES)
