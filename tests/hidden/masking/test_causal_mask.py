"""Proves that an answer hides the future: ``(T, T)`` bool, True where the key comes after the query.

Above the diagonal, on it and below it are looked at one by one, so that an answer that is off by one loses what it
is off by. The dtype has a check of its own: zeros and ones are read as False and True everywhere else.
"""

from __future__ import annotations

from typing import Any

import torch

from autograder.suite import N_, Draws, Student, check, fail, results


def reference(T: int) -> torch.Tensor:
    """The mask, place by place, in plain Python."""
    return torch.tensor([[key > query for key in range(T)] for query in range(T)])


def sizes(rng: Draws) -> tuple[int, int]:
    """Two different lengths, the smaller one at least 4."""
    small = 4 + int(rng.normal(3).argmax())
    return small, small + 2


def mask_of(student: Student, T: int) -> torch.Tensor:
    """The student's mask, of the right shape."""
    value: Any = student(T)
    (mask,) = results((value,), mask=(T, T))
    return mask


def expect_mask(mask: torch.Tensor, where: torch.Tensor, says: str) -> None:
    """As the reference has it at all places of `where`; otherwise a sentence with the first that differs."""
    seen, expected = mask != 0, reference(len(mask))
    wrong = (where & (seen != expected)).nonzero()
    if len(wrong):
        query, key = wrong[0].tolist()
        fail(says, query=query, key=key, count=len(wrong), total=int(where.sum()))


@check(
    points=0.5,
    title=N_("A row for every query, a column for every key"),
    hint=N_("For a sentence of T words the mask is a square table. How many rows and how many columns has yours?"),
)
def test_shape(student: Student, rng: Draws) -> None:
    for T in sizes(rng):
        mask_of(student, T)


@check(
    points=1,
    title=N_("The future is hidden: True at every key after the query"),
    hint=N_("Row 0 belongs to the first word. Which words may it not see yet, and what stands at their columns?"),
    needs="shape",
)
def test_future(student: Student, rng: Draws) -> None:
    for T in sizes(rng):
        expect_mask(
            mask_of(student, T),
            reference(T),
            N_(
                "your mask at query {query}, key {key}: False, expected True, since the key comes after the query "
                "({count} of {total} places in the future are not hidden)"
            ),
        )


@check(
    points=1,
    title=N_("The past is free: False at every key before the query"),
    hint=N_("Row 3 belongs to the fourth word. Which words came before it, and may it look at them?"),
    needs="future",
)
def test_past(student: Student, rng: Draws) -> None:
    for T in sizes(rng):
        expect_mask(
            mask_of(student, T),
            reference(T).T,
            N_(
                "your mask at query {query}, key {key}: True, expected False, since the key comes before the query "
                "({count} of {total} places in the past are hidden)"
            ),
        )


@check(
    points=0.5,
    title=N_("Each word may look at itself"),
    hint=N_("If the first word could not even see itself, what would be left for it to look at?"),
    needs="shape",
)
def test_itself(student: Student, rng: Draws) -> None:
    for T in sizes(rng):
        expect_mask(
            mask_of(student, T),
            torch.eye(T, dtype=torch.bool),
            N_(
                "your mask at query {query}, key {key}: True, expected False, since a word may look at itself "
                "({count} of {total} words may not)"
            ),
        )


@check(
    points=0.5,
    title=N_("The mask holds True and False (dtype bool)"),
    hint=N_("Print mask.dtype. Does it come from a comparison, or from a tensor of numbers that you made?"),
    needs="shape",
)
def test_dtype(student: Student, rng: Draws) -> None:
    mask = mask_of(student, sizes(rng)[0])
    if mask.dtype != torch.bool:
        fail(N_("the dtype of your mask is {seen}, expected bool"), seen=str(mask.dtype).removeprefix("torch."))


@check(
    points=0.5,
    title=N_("Any length will do, one word too, and the same call gives the same again"),
    hint=N_("Try T = 1 and T = 2, print the masks, and compare them with the corner of a larger one."),
    needs=("future", "past", "itself"),
)
def test_any_length(student: Student, rng: Draws) -> None:
    for T in (1, 2, 7, 12, 1):
        seen, expected = mask_of(student, T) != 0, reference(T)
        wrong = (seen != expected).nonzero()
        if len(wrong):
            query, key = wrong[0].tolist()
            fail(N_("your mask for {T} words at query {query}, key {key}: {seen}, expected {expected}"),
                 T=T, query=query, key=key, seen=str(bool(seen[query, key])),
                 expected=str(bool(expected[query, key])))  # fmt: skip
