"""Counts backward passes: what is said of a training can be held against how often gradients were computed.

The count is kept in the process of those whom it is about, and can be forged there, as their numbers can.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_count = 0


def passes() -> int:
    """How many there were in this process so far, from the first call of `count_passes` on."""
    return _count


def count_passes() -> None:
    """Count from now on, by all of torch's ways to ask for gradients; a second call changes nothing."""
    for name in ("backward", "grad"):
        function = getattr(torch.autograd, name)
        if not hasattr(function, "__wrapped__"):
            setattr(torch.autograd, name, _counted(function))


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        global _count
        _count += 1
        return function(*args, **kwargs)

    return counted
