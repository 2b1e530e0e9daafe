"""What hidden suites say about a result that is one number, such as a loss."""

from __future__ import annotations

from typing import Any

import torch

from autograder.messages import N_
from autograder.suite._checks import fail
from autograder.suite._tensors import results

TOLERANCES = {torch.float64: 1e-6, torch.float32: 1e-4}
"""Relative to the number, or to 1 where that is less; other dtypes are coarse."""


def one_number(value: Any) -> torch.Tensor:
    """One number as a tensor without axes, whatever it is wrapped in: a plain number, a tensor with one entry.

    A check of its own may be stricter.
    """
    if isinstance(value, int | float):
        return torch.tensor(float(value), dtype=torch.float64)
    if isinstance(value, torch.Tensor) and not value.is_complex():
        if value.numel() != 1:
            fail(N_("the shape of your loss is {seen}, expected a single number, without any axes"),
                 seen=str(tuple(value.shape)))  # fmt: skip
        return value.reshape(()) if value.is_floating_point() else value.reshape(()).double()
    (loss,) = results(value if value is None else (value,), loss=())
    return loss


def same_number(seen: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether two numbers are the same, as fits the coarser dtype."""
    tolerance = max(TOLERANCES.get(x.dtype, 1e-2) for x in (seen, wanted))
    a, b = float(seen.detach()), float(wanted.detach())
    return abs(a - b) <= tolerance * max(1.0, abs(b))


def expect_same_number(seen: torch.Tensor, wanted: torch.Tensor, says: str, **args: Any) -> None:
    """Two numbers are the same; otherwise `says`, a sentence with ``{seen}`` and ``{expected}``."""
    if not same_number(seen, wanted):
        fail(says, seen=number_text(seen), expected=number_text(wanted), **args)


def number_text(number: torch.Tensor) -> str:
    """A number, for people."""
    return f"{float(number.detach()) + 0.0:.6g}"  # no -0


def largest_change(before: torch.Tensor, exact: torch.Tensor) -> float:
    """By how much a result may move where nothing changed that has a say.

    That is 1e-10 in float64; an answer that is coarse in itself (float32 inside) can't be asked to be finer.

    Args:
        before: the student's result.
        exact: the right one.
    """
    own = float((before.detach().double() - exact.detach().double()).abs().max())
    return 1e-10 + 10 * min(own, 1e-7) if before.dtype == torch.float64 else 1e-5
