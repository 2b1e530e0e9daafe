"""Proves that an answer counts the bytes of attention weights: ``batch · heads · query_len · key_len`` entries.

What the number grows with is asked factor by factor, by ratios: a factor that is forgotten, or a unit that is wrong,
is paid for once. All these sizes are even enough for bytes, KiB and bits to be whole. An answer may make a tensor and
measure it, so that nothing here is large.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple, NoReturn

import torch

from autograder.suite import (
    N_,
    Draws,
    Student,
    StudentRaised,
    ask,
    check,
    described,
    error_of,
    fail,
    with_last,
)

KIND = N_("Print type(...) of what your function returns. Which of your steps makes something else of whole numbers?")


class Sizes(NamedTuple):
    """What the function is asked about, in its own order."""

    batch: int
    num_heads: int
    query_len: int
    key_len: int


def reference(sizes: Sizes, dtype: torch.dtype = torch.float32) -> int:
    """What torch counts for such a tensor, which lies nowhere."""
    return torch.empty(sizes, dtype=dtype, device="meta").nbytes


def draw(rng: Draws) -> Sizes:
    """All four sizes differ; query_len · key_len entries of one byte are whole KiB."""
    batch, heads = rng.shuffled((2, 3, 5)).tolist()[:2]
    queries, keys = rng.shuffled((32, 64, 96)).tolist()[:2]
    return Sizes(batch, heads, queries, keys)


def count(student: Student, sizes: Sizes, dtype: torch.dtype = torch.float32) -> Fraction:
    """The student's number, also a float or a tensor: whether it is an int has a check of its own."""
    return number_of(with_last(ask, student, *sizes, last=dtype), sizes)


def number_of(value: object, sizes: Sizes) -> Fraction:
    """The number that a value is."""
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        value = value.item()
    if not isinstance(value, int | float) or isinstance(value, bool):
        _fail_fordescribed(value, sizes)
    if value != value or value in (float("inf"), -float("inf")):
        fail(N_("for {sizes} your function returns {seen}"), sizes=text(sizes), seen=str(value))
    return Fraction(value)


def text(sizes: Sizes) -> str:
    """Sizes, for people."""
    return ", ".join(f"{name}={size}" for name, size in sizes._asdict().items())


def _fail_fordescribed(value: object, sizes: Sizes) -> NoReturn:
    if value is None:
        fail(N_("for {sizes} your function returns None: does it end with a return?"), says_all=True, sizes=text(sizes))
    fail(
        N_("for {sizes} your function returns {kind}, expected an int"),
        hint=KIND,
        sizes=text(sizes),
        kind=described(value),
    )


def _shown(number: Fraction) -> str:
    return str(number) if number.denominator == 1 else f"{float(number):.10g}"


@check(
    points=0.5,
    title=N_("A number comes back, and it is larger for larger sizes"),
    hint=N_("Print what your function returns for the sizes 1, 1, 2, 3, and for 1, 1, 4, 6. Which one should be more?"),
)
def test_number(student: Student, rng: Draws) -> None:
    sizes = draw(rng)
    more = sizes._replace(query_len=2 * sizes.query_len, key_len=2 * sizes.key_len)
    try:
        before, after = count(student, sizes), count(student, more)
    except StudentRaised as raised:
        if "itemsize" in raised.code and "not callable" in raised.message:
            fail(N_("your function raises {error}: itemsize is a number already, and a number can't be called"),
                 says_all=True, error=error_of(raised))  # fmt: skip
        raise
    if before == after > 0:
        fail(
            N_("for {sizes} your function says {before}, and the same with twice as many queries and keys"),
            hint=N_("What is it that you measure? Print what your function returns for 1 word, for 10 and for 100."),
            sizes=text(sizes),
            before=_shown(before),
        )
    if not 0 < before < after:
        fail(N_("for {sizes} your function says {before}, and {after} with twice as many queries and keys; expected "
                "more"), sizes=text(sizes), before=_shown(before), after=_shown(after))  # fmt: skip


@check(
    points=0.5,
    title=N_("It is a whole number, an int"),
    hint=KIND,
    needs="number",
)
def test_whole_number(student: Student, rng: Draws) -> None:
    sizes = draw(rng)
    value = with_last(ask, student, *sizes, last=torch.float32)
    if type(value) is not int:
        _fail_fordescribed(value, sizes)


