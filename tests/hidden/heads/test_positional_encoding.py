"""Proves that an answer gives every position its pattern of waves: ``(T, D)``, sines in even columns, cosines in odd.

Which wave is where, and whether the waves are right, are asked apart. Position 0 tells sines (0 there) from cosines
(1 there), so that waves in other columns can be compared with those that they are; a table that begins one position
late is compared with what comes one position later.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch

from autograder.suite import (
    N_,
    Draws,
    Student,
    StudentRaised,
    Unsupported,
    ask,
    check,
    expect_finite,
    expect_shape,
    fail,
    results,
)

ENCODING = N_("encoding")
AXES = (N_("position"), N_("column"))
BASE, ATOL = 10_000, 1e-4
LONGEST, BEGINNING, STEADY = 512, 16, 1e-2
"""Positions of a long table; those that tell how it begins; by how much a wave may leave its course."""


@functools.cache
def reference(T: int, D: int) -> torch.Tensor:
    """Entry by entry, in Python's own arithmetic; float64."""
    rows = []
    for position in range(T):
        angles = [position / BASE ** (pair / D) for pair in range(0, D, 2)]
        rows.append([wave(angle) for angle in angles for wave in (math.sin, math.cos)])
    return torch.tensor(rows, dtype=torch.float64)


def sizes(rng: Draws) -> tuple[int, int]:
    """T and D: neither is the other, or half of it, or twice."""
    positions, width = (9, 11, 13), (8, 10, 12, 14)
    return positions[int(rng.integers(len(positions)))], width[int(rng.integers(len(width)))]


class Waves(NamedTuple):
    """An encoding, taken apart.

    Attributes:
        sines, cosines: (T, D/2) each, in the order of their columns.
        start: the position that the first row belongs to, as far as it looks like one: 0 or 1.
    """

    sines: torch.Tensor
    cosines: torch.Tensor
    start: int


def unpack(value: Any, shape: tuple[int, int] | None = None) -> torch.Tensor:
    """The one tensor that a call returned, of this shape if one is given."""
    (encoding,) = results(value if value is None else (value,), encoding=shape)
    return encoding


def encode_anyhow(student: Student, T: int, D: int) -> torch.Tensor:
    """The student's (T, D) in float64, also where it came transposed, or with a leading axis of size 1."""
    encoding = unpack(ask(student, T, D))
    shape = tuple(encoding.shape)
    if shape == (1, T, D):
        encoding = encoding[0]
    elif shape == (D, T):
        encoding = encoding.T
    expect_shape(encoding, (T, D), ENCODING)
    expect_finite(encoding, ENCODING, AXES)
    return encoding.detach().double()


def taken_apart(encoding: torch.Tensor) -> Waves:
    """The waves of an encoding; by their columns where position 0 does not tell which is which."""
    width, first = encoding.shape[1], encoding[0]
    zeros, ones = first.abs() < ATOL, (first - 1).abs() < ATOL
    if int(zeros.sum()) == int(ones.sum()) == width // 2:
        return Waves(encoding[:, zeros], encoding[:, ones], 0)
    late = (first - reference(2, width)[1]).abs().max() < ATOL
    return Waves(encoding[:, ::2], encoding[:, 1::2], int(late))


def expected_waves(waves: Waves) -> Waves:
    """What a table that begins where this one does should hold."""
    length, pairs = waves.sines.shape
    right = reference(length + waves.start, 2 * pairs)[waves.start :]
    return Waves(right[:, ::2], right[:, 1::2], waves.start)


def expect_steady(waves: torch.Tensor, start: int) -> None:
    """Each column of (T, D) goes on as it began: x[t + 1] + x[t - 1] of a wave is one multiple of x[t], everywhere."""
    outer, inner = waves[2:] + waves[:-2], waves[1:-1]
    first = slice(BEGINNING)
    multiple = (outer[first] * inner[first]).sum(0) / (inner[first] ** 2).sum(0).clamp(min=1e-30)
    wrong = (outer - multiple * inner).abs() > STEADY
    if wrong.any():
        fail(N_("your encoding does not go on as it began (T = {positions}): a wave breaks off near position "
                "{position}"), positions=len(waves), position=start + 1 + int(wrong.any(1).int().argmax()))  # fmt: skip


