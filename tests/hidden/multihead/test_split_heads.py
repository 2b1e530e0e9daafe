"""Proves that an answer cuts each word's features into heads: ``(B, T, E)`` to ``(B, H, T, E/H)``.

Every number of a batch differs from every other, so that a wrong place can be told by where its number came from.
Whether words stay apart and whether a head is a block of neighbouring features are asked apart: an interleaved
cut keeps the words, and a `view` without a transposition keeps neither. Axes in another order are paid for once:
the checks that look at numbers put them right first, by their sizes, which all differ.
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
    is_refusal,
    results,
)

B, T, H, D = 2, 5, 3, 4
HEADS = N_("heads")
AXES = (N_("head"), N_("word"), N_("column"))
WIDTH, UNEVEN = 10, 3
"""A width, and a number of heads that does not divide it."""


def reference(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Head by head, the block of features that it is."""
    width = x.shape[-1] // num_heads
    return torch.stack([x[..., h * width : (h + 1) * width] for h in range(num_heads)], dim=1)


def numbered(b: int = B, t: int = T, heads: int = H, d: int = D) -> torch.Tensor:
    """(B, T, H·d): all entries differ, and an entry's value is its place."""
    return torch.arange(b * t * heads * d, dtype=torch.float64).view(b, t, heads * d)


