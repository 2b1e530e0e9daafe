"""Proves that an answer gives every place its row of waves: ``(T, D)``, sines in even columns, cosines in odd ones.

What comes out, which wave is where, and whether the waves are right, are asked apart. Place 0 tells sines (0 there)
from cosines (1 there), so that waves in other columns can be compared with those that they are; a table that begins
one place late is compared with what comes one place later; wrong sines are what their cosines are compared with, so
that a wrong angle is paid for once. An answer that can make a table of one place only is asked about that one.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch

from autograder.suite import (
    N_,
    CheckFailed,
    Draws,
    Student,
    StudentRaised,
    Unsupported,
    ask,
    check,
    error_of,
    expect_finite,
    expect_shape,
    fail,
    is_refusal,
    results,
    with_hint,
)

ENCODING = N_("encoding")
AXES = (N_("place"), N_("column"))
BASE, ATOL = 10_000, 1e-4
LONGEST, BEGINNING, STEADY = 512, 16, 1e-2
"""Places of a long table; those that tell how it begins; by how much a wave may leave its course."""
TURNED = 0.1
"""By how much a hand may miss where its own turn leads: hundreds of turns a place are not exact in float32."""


@functools.cache
def reference(T: int, D: int) -> torch.Tensor:
    """Entry by entry, in Python's own arithmetic; float64."""
    rows = []
    for place in range(T):
        angles = [place / BASE ** (column / D) for column in range(0, D, 2)]
        rows.append([wave(angle) for angle in angles for wave in (math.sin, math.cos)])
    return torch.tensor(rows, dtype=torch.float64)


def sizes(rng: Draws) -> tuple[int, int]:
    """T and D: neither is the other, or half of it, or twice."""
    places, width = (9, 11, 13), (8, 10, 12, 14)
    return places[int(rng.integers(len(places)))], width[int(rng.integers(len(width)))]


class Waves(NamedTuple):
    """An encoding, taken apart.

    Attributes:
        sines, cosines: (T, D/2) each, in the order of their columns.
        start: the place that the first row belongs to, as far as it looks like one: 0 or 1.
    """

    sines: torch.Tensor
    cosines: torch.Tensor
    start: int


