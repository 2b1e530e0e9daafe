"""Proves that an answer puts heads side by side again: ``(B, H, T, d)`` to ``(B, T, H·d)``.

How the heads lie in memory is a check of its own: everywhere else, an answer that can't read them as they are may
have them as a split leaves them. So is the last step: rows that are not flattened yet are read as if they were.
"""

from __future__ import annotations

import contextlib

import torch

from autograder.messages import Message
from autograder.suite import (
    N_,
    CheckFailed,
    Draws,
    Student,
    StudentRaised,
    ask,
    ask_exactly,
    check,
    expect_close,
    expect_dtype,
    expect_finite,
    expect_gradients,
    expect_inputs_unchanged,
    expect_shape,
    fail,
    results,
)

B, H, T, D = 2, 3, 5, 4
MERGED = N_("result")
AXES = (N_("word"), N_("column"))


def reference(x: torch.Tensor) -> torch.Tensor:
    """For every word, what each head says of it, one after the other."""
    return torch.cat(list(x.unbind(1)), dim=-1)


def numbered(b: int = B, heads: int = H, t: int = T, d: int = D) -> torch.Tensor:
    """(B, H, T, d): all entries differ, and an entry's value is its place."""
    return torch.arange(b * heads * t * d, dtype=torch.float64).view(b, heads, t, d)


def as_split(x: torch.Tensor) -> torch.Tensor:
    """The same heads, lying in memory as parts of whole words."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def merge(student: Student, x: torch.Tensor) -> torch.Tensor:
    """The student's result, of the right shape, for heads in an order of memory that suits it."""
    try:
        return _unpack(ask_exactly(student, x), x)
    except StudentRaised as raised:
        try:
            return _unpack(ask_exactly(student, as_split(x)), x)
        except StudentRaised:
            raise raised from None


def _unpack(value: object, x: torch.Tensor) -> torch.Tensor:
    b, heads, t, d = x.shape
    (merged,) = results((value,), result=None)
    if tuple(merged.shape) == (b, t, heads, d):
        return merged.reshape(b, t, -1)
    expect_shape(merged, (b, t, heads * d), MERGED)
    return merged


@check(
    points=0.5,
    title=N_("Something for every word of every sentence comes back: H·d numbers"),
    hint=N_("Three heads of width 4 speak of five words: how many rows has the result for one sentence, how wide?"),
)
def test_rows(student: Student, rng: Draws) -> None:
    # With equal sizes nearly every slip runs, and shows which one it is; what is told are sizes that differ.
    with contextlib.suppress(CheckFailed, StudentRaised):
        merge(student, numbered(4, 4, 4, 4))
    merge(student, numbered())


@check(
    points=1,
    title=N_("Every word gets its own rows of all heads back, side by side"),
    hint=N_(
        "Cut a batch of torch.arange numbers into heads and merge them: what should come back? Print it beside what "
        "does."
    ),
    needs="rows",
)
def test_values(student: Student, rng: Draws) -> None:
    for x in (numbered(4, 4, 4, 4), numbered(), numbered(heads=6, t=3, d=2)):
        found = merge(student, x)
        expect_finite(found, MERGED, AXES)
        expected = reference(x)
        wrong = ((found.detach().double() - expected).abs() > 1e-6).nonzero()
        if len(wrong):
            b, t, column = place = wrong[0].tolist()
            head, own = divmod(column, x.shape[-1])
            fail(N_("your result at [{place}] is {seen}, expected x[{expected}] ({count} of {total} entries differ)"),
                 place=_indices(place), seen=_origin(float(found[b, t, column]), x),
                 expected=_indices([b, head, t, own]), count=len(wrong), total=found.numel())  # fmt: skip


def _origin(value: float, x: torch.Tensor) -> Message:
    """Where in a `numbered` batch a value stands."""
    places = ((x - value).abs() < 1e-6).nonzero()
    if not len(places):
        return Message(N_("{seen}, which stands nowhere in x"), {"seen": f"{value:.4g}"})
    return Message(N_("x[{place}]"), {"place": _indices(places[0].tolist())})


def _indices(place: list[int]) -> str:
    return ", ".join(map(str, place))


