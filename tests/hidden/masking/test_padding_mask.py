"""Proves that an answer marks the padding of a batch: ``(B, max_len)`` bool, True where no word stands.

The base case is a `max_len` that equals the longest sentence: it suits an answer that ignores `max_len`, and one
that needs it. What `max_len` does otherwise is asked in checks of its own, and so is the dtype: zeros and ones are
read as False and True everywhere else.
"""

from __future__ import annotations

from typing import Any

import torch

from autograder.suite import (
    N_,
    Draws,
    Student,
    StudentRaised,
    ask,
    check,
    expect_inputs_unchanged,
    fail,
    results,
)

SQUARE, LENGTHS = (1, 2, 3, 4), (2, 7, 4, 5, 1)


def reference(lengths: torch.Tensor, max_len: int | None = None) -> torch.Tensor:
    """The mask, place by place, in plain Python."""
    ns = lengths.tolist()
    return torch.tensor([[place >= n for place in range(max_len or max(ns))] for n in ns])


def draw(rng: Draws, lengths: tuple[int, ...] = LENGTHS) -> torch.Tensor:
    """These lengths in a random order, neither rising nor falling; the first tells nothing of the size of the mask."""
    while True:
        shuffled = rng.shuffled(lengths)
        if int(shuffled[0]) not in (max(lengths), len(lengths)):
            return shuffled


def mask_of(student: Student, lengths: torch.Tensor, *max_len: int) -> torch.Tensor:
    """The student's mask, of the right shape. A copy is passed: a change does not pile up."""
    return _unpack(ask(student, lengths, *max_len), lengths, *max_len)


def _unpack(value: Any, lengths: torch.Tensor, *max_len: int) -> torch.Tensor:
    width = max_len[0] if max_len else int(lengths.max())
    (mask,) = results((value,), mask=(len(lengths), width))
    return mask


def tight_mask(student: Student, lengths: torch.Tensor) -> torch.Tensor:
    """The mask for a `max_len` that is the longest; without `max_len` where the function takes none."""
    try:
        return mask_of(student, lengths, int(lengths.max()))
    except StudentRaised as raised:
        try:
            return mask_of(student, lengths)
        except StudentRaised:
            raise raised from None


def expect_mask(mask: torch.Tensor, lengths: torch.Tensor) -> None:
    """True at the padding and only there, whatever the dtype."""
    seen, expected = mask != 0, reference(lengths, mask.shape[1])
    wrong = (seen != expected).nonzero()
    if len(wrong):
        b, place = wrong[0].tolist()
        fail(
            N_(
                "your mask at sentence {b} (length {length}), place {place}: {seen}, expected {expected} "
                "({count} of {total} entries differ)"
            ),
            b=b,
            length=int(lengths[b]),
            place=place,
            seen=str(bool(seen[b, place])),
            expected=str(bool(expected[b, place])),
            count=len(wrong),
            total=mask.numel(),
        )


@check(
    points=0.5,
    title=N_("A row for every sentence, a column for every place"),
    hint=N_(
        "Lengths 1 and 3: draw the table of words and empty places on paper. How many rows has it, how many columns?"
    ),
)
def test_shape(student: Student, rng: Draws) -> None:
    # Equal sizes first: there nearly every slip runs, and shows which one it is.
    tight_mask(student, draw(rng, SQUARE))
    tight_mask(student, draw(rng))


@check(
    points=1,
    title=N_("True stands at the padding, and only there"),
    hint=N_("Take one sentence of 2 words and max_len 4, and write its row by hand. Which places hold a word?"),
    needs="shape",
)
def test_values(student: Student, rng: Draws) -> None:
    for these in (SQUARE, LENGTHS):
        lengths = draw(rng, these)
        expect_mask(tight_mask(student, lengths), lengths)


@check(
    points=0.5,
    title=N_("The mask holds True and False (dtype bool)"),
    hint=N_("Print mask.dtype. Does it come from a comparison, or from a tensor of numbers that you made?"),
    needs="shape",
)
def test_dtype(student: Student, rng: Draws) -> None:
    mask = tight_mask(student, draw(rng))
    if mask.dtype != torch.bool:
        fail(N_("the dtype of your mask is {seen}, expected bool"), seen=str(mask.dtype).removeprefix("torch."))


@check(
    points=0.5,
    title=N_("Without max_len the mask is as long as the longest sentence"),
    hint=N_("What is max_len when nobody gives one? Which of the lengths says how many places the mask needs then?"),
    needs="values",
)
def test_default_length(student: Student, rng: Draws) -> None:
    for these in (LENGTHS, SQUARE, (3, 2, 6)):
        lengths = draw(rng, these)
        expect_mask(mask_of(student, lengths), lengths)
    lengths = draw(rng)
    expect_mask(_unpack(ask(student, lengths, max_len=None), lengths), lengths)


@check(
    points=0.5,
    title=N_("With a larger max_len there is padding after the longest sentence too"),
    hint=N_("Ask for max_len = 10 and print the mask's shape, and its last columns. What should stand there?"),
    needs="values",
)
def test_max_len(student: Student, rng: Draws) -> None:
    for more in (1, 6):
        lengths = draw(rng)
        width = max(LENGTHS) + more
        expect_mask(mask_of(student, lengths, width), lengths)
    by_name = _unpack(ask(student, lengths, max_len=width), lengths, width)
    expect_mask(by_name, lengths)


@check(
    points=0.5,
    title=N_("Any batch will do: one sentence, one word, no padding at all"),
    hint=N_("Try a batch of one sentence, and one in which all sentences are equally long. Which axis gets lost?"),
    needs="values",
)
def test_any_batch(student: Student, rng: Draws) -> None:
    every_other = draw(rng, (3, 6, 2, 5, 4, 1))[::2]
    for lengths in (torch.tensor([3]), torch.tensor([1]), torch.tensor([4, 4]), torch.tensor([1, 1, 1]), every_other):
        expect_mask(tight_mask(student, lengths), lengths)


@check(
    points=0.5,
    title=N_("The lengths stay as they were, and the same call gives the same again"),
    hint=N_("Print lengths before and after the call. Which of your steps writes into a tensor that it was given?"),
    needs="values",
)
def test_hygiene(student: Student, rng: Draws) -> None:
    lengths, longest = draw(rng), max(LENGTHS)
    before = lengths.clone()
    for again in (False, True):
        mask = _unpack(_tight(student, lengths, longest), before, longest)
        expect_inputs_unchanged(student.changed_inputs)
        expect_mask(mask, before)
        if not again:
            tight_mask(student, draw(rng, (2, 9, 3)))


def _tight(student: Student, lengths: torch.Tensor, longest: int) -> Any:
    """As `tight_mask`, with the tensor itself."""
    try:
        return student(lengths, longest)
    except StudentRaised:
        return student(lengths)