def expect_same(says: str, found: torch.Tensor, expected: torch.Tensor, start: int) -> None:
    """(T, D/2) each. `says` has ``{position}``, ``{pair}``, ``{seen}``, ``{expected}``, ``{count}`` and ``{total}``."""
    wrong = (found - expected).abs() > ATOL
    if wrong.any():
        row, pair = wrong.nonzero()[0].tolist()
        fail(says, position=start + row, pair=pair, seen=f"{float(found[row, pair]):.4f}",
             expected=f"{float(expected[row, pair]):.4f}", count=int(wrong.sum()), total=wrong.numel(),
             positions=len(found), width=2 * found.shape[1])  # fmt: skip


SINES = N_(
    "the sine of pair {pair} at position {position} is {seen}, expected {expected} (T = {positions}, D = {width}; "
    "{count} of {total} sines differ)"
)
COSINES = N_(
    "the cosine of pair {pair} at position {position} is {seen}, expected {expected} (T = {positions}, D = {width}; "
    "{count} of {total} cosines differ)"
)


@check(
    points=0.5,
    title=N_("One table comes back, the same at every call, and positions differ in it"),
    hint=N_("Print what your function returns for T = 3 and D = 8, twice. How many numbers should that be?"),
)
def test_table(student: Student, rng: Draws) -> None:
    T, D = sizes(rng)
    first, second = encode_anyhow(student, T, D), encode_anyhow(student, T, D)
    if (first == first[0]).all():
        fail(N_("all {T} rows of your encoding are alike: no position can be told from another"), T=T)
    if not torch.equal(first, second):
        fail(N_("two calls with T = {T} and D = {D} give two different encodings"), T=T, D=D)


@check(
    points=0.5,
    title=N_("A row for every position, a column for every feature: (T, D)"),
    hint=N_(
        "Print the shape of your encoding for T = 3 and D = 8. To be added to three words of eight features each, "
        "which shape does it need?"
    ),
    needs="table",
)
def test_shape(student: Student, rng: Draws) -> None:
    for T, D in (sizes(rng), (6, 6)):
        encoding = unpack(ask(student, T, D), (T, D))
        expect_finite(encoding, ENCODING, AXES)


