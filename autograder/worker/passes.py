"""Counts backward passes: what is said of a training can be held against how often gradients were computed.

Where the passes themselves can't be seen (scripted code), the steps of torch's optimizers are. The count is kept in the
process of those whom it is about, and can be forged there, as their numbers can.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

_passes = 0
_steps = 0


def so_far() -> tuple[int, int]:
    """How many passes, and how many steps of optimizers, this process has seen."""
    return _passes, _steps


def passes_since(before: tuple[int, int]) -> int:
    """How many passes there were since then; at least as many as steps."""
    passes, steps = before
    return max(_passes - passes, _steps - steps)


def count_passes() -> None:
    """Count from now on; a second call changes nothing."""
    if hasattr(torch.autograd.backward, "__wrapped__"):
        return
    for name in ("backward", "grad"):
        setattr(torch.autograd, name, _counted(getattr(torch.autograd, name)))
    register_optimizer_step_post_hook(_note_step)


def _note_step(*_: Any) -> None:
    global _steps
    _steps += 1


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        global _passes
        _passes += 1
        return function(*args, **kwargs)

    return counted