@check(
    points=0.5,
    title=N_("It reads heads in any order of memory: fresh from a product, or as a split leaves them"),
    hint=N_(
        "Print x.is_contiguous() and x.transpose(1, 2).is_contiguous(). Which of your steps insists that the numbers "
        "lie one after the other?"
    ),
    needs="values",
)
def test_layouts(student: Student, rng: Draws) -> None:
    x = rng.normal(B, H, T, D)
    by_column = x.mT.contiguous().mT
    for heads, says in (
        (x, N_("result for heads that lie one after the other")),
        (as_split(x), N_("result for heads as a split leaves them")),
        (by_column, N_("result for heads that are stored column by column")),
        (x[:, :1].expand(B, H, T, D), N_("result for one head, expanded to all")),
    ):
        found = _unpack(_ask(student, heads), heads)
        expect_close(found, reference(heads), says, AXES)


def _ask(student: Student, x: torch.Tensor) -> object:
    """As `ask_exactly`; a copy would not keep the strides of an expanded tensor."""
    try:
        return student(x)
    except StudentRaised as raised:
        try:
            return student(x.float())
        except StudentRaised:
            raise raised from None


@check(
    points=0.5,
    title=N_("The result is (B, T, H·d) for any size: one sentence, one head, one word, heads of width 1"),
    hint=N_("Print the shape of your result. Which of your steps loses an axis of size 1, or leaves one too many?"),
    needs="values",
)
def test_sizes(student: Student, rng: Draws) -> None:
    x = rng.normal(B, H, T, D)
    for heads in (x, x[:1], x[:, :1], x[:, :, :1], x[..., :1], x[:1, :1, :1, :1]):
        heads = heads.contiguous()
        what = Message(N_("result for x of shape {shape}"), {"shape": str(tuple(heads.shape))})
        expect_close(_merged(student, heads), reference(heads), what, AXES)


def _merged(student: Student, x: torch.Tensor) -> torch.Tensor:
    """As `merge`, of any shape."""
    try:
        (merged,) = results((ask_exactly(student, x),), result=None)
    except StudentRaised as raised:
        try:
            (merged,) = results((ask_exactly(student, as_split(x)),), result=None)
        except StudentRaised:
            raise raised from None
    return merged


@check(
    points=0.5,
    title=N_("float32, float64 and bfloat16 go in, and the same comes out"),
    hint=N_("Does one of your steps make a new tensor? Which dtype does it get?"),
    needs="rows",
)
def test_dtypes(student: Student, rng: Draws) -> None:
    x = as_split(rng.normal(B, H, T, D))
    found = {}
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        found[dtype] = _in(student, x.to(dtype))
        expect_dtype(found[dtype], dtype, MERGED)
        expect_finite(found[dtype], MERGED, AXES)
    # Whether the numbers are right is said above: here, that they are the same.
    expect_close(found[torch.float32], found[torch.float64], N_("result in float32"), AXES)


def _in(student: Student, x: torch.Tensor) -> torch.Tensor:
    """As `merge`, in the dtype of x and no other."""
    try:
        return _unpack(ask(student, x), x)
    except StudentRaised as raised:
        try:
            return _unpack(ask(student, x.contiguous()), x)
        except StudentRaised:
            raise raised from None


@check(
    points=0.5,
    title=N_("Gradients find their way back to x"),
    hint=N_("Call backward() on the sum of your result, and print x.grad. Which of your steps leaves the graph?"),
    needs="values",
)
def test_gradients(student: Student, rng: Draws) -> None:
    x = rng.normal(B, H, T, D).requires_grad_()
    found, expected = merge(student, x), reference(x)
    expect_gradients(found, expected, {"x": x}, rng.normal(*expected.shape), MERGED)


@check(
    points=0.5,
    title=N_("x stays as it was, and the same call gives the same again"),
    hint=N_("Print x and its shape before and after the call. Which of your steps has an underscore at its end?"),
    needs="rows",
)
def test_hygiene(student: Student, rng: Draws) -> None:
    x = as_split(rng.normal(B, H, T, D, dtype=torch.float32))
    first = _again(student, x).clone()
    expect_inputs_unchanged(student.changed_inputs)
    merge(student, rng.normal(3, 2, 4, 5))
    found = _again(student, x)
    expect_inputs_unchanged(student.changed_inputs)
    expect_close(found, first, N_("result of the second call with the same x"), AXES)


def _again(student: Student, x: torch.Tensor) -> torch.Tensor:
    """The result for the tensor itself, not for a copy."""
    try:
        return _unpack(student(x), x)
    except StudentRaised as raised:
        try:
            return _unpack(student(x.contiguous()), x)
        except StudentRaised:
            raise raised from None