@check(
    points=1,
    title=N_("Sines stand in even columns, cosines in odd ones: position 0 is 0, 1, 0, 1, …"),
    hint=N_(
        "Print the first row, with D = 6. Its angles are all 0: what are the sine and the cosine of that, and in "
        "which columns do they belong?"
    ),
    needs="table",
)
def test_position_zero(student: Student, rng: Draws) -> None:
    T, D = sizes(rng)
    first = encode_anyhow(student, T, D)[0]
    expected = torch.tensor([0.0, 1.0] * (D // 2), dtype=torch.float64)
    wrong = (first - expected).abs() > ATOL
    if wrong.any():
        fail(N_("your encoding at position 0 begins with {seen}, …, expected {expected}, … ({count} of {total} columns "
                "differ)"),
             seen=_row(first), expected=_row(expected), count=int(wrong.sum()), total=D)  # fmt: skip


def _row(row: torch.Tensor) -> str:
    return ", ".join(f"{float(entry):.3g}" for entry in row[:4])


@check(
    points=1,
    title=N_("The sine of pair i turns by 10000^(-2i/D) from one position to the next"),
    hint=N_(
        "With D = 4 there are two pairs, and 10000 to the power of -2/4 is 0.01. Print the first rows: by what does "
        "the angle grow in column 0, and by what in column 2?"
    ),
    needs="table",
)
def test_sines(student: Student, rng: Draws) -> None:
    waves = taken_apart(encode_anyhow(student, *sizes(rng)))
    expect_same(SINES, waves.sines, expected_waves(waves).sines, waves.start)


@check(
    points=1,
    title=N_("The cosine of pair i turns as its sine should"),
    hint=N_(
        "Columns 2i and 2i + 1 share one angle. Square both and add them up: what must come out at every position? "
        "If that is right already, look at the angles themselves."
    ),
    needs="table",
)
def test_cosines(student: Student, rng: Draws) -> None:
    waves = taken_apart(encode_anyhow(student, *sizes(rng)))
    expect_same(COSINES, waves.cosines, expected_waves(waves).cosines, waves.start)


@check(
    points=0.5,
    title=N_("A long table holds as well: 512 positions"),
    hint=N_(
        "Compare the last row for T = 512 with what Python's math.sin says. In which dtype are your positions and "
        "angles, and how many positions is the table made for?"
    ),
    needs="table",
)
def test_long(student: Student, rng: Draws) -> None:
    encoding = encode_anyhow(student, LONGEST, sizes(rng)[1])
    waves = taken_apart(encoding)
    expected = expected_waves(waves)
    halves = (waves.sines, expected.sines), (waves.cosines, expected.cosines)
    if any((seen[:BEGINNING] - right[:BEGINNING]).abs().max() > ATOL for seen, right in halves):
        expect_steady(encoding, waves.start)  # how it begins was paid for
        return
    expect_same(SINES, waves.sines, expected.sines, waves.start)
    expect_same(COSINES, waves.cosines, expected.cosines, waves.start)


@check(
    points=0.5,
    title=N_("Any size will do: one position, one pair of columns"),
    hint=N_("Try T = 1 and D = 2, apart and together. Which of your steps loses an axis of size 1?"),
    needs="table",
)
def test_sizes(student: Student, rng: Draws) -> None:
    T, D = sizes(rng)
    for shape in ((1, D), (T, 2), (1, 2)):
        encode_anyhow(student, *shape)


@check(
    points=0.5,
    title=N_("The encoding is float32"),
    hint=N_("Print the dtype of your encoding. Which of your steps brings another one in?"),
    needs="table",
)
def test_dtype(student: Student, rng: Draws) -> None:
    encoding = unpack(ask(student, *sizes(rng)))
    if encoding.dtype != torch.float32:
        fail(N_("the dtype of your encoding is {seen}, expected float32"),
             seen=str(encoding.dtype).removeprefix("torch."))  # fmt: skip


@check(
    points=0.5,
    title=N_("An odd D is refused with a ValueError"),
    hint=N_("Seven columns can't be shared out in pairs. What does your answer do then, and who would notice?"),
    needs="table",
)
def test_odd(student: Student, rng: Draws) -> None:
    T, D = sizes(rng)
    encode_anyhow(student, T, D)  # who refuses everything refuses nothing
    for width in (D - 1, 1):
        try:
            found = ask(student, T, width)
        except StudentRaised as raised:
            if not is_refusal(raised):
                fail(N_("with D = {D} your function raises {seen}, expected ValueError"),
                     D=width, seen=raised.type_name)  # fmt: skip
        else:
            _fail_for_result(found, width)


def is_refusal(raised: StudentRaised) -> bool:
    """A ValueError or AssertionError, also where TorchScript has wrapped it into an error of its own."""
    refusals = {"ValueError", "AssertionError"}
    wrapped = raised.type_name == "Error" and any(name in raised.message for name in refusals)
    return wrapped or not refusals.isdisjoint(raised.bases)


def _fail_for_result(found: object, width: int) -> None:
    if isinstance(found, torch.Tensor):
        fail(N_("with D = {D} your function returns a tensor of shape {seen}, expected ValueError"),
             D=width, seen=str(tuple(found.shape)))  # fmt: skip
    if isinstance(found, Unsupported) and found.type_name.endswith(("ValueError", "AssertionError")):
        fail(N_("with D = {D} your function returns a {seen} as its result, and an error has to be raised"),
             D=width, seen=found.type_name)  # fmt: skip
    fail(N_("with D = {D} your function ends without an error, expected ValueError"), D=width)