def split(student: Student, x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """The student's heads, of the right shape. A copy is passed: a change does not pile up."""
    return _unpack(ask_exactly(student, x, num_heads), x, num_heads)


def split_anyhow(student: Student, x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """As `split`, with axes in any order put right: no two sizes are equal."""
    return in_order(ask_exactly(student, x, num_heads), x, num_heads)


def in_order(value: object, x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """What a call returned, as (B, H, T, E/H)."""
    due = _due(x, num_heads)
    (heads,) = results((value,), heads=None)
    if sorted(heads.shape) != sorted(due):
        expect_shape(heads, due, HEADS)
    return heads.permute([heads.shape.index(size) for size in due])


def _unpack(value: object, x: torch.Tensor, num_heads: int) -> torch.Tensor:
    (heads,) = results((value,), heads=_due(x, num_heads))
    return heads


def _due(x: torch.Tensor, num_heads: int) -> tuple[int, int, int, int]:
    b, t, width = x.shape
    return b, num_heads, t, width // num_heads


def sources(heads: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    """For each entry of the heads of a `numbered` batch: the sentence, the word and the feature that it was."""
    expect_finite(heads, HEADS, AXES)
    places = heads.detach().double()
    strange = ((places - places.round()).abs() > 1e-6) | (places < 0) | (places > x.numel() - 1)
    if strange.any():
        place = strange.nonzero()[0].tolist()
        fail(N_("your result at [{place}] is {seen}, which stands nowhere in x: numbers move, they do not change"),
             place=_indices(place), seen=f"{float(heads[tuple(place)]):.4g}")  # fmt: skip
    return list(torch.unravel_index(places.round().long(), x.shape))


def expect_from(heads: torch.Tensor, x: torch.Tensor, wrong: torch.Tensor) -> None:
    """No entry is wrong; the sentence tells where the first such one came from, and what belongs there."""
    places = wrong.nonzero()
    if len(places):
        b, h, t, column = place = places[0].tolist()
        origin = [int(axis[tuple(place)]) for axis in sources(heads, x)]
        due = [b, t, h * heads.shape[-1] + column]
        fail(N_("your result at [{place}] is x[{seen}], expected x[{expected}] ({count} of {total} entries differ)"),
             place=_indices(place), seen=_indices(origin), expected=_indices(due),
             count=len(places), total=wrong.numel())  # fmt: skip


def _indices(place: list[int]) -> str:
    return ", ".join(map(str, place))


@check(
    points=0.5,
    title=N_("One tensor comes back, with axes for sentences, heads, words, and E/H columns"),
    hint=N_("Two sentences of five words with 12 features each, and three heads: which four sizes has the result?"),
)
def test_axes(student: Student, rng: Draws) -> None:
    # With equal sizes nearly every slip runs, and shows which one it is; what is told are sizes that differ.
    with contextlib.suppress(CheckFailed, StudentRaised):
        split(student, numbered(4, 4, 4, 4), 4)
    split_anyhow(student, numbered(), H)


@check(
    points=0.5,
    title=N_("The axes stand in the order (B, H, T, E/H)"),
    hint=N_("Print the shape after each step. Which two axes change places when heads come before words?"),
    needs="axes",
)
def test_order(student: Student, rng: Draws) -> None:
    split(student, numbered(), H)


@check(
    points=1,
    title=N_("Every head holds a piece of every word, and each word has a row of its own"),
    hint=N_(
        "Split torch.arange(24) as one sentence of 4 words into 2 heads, and print head 0. Is it the first half of "
        "all four words, or all of the first two?"
    ),
    needs="axes",
)
def test_words(student: Student, rng: Draws) -> None:
    x = numbered()
    found = split_anyhow(student, x, H)
    sentence, word, _ = sources(found, x)
    wrong = (sentence != torch.arange(B).view(B, 1, 1, 1)) | (word != torch.arange(T).view(T, 1))
    expect_from(found, x, wrong)


@check(
    points=1,
    title=N_("Head h holds the features from h·E/H up to (h+1)·E/H, in their order"),
    hint=N_(
        "Split one word with the features 0, 1, 2, 3, 4, 5 into two heads. Which three numbers belong to head 0? "
        "Are they neighbours in x?"
    ),
    needs="axes",
)
def test_blocks(student: Student, rng: Draws) -> None:
    for x, heads in ((numbered(), H), (numbered(b=3, t=4, heads=2, d=6), 2)):
        found = split_anyhow(student, x, heads)
        *_, feature = sources(found, x)
        expect_from(found, x, feature != torch.arange(x.shape[-1]).view(heads, 1, -1))


@check(
    points=0.5,
    title=N_("Heads that don't come out even are refused"),
    hint=N_("Ten features, three heads: what does your answer do then? Who calls it should be stopped by an error."),
)
def test_uneven(student: Student, rng: Draws) -> None:
    ask_exactly(student, rng.normal(B, T, 10), 2)  # who refuses everything refuses nothing
    try:
        found = ask_exactly(student, rng.normal(B, T, WIDTH), UNEVEN)
    except StudentRaised:
        return
    if not isinstance(found, torch.Tensor):
        fail(N_("with {width} features and {heads} heads your function ends without an error, expected ValueError"),
             width=WIDTH, heads=UNEVEN)  # fmt: skip
    fail(N_("with {width} features and {heads} heads your function returns a tensor of shape {seen}, expected "
            "ValueError"), width=WIDTH, heads=UNEVEN, seen=str(tuple(found.shape)))  # fmt: skip


@check(
    points=0.5,
    title=N_("The refusal is a ValueError of your own"),
    hint=N_(
        "Ask before you cut: what is the remainder of E divided by the number of heads, and when is it a problem? Then "
        "raise a ValueError with a text of yours."
    ),
    needs="uneven",
)
def test_value_error(student: Student, rng: Draws) -> None:
    for width, heads in ((WIDTH, UNEVEN), (2, 4)):
        try:
            found = ask_exactly(student, rng.normal(B, T, width), heads)
        except StudentRaised as raised:
            if not is_refusal(raised):
                fail(N_("with {width} features and {heads} heads your function raises {seen}, expected ValueError"),
                     width=width, heads=heads, seen=raised.type_name)  # fmt: skip
        else:
            seen = str(tuple(found.shape)) if isinstance(found, torch.Tensor) else type(found).__name__
            fail(N_("with {width} features and {heads} heads your function returns a result ({seen}), expected "
                    "ValueError"), width=width, heads=heads, seen=seen)  # fmt: skip


@check(
    points=0.5,
    title=N_("Any size will do: one sentence, one word, one head, a head for every feature"),
    hint=N_("Which of your steps loses an axis of size 1, or writes down a size that it could ask for?"),
    needs=("order", "words", "blocks"),
)
def test_sizes(student: Student, rng: Draws) -> None:
    x = rng.normal(B, T, H * D)
    by_column = x.mT.contiguous().mT
    for batch, heads in (
        (x, 1),
        (x, H * D),
        (x[:1], H),
        (x[:, :1], H),
        (x[:1, :1, :1], 1),
        (by_column, H),
    ):
        what = Message(N_("heads for x of shape {shape} and num_heads = {heads}"),
                       {"shape": str(tuple(batch.shape)), "heads": heads})  # fmt: skip
        expect_close(split(student, batch, heads), reference(batch, heads), what, AXES)


@check(
    points=0.5,
    title=N_("float32, float64 and bfloat16 go in, and the same comes out"),
    hint=N_("Does one of your steps make a new tensor? Which dtype does it get?"),
    needs="axes",
)
def test_dtypes(student: Student, rng: Draws) -> None:
    x = rng.normal(B, T, H * D)
    found = {}
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        found[dtype] = in_order(ask(student, x.to(dtype), H), x, H)
        expect_dtype(found[dtype], dtype, HEADS)
        expect_finite(found[dtype], HEADS, AXES)
    # Whether the numbers are right is said above: here, that they are the same.
    expect_close(found[torch.float32], found[torch.float64], N_("heads in float32"), AXES)


@check(
    points=0.5,
    title=N_("Gradients find their way back to x"),
    hint=N_("Call backward() on the sum of your result, and print x.grad. Which of your steps leaves the graph?"),
    needs=("words", "blocks"),
)
def test_gradients(student: Student, rng: Draws) -> None:
    x = rng.normal(B, T, H * D).requires_grad_()
    found, expected = split_anyhow(student, x, H), reference(x, H)
    expect_gradients(found, expected, {"x": x}, rng.normal(*expected.shape), HEADS)


@check(
    points=0.5,
    title=N_("x stays as it was, and the same call gives the same again"),
    hint=N_("Print x and its shape before and after the call. Which of your steps has an underscore at its end?"),
    needs="axes",
)
def test_hygiene(student: Student, rng: Draws) -> None:
    x = rng.normal(B, T, H * D, dtype=torch.float32)
    first = in_order(student(x, H), x, H).clone()
    expect_inputs_unchanged(student.changed_inputs)
    split_anyhow(student, rng.normal(5, 2, 12), 4)
    again = in_order(student(x, H), x, H)
    expect_inputs_unchanged(student.changed_inputs)
    expect_close(again, first, N_("heads of the second call with the same x"), AXES)