@check(
    points=0.5,
    title=N_("It is the number of bytes: in float32 each weight takes four"),
    hint=N_("One sentence, one head, 2 queries, 3 keys: how many weights are there, and how many bytes is that?"),
    needs="number",
)
def test_bytes(student: Student, rng: Draws) -> None:
    # One sentence, one head, as many queries as keys: what else the number depends on is asked below.
    for length in (1, 7, int(rng.shuffled((32, 64, 96))[0])):
        sizes = Sizes(1, 1, length, length)
        seen, expected = count(student, sizes), reference(sizes)
        if seen != expected:
            fail(N_("for {sizes} in float32 your function says {seen}, expected {expected} (bytes)"),
                 sizes=text(sizes), seen=_shown(seen), expected=expected)  # fmt: skip


@check(
    points=1,
    title=N_("It grows with the queries and, as much, with the keys"),
    hint=N_("Every query has one weight for every key. How many are that for 5 queries and 7 keys?"),
    needs="number",
)
def test_lengths(student: Student, rng: Draws) -> None:
    expect_growth(student, draw(rng), "query_len", 2)
    expect_growth(student, draw(rng), "key_len", 3)


@check(
    points=0.5,
    title=N_("Every head has weights of its own"),
    hint=N_("Ask for 1 head and for 8, all other sizes alike. How do the two numbers compare, and how should they?"),
    needs="number",
)
def test_heads(student: Student, rng: Draws) -> None:
    expect_growth(student, draw(rng), "num_heads", 3)


@check(
    points=0.5,
    title=N_("Every sentence of the batch has weights of its own"),
    hint=N_(
        "Ask for 1 sentence and for 10, all other sizes alike. How do the two numbers compare, and how should they?"
    ),
    needs="number",
)
def test_batch(student: Student, rng: Draws) -> None:
    expect_growth(student, draw(rng), "batch", 3)


def expect_growth(student: Student, sizes: Sizes, name: str, times: int) -> None:
    """The number grows `times` when the size called `name` does, whatever it was before."""
    more = sizes._replace(**{name: times * getattr(sizes, name)})
    before, after = count(student, sizes), count(student, more)
    if after != times * before:
        fail(
            N_("for {sizes} your function says {before}; with {name}={size} it says {after}, expected {times} times as "
               "much"),
            sizes=text(sizes), before=_shown(before), name=name, size=getattr(more, name), after=_shown(after),
            times=times,
        )  # fmt: skip


@check(
    points=0.5,
    title=N_("The dtype counts: float64, float32 (the default), float16, bfloat16, one of 8 bits"),
    hint=N_("How many bytes has one number of each dtype? A dtype can be asked for that; print dir(torch.float64)."),
    needs="number",
)
def test_dtypes(student: Student, rng: Draws) -> None:
    sizes = draw(rng)
    single = count(student, sizes)
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn):
        seen = number_of(ask_in(student, sizes, dtype), sizes)
        expected = single * dtype.itemsize / torch.float32.itemsize
        if seen != expected:
            fail(N_("for {sizes} your function says {single} in float32 and {seen} in {dtype}, expected {expected} "
                    "there"),
                 sizes=text(sizes), single=_shown(single), seen=_shown(seen), expected=_shown(expected),
                 dtype=name_of(dtype))  # fmt: skip
    by_default = number_of(ask(student, *sizes), sizes)
    if by_default != single:
        fail(N_("for {sizes} your function says {single} in float32 and {seen} without a dtype, where float32 is the "
                "default"), sizes=text(sizes), single=_shown(single), seen=_shown(by_default))  # fmt: skip


def ask_in(student: Student, sizes: Sizes, dtype: torch.dtype) -> object:
    """What the student's function returns for a dtype."""
    try:
        return ask(student, *sizes, dtype=dtype)
    except StudentRaised as raised:
        if "TypeError" in raised.bases and "keyword argument" in raised.message:
            fail(N_("your function can't be called with dtype={dtype}: its last argument should be called dtype, and "
                    "be torch.float32 where it is left out"), says_all=True, dtype=str(dtype))  # fmt: skip
        fail(
            N_("in {dtype} your function raises {error}; in float32 it does not"),
            hint=N_(
                "A dtype can tell the size of its numbers, without a list of names or a look at its letters. Print "
                "dir(torch.float64)."
            ),
            dtype=name_of(dtype),
            error=error_of(raised),
        )


def name_of(dtype: torch.dtype) -> str:
    """As torch calls it."""
    return str(dtype).removeprefix("torch.")