def encode_anyhow(student: Student, T: int, D: int) -> torch.Tensor:
    """The student's (T, D) in float64, also where its axes came in another order, or its rows in a list."""
    encoding = in_one(ask(student, T, D), T)
    shape = tuple(encoding.shape)
    without_ones = [size for size in shape if size != 1]
    if without_ones == [size for size in (T, D) if size != 1] or shape == (T, D // 2, 2):
        encoding = encoding.reshape(T, D)
    elif shape == (D, T):
        encoding = encoding.T
    elif T == 1 and encoding.numel() == D:
        encoding = encoding.reshape(1, D)
    expect_shape(encoding, (T, D), ENCODING)
    expect_finite(encoding, ENCODING, AXES)
    return encoding.detach().double()


def encode_or_begin(student: Student, T: int, D: int) -> torch.Tensor:
    """The student's (T, D), or its (1, D) where that is all that it can make."""
    try:
        return encode_anyhow(student, T, D)
    except (CheckFailed, StudentRaised) as no:
        try:
            return encode_anyhow(student, 1, D)
        except (CheckFailed, StudentRaised):
            raise no from None


def in_one(value: Any, T: int) -> torch.Tensor:
    """The one tensor that a call returned; also where it came as a list of T rows."""
    joined = _joined(value) if isinstance(value, list | tuple) and len(value) == T else None
    (encoding,) = results(value if value is None else (value if joined is None else joined,), encoding=None)
    return encoding


def _joined(value: Any) -> torch.Tensor | None:
    if isinstance(value, list | tuple):
        parts = [_joined(part) for part in value]
        alike = parts and all(part is not None and part.shape == parts[0].shape for part in parts)
        return torch.stack(parts) if alike else None
    if isinstance(value, int | float):
        return torch.tensor(float(value))
    return value if isinstance(value, torch.Tensor) else None


def taken_apart(encoding: torch.Tensor) -> Waves:
    """The waves of an encoding; by their columns where place 0 does not tell which is which."""
    width, first = encoding.shape[1], encoding[0]
    zeros, ones = first.abs() < ATOL, (first - 1).abs() < ATOL
    if int(zeros.sum()) == int(ones.sum()) == width // 2:
        return Waves(encoding[:, zeros], encoding[:, ones], 0)
    late = (first - reference(2, width)[1]).abs().max() < ATOL
    return Waves(encoding[:, ::2], encoding[:, 1::2], int(late))


def expected_waves(waves: Waves) -> Waves:
    """What a table that begins where this one does should hold."""
    length, hands = waves.sines.shape
    right = reference(length + waves.start, 2 * hands)[waves.start :]
    return Waves(right[:, ::2], right[:, 1::2], waves.start)


def differ(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Which entries do."""
    return (found - expected).abs() > ATOL


def expect_same(says: str, found: torch.Tensor, expected: torch.Tensor, start: int, later: str | None = None) -> None:
    """(T, D/2) each.

    Args:
        says: has ``{place}``, ``{hand}``, ``{seen}``, ``{expected}``, ``{count}``, ``{total}``, ``{T}``, ``{D}``.
        later: the hint where the places 0 and 1 are right, and the check's own would not fit.
    """
    wrong = differ(found, expected)
    if wrong.any():
        row, hand = wrong.nonzero()[0].tolist()
        said = {"place": start + row, "hand": hand, "seen": f"{float(found[row, hand]):.4f}",
                "expected": f"{float(expected[row, hand]):.4f}", "count": int(wrong.sum()), "total": wrong.numel(),
                "T": len(found), "D": 2 * found.shape[1]}  # fmt: skip
        if later is None or start + row <= 1:
            fail(says, **said)
        fail(says, hint=later, **said)


SINES = N_(
    "the sine of hand {hand} at place {place} is {seen}, expected {expected} (T = {T}, D = {D}; {count} of {total} "
    "sines differ)"
)
COSINES = N_(
    "the cosine of hand {hand} at place {place} is {seen}, expected {expected} (T = {T}, D = {D}; {count} of "
    "{total} cosines differ)"
)


@check(
    points=0.5,
    title=N_("Numbers come back, if only for one place"),
    hint=N_("Print what your function returns for T = 3 and D = 8, and for T = 1. What should there be?"),
)
def test_numbers(student: Student, rng: Draws) -> None:
    T, D = sizes(rng)
    try:
        encode_or_begin(student, T, D)
    except StudentRaised as raised:
        if is_refusal(raised) and (raised.by_hand or "AssertionError" in raised.bases):
            fail(
                N_("with D = {D}, which is even, your function raises {error}"),
                hint=N_(
                    "What does the condition before that line come to for 8, and for 7? In words: what tells even "
                    "numbers from odd ones?"
                ),
                D=D,
                error=error_of(raised),
            )
        if "bitwise_xor" in raised.message or "for ^" in raised.message:
            fail(N_("your function raises {error}: in Python `^` is no power but compares bits; `**` is the power"),
                 says_all=True, error=error_of(raised))  # fmt: skip
        raise


@check(
    points=0.5,
    title=N_("Every place has its row, the same at every call, and rows differ"),
    hint=N_("Print what your function returns for T = 3 and D = 8, twice. How many rows are there, and of what?"),
    needs="numbers",
)
def test_rows(student: Student, rng: Draws) -> None:
    T, D = sizes(rng)
    try:
        first = encode_anyhow(student, T, D)
    except StudentRaised as raised:
        if "RuntimeError" not in raised.bases or "size" not in raised.message:
            raise
        fail(
            N_("with T = {T} and D = {D} your function raises {error}; with T = 1 it goes through"),
            hint=N_(
                "The angles are a table: a row for each place, a column for each hand. Print the shapes of both before "
                "that line: along which axis does each of them run?"
            ),
            T=T,
            D=D,
            error=error_of(raised),
        )
    if not differ(first, first[0]).any():
        fail(N_("all {T} rows of your encoding are alike: no place can be told from another"), T=T)
    if not torch.equal(first, encode_anyhow(student, T, D)):
        fail(N_("two calls with T = {T} and D = {D} give two different encodings"), T=T, D=D)


@check(
    points=0.5,
    title=N_("It is one tensor of shape (T, D), also for one place, and for one hand"),
    hint=N_(
        "Print the shape of your encoding for T = 3 and D = 8. To be added to three words of eight numbers each, which "
        "shape does it need?"
    ),
    needs="rows",
)
def test_shape(student: Student, rng: Draws) -> None:
    T, D = sizes(rng)
    expect_table(student, T, D)
    expect_table(student, 6, 6)
    for small in ((1, D), (T, 2), (1, 2)):
        try:
            with_hint(
                N_("Which of your steps treats an axis of size 1 in a way of its own?"), expect_table, student, *small
            )
        except StudentRaised as raised:
            fail(
                N_("with T = {T} and D = {D} your function raises {error}; with larger sizes it goes through"),
                hint=N_("Try T = 1 and D = 2, apart and together. Print the shapes before that line."),
                T=small[0],
                D=small[1],
                error=error_of(raised),
            )


def expect_table(student: Student, T: int, D: int) -> None:
    """One tensor (T, D), of numbers."""
    value = ask(student, T, D)
    if isinstance(value, list | tuple):
        fail(
            N_("with T = {T} and D = {D} your function returns a {type} of {count} entries, expected one tensor"),
            hint=N_("A list of rows is added to nothing. Which function of torch makes one tensor of what you have?"),
            T=T,
            D=D,
            type=type(value).__name__,
            count=len(value),
        )
    encoding = in_one(value, T)
    if tuple(encoding.shape) != (T, D):
        fail(N_("with T = {T} and D = {D} the shape of your encoding is {seen}, expected {expected}"),
             T=T, D=D, seen=str(tuple(encoding.shape)), expected=str((T, D)))  # fmt: skip
    expect_finite(encoding, ENCODING, AXES)


@check(
    points=1,
    title=N_("Sines stand in even columns, cosines in odd ones: place 0 is 0, 1, 0, 1, …"),
    hint=N_(
        "Print the first row, with D = 6. Its angles are all 0: what are the sine and the cosine of that, and in "
        "which columns do they belong?"
    ),
    needs="numbers",
)
def test_place_zero(student: Student, rng: Draws) -> None:
    T, D = sizes(rng)
    first = encode_or_begin(student, T, D)[0]
    expected = torch.tensor([0.0, 1.0] * (D // 2), dtype=torch.float64)
    wrong = differ(first, expected)
    if wrong.any():
        fail(N_("your row of place 0 begins with {seen}, …, expected {expected}, … ({count} of its {total} numbers "
                "differ)"),
             seen=_row(first), expected=_row(expected), count=int(wrong.sum()), total=D)  # fmt: skip


def _row(row: torch.Tensor) -> str:
    return ", ".join(f"{float(entry):.3g}" for entry in row[:4])


@check(
    points=1,
    title=N_("Hand i turns by 10000^(-2i/D) from one place to the next, as its sine tells"),
    hint=N_(
        "With D = 4 there are two hands, and 10000 to the power of -2/4 is 0.01. Print the first rows: by what does "
        "the angle grow in column 0, and by what in column 2?"
    ),
    needs="rows",
)
def test_sines(student: Student, rng: Draws) -> None:
    waves = taken_apart(encode_anyhow(student, *sizes(rng)))
    later = N_(
        "The sines of places 0 and 1 are right; further on they go astray. Print the angles of hand 0 for ten "
        "places: by how much does each differ from the one before?"
    )
    expect_same(SINES, waves.sines, expected_waves(waves).sines, waves.start, later)


@check(
    points=1,
    title=N_("The cosine of each hand is that of the same angle as its sine"),
    hint=N_(
        "Columns 2i and 2i + 1 share one angle. Square the two and add them up: what must come out at every place, "
        "whatever the angle is?"
    ),
    needs="rows",
)
def test_cosines(student: Student, rng: Draws) -> None:
    waves = taken_apart(encode_anyhow(student, *sizes(rng)))
    expected = expected_waves(waves)
    if not differ(waves.cosines, expected.cosines).any():
        return
    if not differ(waves.sines, expected.sines).any():
        expect_same(COSINES, waves.cosines, expected.cosines, waves.start)
    expect_one_angle(waves)


def expect_one_angle(waves: Waves) -> None:
    """Sine and cosine of each hand (T, D/2) belong together, however fast the hand is."""
    sines, cosines, start = waves
    squares = sines**2 + cosines**2
    wrong = differ(squares, torch.ones_like(squares))
    if wrong.any():
        row, hand = wrong.nonzero()[0].tolist()
        fail(N_("sine and cosine of hand {hand} at place {place} are {sine} and {cosine}: their squares add up to "
                "{sum}, expected 1, as for any angle"),
             hand=hand, place=start + row, sine=f"{float(sines[row, hand]):.4f}",
             cosine=f"{float(cosines[row, hand]):.4f}", sum=f"{float(squares[row, hand]):.4f}")  # fmt: skip
    tips = torch.complex(cosines, sines)
    turned = tips[:-1] * (tips[1] * tips[0].conj())
    wrong = ((tips[1:] - turned).abs() > TURNED) & ~unsteady(sines).any(0)
    if wrong.any():
        row, hand = wrong.nonzero()[0].tolist()
        fail(
            N_(
                "the cosine of hand {hand} at place {place} is {seen}, expected {expected}, if it turns on as from "
                "place {first} to place {second}"
            ),
            hint=N_(
                "The square of a cosine doesn't tell its sign. How does your cosine become negative, where it should?"
            ),
            hand=hand,
            place=start + row + 1,
            first=start,
            second=start + 1,
            seen=f"{float(cosines[row + 1, hand]):.4f}",
            expected=f"{float(turned[row, hand].real):.4f}",
        )


@check(
    points=0.5,
    title=N_("A long table holds as well: 512 places"),
    hint=N_(
        "Compare the last row for T = 512 with what Python's math.sin says. Is each angle still the turn of its hand "
        "times its place (remainders and small dtypes lose some of it)? How many places is the table made for?"
    ),
    needs="rows",
)
def test_long(student: Student, rng: Draws) -> None:
    encoding = encode_anyhow(student, LONGEST, sizes(rng)[1])
    waves = taken_apart(encoding)
    expected = expected_waves(waves)
    sines, cosines = (differ(*both)[:BEGINNING].any(0) for both in zip(waves[:2], expected[:2], strict=True))
    # How it begins was paid for: what begins well is looked at, or else whether any wave breaks off.
    only_cosines = cosines.any() and not sines.any()
    well = ~sines if only_cosines else ~(sines | cosines)
    if not well.any():
        expect_steady(encoding, waves.start)
        return
    expect_same(SINES, waves.sines.where(well, expected.sines), expected.sines, waves.start)
    if not only_cosines:
        expect_same(COSINES, waves.cosines.where(well, expected.cosines), expected.cosines, waves.start)


def unsteady(waves: torch.Tensor) -> torch.Tensor:
    """Where columns of (T, any) leave their course; of a wave x[t + 1] + x[t - 1] is one multiple of x[t], everywhere.

    Returns:
        (T - 2, any), from row 1 on.
    """
    outer, inner = waves[2:] + waves[:-2], waves[1:-1]
    first = slice(BEGINNING)
    multiple = (outer[first] * inner[first]).sum(0) / (inner[first] ** 2).sum(0).clamp(min=1e-30)
    return (outer - multiple * inner).abs() > STEADY


def expect_steady(encoding: torch.Tensor, start: int) -> None:
    """Each column of (T, D) goes on as it began."""
    wrong = unsteady(encoding).any(1)
    if wrong.any():
        fail(N_("your encoding does not go on as it began (T = {places}): a wave breaks off near place {place}"),
             places=len(encoding), place=start + 1 + int(wrong.int().argmax()))  # fmt: skip


@check(
    points=0.5,
    title=N_("The encoding is float32"),
    hint=N_("Print the dtype of your encoding. Which of your steps brings another one in?"),
    needs="numbers",
)
def test_dtype(student: Student, rng: Draws) -> None:
    T, D = sizes(rng)
    try:
        encoding = in_one(ask(student, T, D), T)
    except StudentRaised:
        encoding = in_one(ask(student, 1, D), 1)
    if encoding.dtype != torch.float32:
        fail(N_("the dtype of your encoding is {seen}, expected float32"),
             seen=str(encoding.dtype).removeprefix("torch."))  # fmt: skip


@check(
    points=0.5,
    title=N_("An odd D is refused with a ValueError"),
    hint=N_("Seven columns can't be shared out in pairs. What does your answer do then, and who would notice?"),
)
def test_odd(student: Student, rng: Draws) -> None:
    T, D = sizes(rng)
    with_even = error_with(student, T, D)
    if with_even is not None and is_refusal(with_even):
        fail(N_("with D = {D}, which is even, your function raises {error}, so that its errors tell nothing yet"),
             says_all=True, D=D, error=with_even.type_name)  # fmt: skip
    for width in (D - 1, 1):
        try:
            found = ask(student, T, width)
        except StudentRaised as raised:
            if with_even is not None and str(raised) == str(with_even):
                raise  # it comes for any D, and was told of
            if not is_refusal(raised):
                fail(N_("with D = {D} your function raises {seen}, expected ValueError"),
                     D=width, seen=raised.type_name)  # fmt: skip
        else:
            _fail_for_result(found, width)


def error_with(student: Student, T: int, D: int) -> StudentRaised | None:
    """What a call ends in."""
    try:
        ask(student, T, D)
    except StudentRaised as raised:
        return raised
    return None


def _fail_for_result(found: object, width: int) -> None:
    if isinstance(found, torch.Tensor):
        fail(N_("with D = {D} your function returns a tensor of shape {seen}, expected ValueError"),
             D=width, seen=str(tuple(found.shape)))  # fmt: skip
    if isinstance(found, Unsupported) and found.type_name.endswith(("ValueError", "AssertionError")):
        fail(N_("with D = {D} your function returns a {seen} as its result, and an error has to be raised"),
             D=width, seen=found.type_name)  # fmt: skip
    fail(N_("with D = {D} your function ends without an error, expected ValueError"), D=width)
