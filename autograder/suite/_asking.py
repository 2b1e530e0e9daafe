"""How a hidden suite calls the student's function: with copies, and in float32 where it can't take float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.channel.proxy import Student, StudentRaised


def ask(student: Student, *args: Any, **kwargs: Any) -> Any:
    """Call the student's function on copies of all tensors: what it changes does not pile up.

    Returns:
        What it returned.

    Raises:
        StudentRaised: it raised.
    """
    return student(*map(_copy, args), **{name: _copy(value) for name, value in kwargs.items()})


def ask_exactly(student: Student, *args: Any, **kwargs: Any) -> Any:
    """As `ask`, for float64 inputs; in float32 where the function can't take float64.

    A wrong dtype is then paid for once, by the check that asks for dtypes.

    Raises:
        StudentRaised: what it raised in float64, when it raises in both.
    """
    try:
        return ask(student, *args, **kwargs)
    except StudentRaised as raised:
        try:
            return ask(student, *map(_narrow, args), **{name: _narrow(value) for name, value in kwargs.items()})
        except StudentRaised:
            raise raised from None


def with_last(call: Callable[..., Any], *args: Any, last: Any) -> Any:
    """What `call` gives for `args` and one more; without it where the function takes no more arguments yet.

    A wrong default is then paid for once, by the check that asks for defaults.
    """
    try:
        return call(*args, last)
    except StudentRaised as raised:
        if "TypeError" not in raised.bases:
            raise
    return call(*args)


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _narrow(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.float64 else value
